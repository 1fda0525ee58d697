// See hosts.h.
#include "locus/report/hosts.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "locus/engine/adoption.h"
#include "locus/report/closing.h"
#include "locus/report/phrase.h"
#include "locus/report/screen.h"

namespace locus::report {

using engine::Finding;
using engine::Fix;
using engine::Json;
using engine::Location;
using engine::Report;

namespace {

constexpr std::size_t kMaxTableRows = 200, kMaxDiffs = 50;  // a job's page takes a megabyte

/// Text in a table of Markdown: no character of it means anything.
std::string in_cell(std::string_view text) {
  std::string out;
  for (const char c : clean(text)) {
    if (std::string_view("\\`*_{}[]<>|#!~").find(c) != std::string_view::npos) out += '\\';
    out += c;
  }
  return out;
}

void append_lines(std::string& out, std::string_view text, char sign) {
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    std::string line = clean(text.substr(0, end));
    for (std::size_t at = 0; (at = line.find("```", at)) != line.npos; at += 3) line.replace(at, 3, "'''");
    out += sign + line + "\n";
    text.remove_prefix(end == text.npos ? text.size() : end + 1);
  }
}

}  // namespace

std::string render_gitlab(const Report& report, const std::string& directory, const std::string& root) {
  Json issues = Json::array();
  std::set<std::string> seen;
  for (const Finding& finding : report.findings) {
    if (engine::is_known(report, finding)) continue;
    const Location& at = primary(finding);
    std::string print = finding.id.empty() ? engine::fingerprint(finding) : finding.id;
    while (!seen.insert(print).second) print += "+";  // each issue needs one of its own
    issues.push_back({{"description", fmt::format("{}: {}", clean(finding.code), in_one_sentence(finding))},
                      {"check_name", clean(finding.code)},
                      {"fingerprint", print},
                      {"severity", finding.severity == engine::Severity::kError ? "major" : "minor"},
                      {"location",
                       {{"path", is_file(at.file) ? clean(path_below(at.file, directory, root)) : clean(at.file)},
                        {"lines", {{"begin", std::max(1, at.line)}}}}}});
  }
  return issues.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string render_markdown(const Report& report, const std::string& directory, const std::string& root) {
  std::string verdict = verdict_words(report);
  verdict[0] = verdict[0] >= 'a' && verdict[0] <= 'z' ? static_cast<char>(verdict[0] - 'a' + 'A') : verdict[0];
  std::string out = fmt::format("## Locus: {}\n\n", in_cell(verdict));
  const std::string script = clean(report.program.script);
  if (!script.empty()) {
    out += fmt::format("`{}`: {}\n\n", script.find('`') == script.npos ? script : "the program",
                       in_cell(closing_words(report)));
  }
  std::vector<const Finding*> shown;
  for (const Finding& finding : report.findings) {
    if (!engine::is_known(report, finding)) shown.push_back(&finding);
  }
  if (!shown.empty()) out += "| line | code | what |\n| --- | --- | --- |\n";
  for (std::size_t i = 0; i < std::min(shown.size(), kMaxTableRows); ++i) {
    const Location& at = primary(*shown[i]);
    const std::string where = is_file(at.file) ? path_below(at.file, directory, root) : at.file;
    out += fmt::format("| {}{} | [{}]({}) | {} |\n", in_cell(where), at.line > 0 ? fmt::format(":{}", at.line) : "",
                       in_cell(shown[i]->code), page_uri(shown[i]->code), in_cell(in_one_sentence(*shown[i])));
  }
  if (shown.size() > kMaxTableRows) {
    out +=
        fmt::format("\n… and {}.\n", counted_more(static_cast<std::int64_t>(shown.size() - kMaxTableRows), "finding"));
  }
  std::size_t diffs = 0;
  std::string edits;
  for (const Finding* finding : shown) {
    for (const Fix& fix : finding->fixes) {
      if (!is_edit(fix) || ++diffs > kMaxDiffs) continue;
      edits += fmt::format("@@ {}:{} @@ {}\n", clean(path_below(fix.file, directory, root)), fix.line,
                           fix.verified ? "verified" : "suggested");
      append_lines(edits, fix.old_text, '-');
      append_lines(edits, fix.new_text, '+');
    }
  }
  if (diffs > 0) {
    out += fmt::format("\n<details open><summary>{}</summary>\n\n```diff\n{}```\n\n</details>\n",
                       counted(static_cast<std::int64_t>(diffs), "fix") == "1 fix"
                           ? "1 fix"
                           : grouped(static_cast<std::int64_t>(diffs)) + " fixes",
                       edits);
  }
  return out;
}

}  // namespace locus::report
