// SARIF 2.1.0: one rule for each code of codes.def, one result for each finding. A result stands at the line to edit;
// the lines where the mistake hurts are related to it, and the culprit's history is its code flow.
#include "locus/report/sarif.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "locus/engine/adoption.h"
#include "locus/engine/utf8.h"
#include "locus/engine/verdict.h"
#include "locus/report/closing.h"
#include "locus/report/phrase.h"
#include "locus/report/screen.h"
#include "locus/version.h"

namespace locus::report {

using engine::Finding;
using engine::Fix;
using engine::Json;
using engine::Location;

namespace {

namespace fs = std::filesystem;

constexpr char kSchema[] = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json";
constexpr char kBase[] = "SRCROOT";

Json text_of(std::string_view text) { return {{"text", text}}; }

/// "plain-attribute" is PlainAttribute to tools.
std::string camel_case(std::string_view reason) {
  std::string out;
  bool capital = true;
  for (const char c : reason) {
    if (c != '-') out += capital && c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
    capital = c == '-';
  }
  return out;
}

Json rules() {
  Json all = Json::array();
  for (const engine::CodeInfo& code : engine::all_codes()) {
    std::string plain = fmt::format("{}\n\nWays out:", code.why), markdown = fmt::format("{}\n", code.why);
    for (std::size_t i = 0; i < code.fixes.size(); ++i) {
      plain += fmt::format("\n{}. {}.", i + 1, code.fixes[i]);
      markdown += fmt::format("\n{}. {}.", i + 1, code.fixes[i]);
    }
    all.push_back({{"id", code.code},
                   {"name", camel_case(code.reason)},
                   {"shortDescription", text_of(code.title)},
                   {"fullDescription", text_of(code.what)},
                   {"help", {{"text", plain}, {"markdown", markdown}}},
                   {"helpUri", page_uri(code.code)},
                   {"defaultConfiguration", {{"level", to_string(code.severity)}}},
                   {"properties",
                    {{"tags", {"pytorch", "device-placement", code.reason}},
                     {"precision", "very-high"},
                     {"problem.severity", to_string(code.severity)}}}});
  }
  return all;
}

class Run {
 public:
  Run(const engine::Report& report, const SarifOptions& options) : report_(report) {
    std::error_code ignored;
    directory_ = options.directory.empty() ? fs::current_path(ignored) : fs::path(options.directory);
    root_ = (options.root.empty() ? directory_ : fs::path(options.root)).lexically_normal();
    if (!root_.has_filename()) root_ = root_.parent_path();  // "/work/" is "/work"
  }

  Json render() const {
    const std::string version = report_.program.locus.empty() ? kVersion : report_.program.locus;
    Json results = Json::array();
    for (const Finding& finding : report_.findings) {
      results.push_back(result(finding));
      if (report_.baseline) {
        results.back()["baselineState"] = engine::is_known(report_, finding) ? "unchanged" : "new";
      }
    }
    for (const engine::Ignored& each : report_.ignored) results.push_back(suppressed(each));
    if (report_.baseline) {
      for (const engine::Ignored& each : report_.baseline->gone) {
        results.push_back(in_short(each));
        results.back()["baselineState"] = "absent";
      }
    }
    Json notices = costs();
    for (const std::string& note : report_.notes) {
      notices.push_back({{"level", "note"}, {"message", text_of(clean(note))}});
    }
    const std::string root = root_.string();
    Json run = {{"tool",
                 {{"driver",
                   {{"name", "Locus"},
                    {"fullName", "Locus, device placement for PyTorch"},
                    {"version", clean(version)},
                    {"informationUri", kDocumentation},
                    {"rules", rules()}}}}},
                {"invocations", Json::array({invocation(std::move(notices))})},
                {"originalUriBaseIds", {{kBase, {{"uri", "file://" + encoded_path(root) + (root == "/" ? "" : "/")}}}}},
                {"columnKind", "unicodeCodePoints"},
                {"results", std::move(results)}};
    // Several programs of one repository are several analyses to a code host.
    if (!report_.program.script.empty()) {
      run["automationDetails"] = {{"id", "locus/" + clean(relative(report_.program.script).first) + "/"}};
    }
    return {{"$schema", kSchema}, {"version", "2.1.0"}, {"runs", Json::array({std::move(run)})}};
  }

 private:
  /// Whether the program came to its end and was looked at; where not, the verdict says what is missing.
  Json invocation(Json notices) const {
    const bool conclusive = engine::is_conclusive(report_);
    if (!conclusive) notices.push_back({{"level", "warning"}, {"message", text_of(verdict_words(report_))}});
    Json invocation = {{"executionSuccessful", conclusive}, {"exitCode", report_.program.exit}};
    if (const std::string words = ending_words(report_.program); !words.empty()) {
      invocation["exitCodeDescription"] = "the program " + words;
    }
    invocation["toolExecutionNotifications"] = std::move(notices);
    return invocation;
  }

  /// The path below the root and true, or the whole path and false.
  std::pair<std::string, bool> relative(std::string_view file) const {
    const fs::path whole = (directory_ / fs::path(file)).lexically_normal();
    const fs::path below = whole.lexically_relative(root_);
    const bool inside = !below.empty() && below != "." && *below.begin() != "..";
    return {inside ? below.generic_string() : whole.generic_string(), inside};
  }

  Json artifact(std::string_view file) const {
    const auto [path, inside] = relative(engine::valid_utf8(file));
    if (inside) return {{"uri", encoded_path(path)}, {"uriBaseId", kBase}};
    return {{"uri", "file://" + encoded_path(path)}};
  }

  static Json region(const Location& at) {
    Json region = {{"startLine", at.line}};
    if (at.column >= 0) {
      region["startColumn"] = std::int64_t{at.column} + 1;
      const bool later = at.end_line > at.line;
      if (later && at.end_column >= 0) region["endLine"] = at.end_line;
      if ((later && at.end_column >= 0) || (!later && at.end_column > at.column)) {
        region["endColumn"] = std::int64_t{at.end_column} + 1;
      }
    }
    if (!at.text.empty()) region["snippet"] = text_of(at.text);
    return region;
  }

  Json location(const Location& at, std::string_view words = {}, std::int64_t id = -1) const {
    Json json = Json::object();
    if (id >= 0) json["id"] = id;
    if (is_file(at.file)) {
      json["physicalLocation"] = {{"artifactLocation", artifact(at.file)}};
      if (at.line > 0) json["physicalLocation"]["region"] = region(at);
    }
    if (!at.function.empty()) {
      json["logicalLocations"] = Json::array({{{"fullyQualifiedName", at.function}, {"kind", "function"}}});
    }
    if (!words.empty()) json["message"] = text_of(words);
    return json;
  }

  std::string message(const Finding& finding) const {
    const engine::CodeInfo* code = engine::find_code(finding.code);
    std::string text = clean(finding.message);
    if (text.empty()) text = code == nullptr ? "tensors on different devices" : std::string(code->title);
    text[0] = text[0] >= 'a' && text[0] <= 'z' ? static_cast<char>(text[0] - 'a' + 'A') : text[0];
    text += '.';
    if (!finding.why.empty()) text += fmt::format(" Why: {}.", clean(finding.why));
    for (const Fix& fix : finding.fixes) {
      const std::string edit = first_line(fix.new_text);
      if (!edit.empty()) text += fmt::format(" Fix at line {}: {}", fix.line, edit);
    }
    return text;
  }

  static std::string first_line(std::string_view text) {
    const std::size_t begin = text.find_first_not_of(" \t\r\n");
    return begin == text.npos ? "" : clean(text.substr(begin, text.find_first_of("\r\n", begin) - begin));
  }

  Json result(const Finding& finding) const {
    const auto rule = std::find_if(engine::all_codes().begin(), engine::all_codes().end(),
                                   [&](const engine::CodeInfo& code) { return code.code == finding.code; });
    Json json = {{"ruleId", finding.code}};
    if (rule != engine::all_codes().end()) json["ruleIndex"] = rule - engine::all_codes().begin();
    json["level"] = to_string(finding.severity);
    json["message"] = text_of(message(finding));
    const Location& at = primary(finding);
    json["locations"] = is_file(at.file) ? Json::array({location(at)}) : Json::array();
    if (Json related = related_locations(finding); !related.empty()) json["relatedLocations"] = std::move(related);
    if (Json flow = code_flow(finding); !flow.empty()) json["codeFlows"] = Json::array({std::move(flow)});
    if (Json edits = fixes(finding); !edits.empty()) json["fixes"] = std::move(edits);
    json["partialFingerprints"] = {{"locusFinding/v1", finding.id.empty() ? fingerprint(finding) : finding.id}};
    if (finding.count > 0) json["occurrenceCount"] = finding.count;
    return json;
  }

  /// A finding of which only the main things are known.
  Json in_short(const engine::Ignored& each) const {
    const auto rule = std::find_if(engine::all_codes().begin(), engine::all_codes().end(),
                                   [&](const engine::CodeInfo& code) { return code.code == each.code; });
    const bool known = rule != engine::all_codes().end();
    Json json = {{"ruleId", each.code}};
    if (known) json["ruleIndex"] = rule - engine::all_codes().begin();
    json["level"] = to_string(known ? rule->severity : engine::Severity::kError);
    std::string words = clean(each.message);
    if (words.empty()) words = known ? std::string(rule->title) : "tensors on different devices";
    json["message"] = text_of(words);
    Location at;
    at.file = each.file, at.line = each.line;
    json["locations"] = is_file(at.file) ? Json::array({location(at)}) : Json::array();
    if (!each.id.empty()) json["partialFingerprints"] = {{"locusFinding/v1", each.id}};
    return json;
  }

  /// A finding that the project has decided to live with.
  Json suppressed(const engine::Ignored& each) const {
    Json json = in_short(each);
    Json why = {{"kind", each.kind == "comment" ? "inSource" : "external"}, {"status", "accepted"}};
    if (!each.by.empty()) why["justification"] = clean(each.by);
    json["suppressions"] = Json::array({std::move(why)});
    return json;
  }

  /// Lines that cost more than in the baseline: no mistakes of placement, but reasons to fail.
  Json costs() const {
    Json all = Json::array();
    if (!report_.baseline) return all;
    for (const engine::Change& each : report_.baseline->more) {
      const bool memory = each.kind == "memory";
      const auto amount = [&](std::int64_t value) { return memory ? bytes_text(value) : counted(value, "time"); };
      const std::string words = fmt::format("{}: {}, was {} in {}", change_words(each), amount(each.now),
                                            amount(each.before), clean(report_.baseline->file));
      Json notice = {{"level", "warning"}, {"message", text_of(words)}};
      Location at;
      at.file = each.file, at.line = each.line;
      if (is_file(at.file)) notice["locations"] = Json::array({location(at)});
      all.push_back(std::move(notice));
    }
    return all;
  }

  Json related_locations(const Finding& finding) const {
    Json all = Json::array();
    const auto add = [&](const Location& at, const std::string& words) {
      if (is_file(at.file) && at.line > 0)
        all.push_back(location(at, words, static_cast<std::int64_t>(all.size()) + 1));
    };
    for (const engine::Use& use : finding.uses) {
      const std::string op = operator_name(use.op.empty() ? finding.op : use.op);
      add(use.at, (op.empty() ? "used here" : "used by " + op + "() here") +
                      (use.count > 1 ? ", " + counted(use.count, "time") : ""));
    }
    if (finding.forward) add(*finding.forward, "the line of the forward pass");
    for (const engine::Operand& operand : finding.operands) {
      if (operand.culprit && operand.owner && operand.owner->moved_at) {
        add(*operand.owner->moved_at, clean(operand.owner->name) + " is moved here");
        break;
      }
    }
    return all;
  }

  Json code_flow(const Finding& finding) const {
    Json steps = Json::array();
    const std::string name = clean(finding.culprit.name.empty() ? finding.culprit.expression : finding.culprit.name);
    const auto add = [&](const Location& at, const std::string& words, std::string_view device, const char* weight) {
      Json step = {{"location", location(at, words)}, {"importance", weight}, {"executionOrder", steps.size() + 1}};
      if (!name.empty() && !device.empty()) step["state"] = {{name, text_of(clean(device))}};
      steps.push_back(std::move(step));
    };
    for (const engine::Step& step : finding.history) {
      add(step.at, clean(step_words(step)) + (step.device.empty() ? "" : " on " + clean(step.device)), step.device,
          step.action == engine::Action::kComputed ? "important" : "essential");
    }
    if (!finding.uses.empty()) {
      const engine::Use& use = finding.uses.front();
      const std::string op = operator_name(use.op.empty() ? finding.op : use.op);
      add(use.at, op.empty() ? "used here" : fmt::format("used by {}()", op), finding.culprit.device, "essential");
    }
    if (steps.empty()) return {};
    return {{"threadFlows", Json::array({{{"locations", std::move(steps)}}})}};
  }

  Json fixes(const Finding& finding) const {
    Json all = Json::array();
    for (const Fix& fix : finding.fixes) {
      if (!is_edit(fix)) continue;
      std::string words = fix.note.empty() ? "Edit line " + std::to_string(fix.line) : clean(fix.note);
      words += fix.verified ? " (verified)" : " (suggested)";
      all.push_back({{"description", text_of(words)},
                     {"artifactChanges", Json::array({{{"artifactLocation", artifact(fix.file)},
                                                       {"replacements", Json::array({replacement(fix)})}}})}});
    }
    return all;
  }

  static Json replacement(const Fix& fix) {
    std::string_view old = fix.old_text;
    if (old.empty()) {  // new lines behind `line`
      const std::int64_t next = std::int64_t{fix.line} + 1;
      return {{"deletedRegion", {{"startLine", next}, {"startColumn", 1}, {"endLine", next}, {"endColumn", 1}}},
              {"insertedContent", text_of(fix.new_text + (fix.new_text.ends_with('\n') ? "" : "\n"))}};
    }
    const bool whole = old.ends_with('\n');
    if (whole) old.remove_suffix(1);
    const auto breaks = std::count(old.begin(), old.end(), '\n');
    const std::string_view last = old.substr(old.rfind('\n') + 1);  // npos + 1 is 0: one line only
    std::int64_t characters = 0;
    for (std::size_t at = 0; at < last.size(); ++characters) engine::next_character(last, at);
    std::string_view fresh = fix.new_text;
    if (whole && fresh.ends_with('\n')) fresh.remove_suffix(1);
    return {{"deletedRegion",
             {{"startLine", fix.line},
              {"startColumn", 1},
              {"endLine", std::int64_t{fix.line} + breaks},
              {"endColumn", characters + 1}}},
            {"insertedContent", text_of(fresh)}};
  }

  const engine::Report& report_;
  fs::path directory_, root_;
};

}  // namespace

std::string render_sarif(const engine::Report& report, const SarifOptions& options) {
  return Run(report, options).render().dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace locus::report
