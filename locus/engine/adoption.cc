// What lets an existing project live with a checker: findings that are set aside, code that never ran, and the
// comparison with an earlier run. Works on reports; runs and reads nothing.
#include "locus/engine/adoption.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "locus/engine/json_fields.h"

namespace locus::engine {

using fields::Fields;
using fields::list;

void from_json(const Json& json, Ignored& ignored) {
  Fields(json, "an ignored finding")("id", ignored.id)("code", ignored.code)("file", ignored.file)(
      "line", ignored.line)("by", ignored.by)("kind", ignored.kind)("message", ignored.message);
}

void to_json(Json& json, const Ignored& ignored) {
  json = Json::object();
  json["id"] = ignored.id;
  json["code"] = ignored.code;
  json["file"] = ignored.file;
  json["line"] = ignored.line;
  json["by"] = ignored.by;
  json["kind"] = ignored.kind;
  json["message"] = ignored.message;
}

void from_json(const Json& json, NotRun& not_run) {
  Fields(json, "code that did not run")("file", not_run.file)("function", not_run.function)("line", not_run.line);
}

void to_json(Json& json, const NotRun& not_run) {
  json = Json::object();
  json["file"] = not_run.file;
  json["function"] = not_run.function;
  json["line"] = not_run.line;
}

void from_json(const Json& json, Change& change) {
  Fields(json, "a change")("kind", change.kind)("file", change.file)("line", change.line)("what", change.what)(
      "before", change.before)("now", change.now);
  if (change.kind == "synchronisation") change.kind = "synchronization";  // as reports of version 1 spell it
}

void to_json(Json& json, const Change& change) {
  json = Json::object();
  json["kind"] = change.kind;
  json["file"] = change.file;
  json["line"] = change.line;
  json["what"] = change.what;
  json["before"] = change.before;
  json["now"] = change.now;
}

void from_json(const Json& json, Comparison& comparison) {
  Fields(json, "a comparison")("file", comparison.file)("new", comparison.new_ids)("gone", comparison.gone)(
      "known", comparison.known)("more", comparison.more);
}

void to_json(Json& json, const Comparison& comparison) {
  json = Json::object();
  json["file"] = comparison.file;
  json["new"] = list(comparison.new_ids);
  json["gone"] = list(comparison.gone);
  json["known"] = comparison.known;
  json["more"] = list(comparison.more);
}

namespace {

/// A line of either ledger, brought to one form.
struct Entry {
  std::string file;
  int line = 0;
  std::string text;
  std::string what;
  std::int64_t amount = 0;
  std::int64_t before = 0;
  bool matched = false;
};

/// Lines move when others are added above them: what a line is, is its text. Lines whose text changed, or is not
/// known, are paired in the order of the file.
void match(std::vector<Entry>& before, std::vector<Entry>& now) {
  const auto pair_up = [&](auto same) {
    for (Entry& each : now) {
      if (each.matched) continue;
      const auto found = std::find_if(before.begin(), before.end(), [&](const Entry& other) {
        return !other.matched && other.what == each.what && base_name(other.file) == base_name(each.file) &&
               same(other, each);
      });
      if (found == before.end()) continue;
      each.before = found->amount;
      each.matched = found->matched = true;
    }
  };
  pair_up([](const Entry& a, const Entry& b) { return a.line == b.line && a.text == b.text; });
  pair_up([](const Entry& a, const Entry& b) { return !a.text.empty() && a.text == b.text; });
  pair_up([](const Entry&, const Entry&) { return true; });
}

/// More than before, also by the step where the two runs made different numbers of them.
bool is_more(const Entry& entry, std::int64_t steps_before, std::int64_t steps_now) {
  if (entry.amount <= entry.before) return false;
  if (steps_before <= 0 || steps_now <= 0 || steps_before == steps_now) return true;
  return static_cast<double>(entry.amount) / static_cast<double>(steps_now) >
         static_cast<double>(entry.before) / static_cast<double>(steps_before) * 1.001;
}

void add_changes(const char* kind, std::vector<Entry> before, std::vector<Entry> now, const Program& program_before,
                 const Program& program_now, std::vector<Change>& more) {
  match(before, now);
  for (const Entry& each : now) {
    if (is_more(each, program_before.steps, program_now.steps)) {
      more.push_back({kind, each.file, each.line, each.what, each.before, each.amount});
    }
  }
}

std::vector<Entry> transfers_of(const Report& report) {
  std::map<std::tuple<std::string, int, std::string>, Entry> sums;
  for (const Transfer& each : report.transfers) {
    const std::string what = each.from + " → " + each.to;
    Entry& entry = sums[{each.file, each.line, what}];
    entry.file = each.file, entry.line = each.line, entry.text = each.text, entry.what = what;
    entry.amount += each.count;
  }
  std::vector<Entry> all;
  all.reserve(sums.size());
  for (auto& [key, entry] : sums) all.push_back(std::move(entry));
  return all;
}

std::vector<Entry> syncs_of(const Report& report) {
  std::vector<Entry> all;
  all.reserve(report.syncs.size());
  for (const Sync& each : report.syncs) all.push_back({each.file, each.line, each.text, each.kind, each.count});
  return all;
}

/// Lines are blamed only where the device's peak itself has grown: what is alive at a peak shifts otherwise.
void add_memory(const Report& before, const Report& now, std::vector<Change>& more) {
  constexpr double kTolerance = 1.01;
  for (const DeviceMemory& device : now.memory) {
    const auto old = std::find_if(before.memory.begin(), before.memory.end(),
                                  [&](const DeviceMemory& each) { return each.device == device.device; });
    const std::int64_t peak = old == before.memory.end() ? 0 : old->peak;
    if (static_cast<double>(device.peak) <= static_cast<double>(peak) * kTolerance) continue;
    const auto entries = [](const DeviceMemory& memory) {
      std::vector<Entry> all;
      all.reserve(memory.by_line.size());
      for (const LineMemory& each : memory.by_line) {
        all.push_back({each.file, each.line, each.text, memory.device, each.bytes});
      }
      return all;
    };
    std::vector<Entry> lines = entries(device);
    std::vector<Entry> old_lines = old == before.memory.end() ? std::vector<Entry>{} : entries(*old);
    match(old_lines, lines);
    bool found = false;
    for (const Entry& each : lines) {
      if (static_cast<double>(each.amount) <= static_cast<double>(each.before) * kTolerance) continue;
      more.push_back({"memory", each.file, each.line, device.device, each.before, each.amount});
      found = true;
    }
    if (!found) more.push_back({"memory", "", 0, device.device, peak, device.peak});
  }
}

}  // namespace

bool is_known(const Report& report, const Finding& finding) {
  if (!report.baseline) return false;
  const auto& fresh = report.baseline->new_ids;
  return std::find(fresh.begin(), fresh.end(), finding.id) == fresh.end();
}

Comparison compare(const Report& before, const Report& now, std::string file) {
  Comparison result;
  result.file = std::move(file);
  std::vector<const Finding*> old;
  old.reserve(before.findings.size());
  for (const Finding& each : before.findings) old.push_back(&each);
  for (const Finding& each : now.findings) {
    // The id holds no line: it stays when lines move.
    const auto found = std::find_if(old.begin(), old.end(), [&](const Finding* other) { return other->id == each.id; });
    if (found == old.end()) {
      result.new_ids.push_back(each.id);
    } else {
      ++result.known;
      old.erase(found);
    }
  }
  for (const Finding* each : old) {
    const bool ignored_now =
        std::any_of(now.ignored.begin(), now.ignored.end(), [&](const Ignored& other) { return other.id == each->id; });
    if (!ignored_now)
      result.gone.push_back({each->id, each->code, each->cause.file, each->cause.line, "", "", each->message});
  }
  add_changes("transfer", transfers_of(before), transfers_of(now), before.program, now.program, result.more);
  add_changes("synchronization", syncs_of(before), syncs_of(now), before.program, now.program, result.more);
  add_memory(before, now, result.more);
  return result;
}

}  // namespace locus::engine
