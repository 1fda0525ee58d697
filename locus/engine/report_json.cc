// The JSON of a whole report: findings, ledger and program, and the forgiving parser that reads what Python wrote.
// The findings' own fields are in finding.cc.
#include <algorithm>
#include <cctype>
#include <utility>

#include "locus/engine/json_fields.h"
#include "locus/engine/report.h"
#include "locus/engine/utf8.h"
#include "locus/engine/verdict.h"

namespace locus::engine {

using fields::Fields;
using fields::list;

void from_json(const Json& json, Transfer& transfer) {
  Fields(json, "a transfer")("file", transfer.file)("line", transfer.line)("from", transfer.from)("to", transfer.to)(
      "count", transfer.count)("bytes", transfer.bytes)("note", transfer.note)("milliseconds", transfer.milliseconds)(
      "text", transfer.text);
}

void to_json(Json& json, const Transfer& transfer) {
  json = Json::object();
  json["file"] = transfer.file;
  json["line"] = transfer.line;
  json["from"] = transfer.from;
  json["to"] = transfer.to;
  json["count"] = transfer.count;
  json["bytes"] = transfer.bytes;
  json["note"] = transfer.note;
  if (transfer.milliseconds > 0) json["milliseconds"] = transfer.milliseconds;
  json["text"] = transfer.text;
}

void from_json(const Json& json, Sync& sync) {
  Fields(json, "a synchronization")("file", sync.file)("line", sync.line)("kind", sync.kind)("count", sync.count)(
      "milliseconds", sync.milliseconds)("text", sync.text);
}

void to_json(Json& json, const Sync& sync) {
  json = Json::object();
  json["file"] = sync.file;
  json["line"] = sync.line;
  json["kind"] = sync.kind;
  json["count"] = sync.count;
  if (sync.milliseconds > 0) json["milliseconds"] = sync.milliseconds;
  json["text"] = sync.text;
}

void from_json(const Json& json, LineMemory& memory) {
  Fields(json, "a line's memory")("file", memory.file)("line", memory.line)("bytes", memory.bytes)(
      "count", memory.count)("text", memory.text)("category", memory.category);
}

void to_json(Json& json, const LineMemory& memory) {
  json = Json::object();
  json["file"] = memory.file;
  json["line"] = memory.line;
  json["bytes"] = memory.bytes;
  json["count"] = memory.count;
  json["text"] = memory.text;
  json["category"] = memory.category;
}

void from_json(const Json& json, CategoryMemory& memory) {
  Fields(json, "a category's memory")("category", memory.category)("bytes", memory.bytes);
}

void to_json(Json& json, const CategoryMemory& memory) {
  json = Json::object();
  json["category"] = memory.category;
  json["bytes"] = memory.bytes;
}

void from_json(const Json& json, ModuleMemory& memory) {
  Fields(json, "a module's memory")("module", memory.module)("bytes", memory.bytes);
}

void to_json(Json& json, const ModuleMemory& memory) {
  json = Json::object();
  json["module"] = memory.module;
  json["bytes"] = memory.bytes;
}

void from_json(const Json& json, GrowingMemory& memory) {
  Fields(json, "memory that grows")("file", memory.file)("line", memory.line)("bytes", memory.bytes)(
      "steps", memory.steps)("text", memory.text)("holder", memory.holder);
}

void to_json(Json& json, const GrowingMemory& memory) {
  json = Json::object();
  json["file"] = memory.file;
  json["line"] = memory.line;
  json["bytes"] = memory.bytes;
  json["steps"] = memory.steps;
  json["text"] = memory.text;
  json["holder"] = memory.holder;
}

void from_json(const Json& json, CategoryTimeline& timeline) {
  Fields(json, "a category's timeline")("category", timeline.category)("bytes", timeline.bytes);
}

void to_json(Json& json, const CategoryTimeline& timeline) {
  json = Json::object();
  json["category"] = timeline.category;
  json["bytes"] = list(timeline.bytes);
}

void from_json(const Json& json, MemoryTimeline& timeline) {
  Fields(json, "a timeline")("events", timeline.events)("low", timeline.low)("high", timeline.high)(
      "step", timeline.step)("by_category", timeline.by_category);
}

void to_json(Json& json, const MemoryTimeline& timeline) {
  json = Json::object();
  json["events"] = timeline.events;
  json["low"] = list(timeline.low);
  json["high"] = list(timeline.high);
  json["step"] = list(timeline.step);
  json["by_category"] = list(timeline.by_category);
}

// In JSON the device's name is the key in front of this object.
void from_json(const Json& json, DeviceMemory& memory) {
  Fields(json, "a device's memory")("peak", memory.peak)("by_line", memory.by_line)("capacity", memory.capacity)(
      "timeline", memory.timeline)("by_category", memory.by_category)("activations_by_module", memory.by_module)(
      "growing", memory.growing);
}

void to_json(Json& json, const DeviceMemory& memory) {
  json = Json::object();
  json["peak"] = memory.peak;
  json["by_line"] = list(memory.by_line);
  json["capacity"] = memory.capacity;
  json["timeline"] = memory.timeline;
  json["by_category"] = list(memory.by_category);
  json["activations_by_module"] = list(memory.by_module);
  json["growing"] = list(memory.growing);
}

void from_json(const Json& json, ModelRow& row) {
  Fields(json, "a row of a model")("depth", row.depth)("name", row.name)("class", row.class_name)("kind", row.kind)(
      "device", row.device)("shape", row.shape)("dtype", row.dtype)("bytes", row.bytes)("reached", row.reached);
}

void to_json(Json& json, const ModelRow& row) {
  json = Json::object();
  json["depth"] = row.depth;
  json["name"] = row.name;
  json["class"] = row.class_name;
  json["kind"] = row.kind;
  json["device"] = row.device;
  json["shape"] = list(row.shape);
  json["dtype"] = row.dtype;
  json["bytes"] = row.bytes;
  json["reached"] = row.reached;
}

void from_json(const Json& json, Model& model) {
  Fields(json, "a model")("name", model.name)("class", model.class_name)("rows", model.rows)("more_rows",
                                                                                             model.more_rows);
}

void to_json(Json& json, const Model& model) {
  json = Json::object();
  json["name"] = model.name;
  json["class"] = model.class_name;
  json["rows"] = list(model.rows);
  json["more_rows"] = model.more_rows;
}

void from_json(const Json& json, MadeUpLine& line) {
  const Fields fields(json, "something made up");
  fields("file", line.file)("line", line.line)("kind", line.kind)("operation", line.operation)("count", line.count)(
      "bytes", line.bytes)("text", line.text);
}

void to_json(Json& json, const MadeUpLine& line) {
  json = Json::object();
  json["file"] = line.file;
  json["line"] = line.line;
  json["kind"] = line.kind;
  json["operation"] = line.operation;
  json["count"] = line.count;
  json["bytes"] = line.bytes;
  json["text"] = line.text;
}

void from_json(const Json& json, DryRun& dry) {
  const Fields fields(json, "a dry run");
  fields("keep", dry.keep)("shapes", dry.shapes)("made_up", dry.made_up);
}

void to_json(Json& json, const DryRun& dry) {
  json = Json::object();
  json["keep"] = dry.keep;
  json["shapes"] = dry.shapes;
  json["made_up"] = list(dry.made_up);
}

void from_json(const Json& json, Host& host) {
  Fields(json, "a host")("name", host.name)("ranks", host.ranks)("reported", host.reported);
}

void to_json(Json& json, const Host& host) {
  json = {{"name", host.name}, {"ranks", host.ranks}, {"reported", host.reported}};
}

void from_json(const Json& json, Program& program) {
  const Fields fields(json, "a program");
  fields("script", program.script)("argv", program.argv)("steps", program.steps)("ops", program.ops)(
      "ranks", program.ranks)("seconds", program.seconds)("torch", program.torch)("locus", program.locus)(
      "ended_by", program.ended_by)("on_device", program.on_device)("incomplete", program.incomplete)(
      "allow_empty", program.allow_empty)("all_seen", program.all_seen)("hosts", program.hosts);
  if (const auto exit = json.find("exit"); exit != json.end() && exit->is_string()) {
    program.exit = 1;  // as the interpreter does with sys.exit("words")
  } else {
    fields("exit", program.exit);
  }
  // A list of names, or how many there are.
  if (const auto devices = json.find("devices"); devices != json.end() && devices->is_number()) {
    int count = 0;
    fields("devices", count);
    for (int i = 0; i < std::min(count, 1024); ++i) program.devices.push_back("cuda:" + std::to_string(i));
  } else {
    fields("devices", program.devices);
  }
}

void to_json(Json& json, const Program& program) {
  json = Json::object();
  json["script"] = program.script;
  json["argv"] = list(program.argv);
  json["exit"] = program.exit;
  json["ended_by"] = program.ended_by;
  json["steps"] = program.steps;
  json["ops"] = program.ops;
  json["on_device"] = program.on_device;
  json["incomplete"] = program.incomplete;
  json["allow_empty"] = program.allow_empty;
  json["all_seen"] = program.all_seen;
  json["ranks"] = program.ranks;
  if (!program.hosts.empty()) json["hosts"] = list(program.hosts);
  json["seconds"] = program.seconds;
  json["devices"] = list(program.devices);
  json["torch"] = program.torch;
  json["locus"] = program.locus;
}

void from_json(const Json& json, Report& report) {
  const Fields fields(json, "a report");
  fields("version", report.version);
  if (report.version < kOldestReportVersion || report.version > kReportVersion) {
    throw FormatError("version", "expected " + std::to_string(kOldestReportVersion) + " to " +
                                     std::to_string(kReportVersion) + ", got " + std::to_string(report.version) +
                                     "; this report is of another Locus");
  }
  report.version = kReportVersion;  // what is written again is written as of today
  fields("findings", report.findings)("transfers", report.transfers)("syncs", report.syncs)("models", report.models)(
      "program", report.program)("notes", report.notes)("ignored", report.ignored)("not_run", report.not_run)(
      "baseline", report.baseline)("dry", report.dry)("cluster", report.cluster);

  const auto memory = json.find("memory");
  if (memory == json.end() || memory->is_null()) return;
  try {
    const Fields devices(*memory, "an object of devices");
    for (const auto& [device, ignored] : memory->items()) {
      DeviceMemory& each = report.memory.emplace_back();
      each.device = device;
      devices(device.c_str(), each);
    }
  } catch (const FormatError& error) {
    throw FormatError(fields::join_path("memory", error.where()), error.problem());
  }
}

void to_json(Json& json, const Report& report) {
  json = Json::object();
  json["version"] = report.version;
  // Follows from the rest: written for readers, never read back.
  json["verdict"] = {
      {"is", to_string(judge(report))}, {"finished", is_finished(report.program)}, {"exit", exit_status(report)}};
  json["findings"] = list(report.findings);
  json["transfers"] = list(report.transfers);
  json["syncs"] = list(report.syncs);
  Json& memory = json["memory"] = Json::object();
  for (const DeviceMemory& device : report.memory) memory[device.device] = device;
  json["models"] = list(report.models);
  json["program"] = report.program;
  json["notes"] = list(report.notes);
  json["ignored"] = list(report.ignored);
  json["not_run"] = list(report.not_run);
  json["baseline"] = fields::or_null(report.baseline);
  json["dry"] = fields::or_null(report.dry);
  if (report.cluster) json["cluster"] = *report.cluster;
}

namespace {

/// The four hexadecimal digits of a \u escape; -1 when they are not four.
int escape_value(std::string_view text, std::size_t at) {
  if (at + 6 > text.size() || text[at] != '\\' || text[at + 1] != 'u') return -1;
  int value = 0;
  for (std::size_t i = at + 2; i < at + 6; ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    if (std::isxdigit(c) == 0) return -1;
    value = value * 16 + (c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10);
  }
  return value;
}

/// Python writes a file name that is not UTF-8 with lone surrogates, which are not JSON: those become U+FFFD.
std::string without_lone_surrogates(std::string text) {
  for (std::size_t at = text.find('\\'); at != std::string::npos && at + 1 < text.size(); at = text.find('\\', at)) {
    const int value = escape_value(text, at);
    if (value < 0) {
      at += 2;  // another escape; its second character may be a backslash too
      continue;
    }
    const bool high = value >= 0xd800 && value < 0xdc00, low = value >= 0xdc00 && value < 0xe000;
    const int next = high ? escape_value(text, at + 6) : -1;
    if (high && next >= 0xdc00 && next < 0xe000) {
      at += 12;
      continue;
    }
    if (high || low) text.replace(at + 2, 4, "fffd");
    at += 6;
  }
  return text;
}

}  // namespace

Json parse_json(std::string_view text) {
  try {
    return Json::parse(without_lone_surrogates(valid_utf8(text)));
  } catch (const nlohmann::json::exception& error) {
    // The parser's own words tell of its states; where it stopped is what helps.
    constexpr std::string_view kBefore = "parse error at ";
    std::string_view at = error.what();
    const auto begin = at.find(kBefore);
    at = begin == at.npos ? "" : at.substr(begin + kBefore.size());
    at = at.substr(0, at.find(':'));
    throw FormatError("", "it is no JSON" + (at.empty() ? "" : " (" + std::string(at) + ")"));
  }
}

}  // namespace locus::engine
