// See lines.h.
#include "locus/report/lines.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "locus/engine/adoption.h"
#include "locus/report/closing.h"
#include "locus/report/phrase.h"
#include "locus/report/screen.h"

namespace locus::report {

using engine::Finding;
using engine::Location;
using engine::Report;

namespace {

std::string ending(const Report& report, const TextOptions& options) {
  return options.quiet ? "" : render_summary(report, options);
}

/// What GitHub reads back: in a message lines and percent signs are encoded, in a property its separators too.
std::string encoded(std::string_view text, bool property) {
  std::string out;
  for (const char c : text) {
    const bool special = c == '%' || c == '\r' || c == '\n' || (property && (c == ':' || c == ','));
    out += special ? fmt::format("%{:02X}", static_cast<unsigned char>(c)) : std::string(1, c);
  }
  return out;
}

/// Several lines, each of them harmless.
std::string clean_lines(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    out += (out.empty() ? "" : "\n") + clean(text.substr(0, end));
    text.remove_prefix(end == text.npos ? text.size() : end + 1);
  }
  return out;
}

}  // namespace

std::string concise_line(const Finding& finding, const TextOptions& options) {
  const Location& at = primary(finding);
  std::string where = place(at, options.directory, true);
  if (at.line > 0 && at.column < 0) where += ":1";  // as compilers write it
  const bool has_fix = std::ranges::any_of(finding.fixes, is_edit);
  const std::string kind = fmt::format("{}[{}]", to_string(finding.severity), shorten(clean(finding.code), 12));
  return fmt::format("{}: {} {}{}", paint(where, Tone::kBold, options.color),
                     paint(kind, severity_tone(finding), options.color), in_one_sentence(finding),
                     has_fix ? paint(" [fix]", Tone::kGood, options.color) : "");
}

std::string render_concise(const Report& report, const TextOptions& options) {
  std::string out;
  for (const Finding& finding : report.findings) {
    if (!engine::is_known(report, finding)) out += concise_line(finding, options) + "\n";
  }
  return out + ending(report, options);
}

std::string render_statistics(const Report& report, const TextOptions& options) {
  struct Row {
    std::int64_t count = 0, fixes = 0;
    const Finding* first = nullptr;
  };
  std::map<std::string, Row> by_code;
  for (const Finding& finding : report.findings) {
    if (engine::is_known(report, finding)) continue;
    Row& row = by_code[clean(finding.code)];
    if (row.first == nullptr) row.first = &finding;
    ++row.count;
    row.fixes += std::ranges::any_of(finding.fixes, is_edit) ? 1 : 0;
  }
  std::vector<std::pair<std::string, Row>> rows(by_code.begin(), by_code.end());
  std::ranges::stable_sort(rows, [](const auto& a, const auto& b) { return a.second.count > b.second.count; });
  std::size_t digits = 1, reasons = 0;
  for (const auto& [code, row] : rows) {
    digits = std::max(digits, grouped(row.count).size());
    reasons = std::max(reasons, clean(row.first->reason).size());
  }
  std::string out;
  for (const auto& [code, row] : rows) {
    const std::string line =
        fmt::format("{:>{}}  {}  {:<7}  {:<{}}  {}", grouped(row.count), digits,
                    paint(code, severity_tone(*row.first), options.color), to_string(row.first->severity),
                    clean(row.first->reason), reasons, row.fixes > 0 ? grouped(row.fixes) + " with a fix" : "");
    out += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return out + ending(report, options);
}

std::string render_github(const Report& report, const TextOptions& options, const std::string& root) {
  std::string out;
  for (const Finding& finding : report.findings) {
    if (engine::is_known(report, finding)) continue;
    const Location& at = primary(finding);
    std::string line = fmt::format("::{} ", to_string(finding.severity));
    if (is_file(at.file)) {
      line += fmt::format("file={},", encoded(path_below(at.file, options.directory, root), true));
      if (at.line > 0) line += fmt::format("line={},", at.line);
      if (at.line > 0 && at.end_line > 0) line += fmt::format("endLine={},", at.end_line);
      if (at.line > 0 && at.column >= 0) line += fmt::format("col={},", std::int64_t{at.column} + 1);
    }
    std::string message = in_one_sentence(finding);
    for (const engine::Fix& fix : finding.fixes) {
      if (is_edit(fix)) message += fmt::format("\nFix at line {}:\n", fix.line) + clean_lines(fix.new_text);
    }
    out += line + fmt::format("title={}::{}\n", encoded(heading_of(finding), true), encoded(message, false));
  }
  return out + ending(report, options);
}

}  // namespace locus::report
