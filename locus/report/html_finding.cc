// One finding on the HTML page: what is wrong, the edit, why, the path of its tensors, the source, the other places.
#include <fmt/format.h>

#include <algorithm>

#include "locus/engine/adoption.h"
#include "locus/report/html_parts.h"
#include "locus/report/phrase.h"
#include "locus/report/screen.h"

namespace locus::report {

using engine::Finding;
using engine::Fix;
using engine::Severity;

namespace {

constexpr std::size_t kOpenFindings = 20, kOtherPlaces = 12, kNotesInSight = 20, kEditsInSight = 25;
constexpr std::size_t kFindingBytes = 1'150'000, kEditBytes = 250'000;

std::string tone_of(const Finding& finding) { return finding.severity == Severity::kError ? "error" : "warning"; }

std::string badge(const Finding& finding) {
  const std::string code = html_words(finding.code, 12);
  if (engine::find_code(finding.code) == nullptr) {
    return fmt::format("<span class=\"badge {0}\">{0} {1}</span>", tone_of(finding), code);
  }
  return fmt::format("<a class=\"badge {0}\" href=\"{2}\" rel=noreferrer>{0} {1}</a>", tone_of(finding), code,
                     escape(page_uri(finding.code)));
}

std::string title_of(const Finding& finding) {
  const engine::CodeInfo* code = engine::find_code(finding.code);
  return code == nullptr ? "Tensors on different devices" : std::string(code->title);
}

std::string_view first_line(std::string_view text) {
  const std::size_t begin = text.find_first_not_of("\r\n");
  return begin == text.npos ? std::string_view() : text.substr(begin, text.find_first_of("\r\n", begin) - begin);
}

std::string_view stripped(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(" \t"), text.size()));
  return text;
}

const std::string& culprit_name(const Finding& finding) {
  return finding.culprit.name.empty() ? finding.culprit.expression : finding.culprit.name;
}

/// Whether it can be told in one breath: this tensor, here, belongs there.
bool is_misplaced(const Finding& finding) {
  const engine::Culprit& culprit = finding.culprit;
  return !culprit_name(finding).empty() && !culprit.device.empty() && !culprit.expected_device.empty() &&
         culprit.device != culprit.expected_device;
}

std::string short_headline(const Finding& finding) {
  if (!is_misplaced(finding)) return html_headline(finding);
  return fmt::format("{} <span class=way>{} → {}</span>", html_code(culprit_name(finding), 80),
                     device_chip(finding.culprit.device), device_chip(finding.culprit.expected_device));
}

/// The edit in one line, for the table at the top.
std::string short_edit(const Finding& finding) {
  for (const Fix& fix : finding.fixes) {
    const std::string_view line = stripped(first_line(fix.new_text));
    if (line.empty()) continue;
    const bool more = fix.new_text.find('\n') < fix.new_text.find_last_not_of("\r\n \t");
    std::string code = html_changed_line(stripped(first_line(fix.old_text)), line, "ins");
    return "<code>" + code + (more ? " …" : "") + "</code>";
  }
  for (const Fix& fix : finding.fixes) {
    if (!fix.note.empty()) return html_prose(fix.note, 160);
  }
  const engine::CodeInfo* code = engine::find_code(finding.code);
  return code == nullptr ? "" : html_prose(code->fixes[0], 160);
}

/// The line to edit; where that is not known, the line where it hurts.
std::string edit_place(const Finding& finding, std::string_view directory) {
  for (const Fix& fix : finding.fixes) {
    if (fix.line > 0) return html_place(fix.file, fix.line, directory);
  }
  if (finding.cause.line > 0 || finding.uses.empty()) {
    return html_place(finding.cause.file, finding.cause.line, directory);
  }
  return html_place(finding.uses.front().at.file, finding.uses.front().at.line, directory);
}

std::string edits_of(const Finding& finding, std::string_view directory) {
  std::string out;
  for (std::size_t i = 0; i < finding.fixes.size() && i < kMaxFixes; ++i) {
    const Fix& fix = finding.fixes[i];
    out += fmt::format("<div class=fix><div class=fixhead><b>Edit</b> {}{}<span class=\"tag {}\">{}</span>",
                       fix.old_text.empty() && !fix.new_text.empty() ? "after " : "",
                       html_place(fix.file, fix.line, directory), fix.verified ? "ok" : "",
                       fix.verified ? "verified" : "suggested");
    if (!fix.new_text.empty()) out += "<button type=button class=copy hidden>copy</button>";
    out += "</div>";
    if (!fix.old_text.empty() || !fix.new_text.empty()) out += html_diff(fix);
    if (!fix.note.empty()) out += "<p class=dim>" + html_prose(fix.note) + "</p>";
    out += "</div>\n";
  }
  if (finding.fixes.size() > kMaxFixes) {
    out += fmt::format("<p class=dim>… and {}</p>",
                       counted_more(static_cast<std::int64_t>(finding.fixes.size() - kMaxFixes), "edit"));
  }
  if (!out.empty()) return out;
  const engine::CodeInfo* code = engine::find_code(finding.code);
  if (code == nullptr) return {};
  out = "<div class=fix><div class=fixhead><b>Ways out</b></div><ul>";
  for (const std::string_view fix : code->fixes) out += "<li>" + html_prose(fix) + "</li>";
  return out + "</ul></div>\n";
}

std::string seen_text(const Finding& finding, std::int64_t steps) {
  std::string seen = "seen " + counted(finding.count, "time");
  if (steps > 0) seen += " in " + counted(steps, "step");
  if (finding.first_step > 0) seen += ", first after " + counted(finding.first_step, "step");
  for (std::size_t i = 0; i < std::min(finding.ranks.size(), kMaxRanks); ++i) {
    seen += fmt::format("{}{}",
                        i > 0                      ? ", "
                        : finding.ranks.size() > 1 ? ", on ranks "
                                                   : ", on rank ",
                        finding.ranks[i]);
  }
  if (finding.ranks.size() > kMaxRanks) {
    seen += " and " + counted_more(static_cast<std::int64_t>(finding.ranks.size() - kMaxRanks), "rank");
  }
  return seen;
}

std::string other_places(const Finding& finding, std::string_view directory) {
  std::vector<std::string> places;
  for (std::size_t i = 1; i < finding.uses.size(); ++i) {
    const engine::Use& use = finding.uses[i];
    std::string item = html_place(use.at.file, use.at.line, directory);
    const std::string op = operator_name(use.op);
    if (!op.empty()) item += " " + html_code(op + "()", 40);
    if (use.count > 1) item += " <small>" + counted(use.count, "time") + "</small>";
    if (std::find(places.begin(), places.end(), item) == places.end()) places.push_back(std::move(item));
  }
  const std::int64_t more = std::max<std::int64_t>(finding.more_uses, 0);
  if (places.empty() && more == 0) return {};
  std::string list = "<ul class=places>";
  for (const std::string& item : places) list += "<li>" + item + "</li>";
  if (more > 0) list += "<li class=dim>… and " + counted_more(more, "place") + "</li>";
  list += "</ul>";
  const auto count = static_cast<std::int64_t>(places.size());
  if (places.size() <= kOtherPlaces) return "<h4>Also here</h4>" + list;
  return fmt::format("<details class=more><summary>Also here: {}</summary>{}</details>", counted_more(count, "place"),
                     list);
}

std::string one_line(const Finding& finding, std::size_t number, std::string_view directory) {
  return fmt::format("<tr id=f{}><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>\n", number, badge(finding),
                     edit_place(finding, directory), short_headline(finding), short_edit(finding));
}

}  // namespace

std::string html_headline(const Finding& finding) {
  const engine::Culprit& culprit = finding.culprit;
  if (!is_misplaced(finding)) {
    const std::string words = finding.message.empty() ? title_of(finding) : finding.message;
    return html_prose(words, 300);
  }
  return html_code(culprit_name(finding), 80) + " is on " + device_chip(culprit.device) + " and belongs on " +
         device_chip(culprit.expected_device);
}

std::string html_finding(const Finding& finding, std::size_t number, bool open, std::int64_t steps,
                         std::string_view directory, std::string_view state) {
  std::string out = fmt::format(
      "<details class=\"finding {}\" id=f{}{}><summary><span class=num>{}</span>{}{}<span class=head>{}</span>{}"
      "</summary>\n<div class=body>\n",
      tone_of(finding), number, open ? " open" : "", number, badge(finding), state, html_headline(finding),
      edit_place(finding, directory));
  out += fmt::format("<p class=msg>{}: {}</p>\n", escape(title_of(finding)), html_prose(finding.message, 400));
  out += edits_of(finding, directory);
  if (!finding.why.empty()) out += "<p class=why><b>Why</b> " + html_prose(finding.why) + "</p>\n";
  if (std::string path = html_path(finding, directory); !path.empty()) out += "<h4>How they met</h4>" + path;
  if (std::string source = html_excerpt(finding, directory); !source.empty()) out += "<h4>In the source</h4>" + source;
  out += other_places(finding, directory);
  for (std::size_t i = 0; i < finding.notes.size() && i < kNotesInSight; ++i) {
    out += "<p class=note><b>Note</b> " + html_prose(finding.notes[i]) + "</p>\n";
  }
  if (!finding.uses.empty() && finding.uses.front().caught_by) {
    const engine::Location& at = *finding.uses.front().caught_by;
    out += fmt::format(
        "<p class=note><b>Note</b> the program's own <code>except</code> at {} would catch this error and hide "
        "it</p>\n",
        html_place(at.file, at.line, directory));
  }
  out += fmt::format("<p class=\"dim foot\">{}{}</p>\n", escape(seen_text(finding, steps)),
                     finding.id.empty() ? "" : " · <span class=id>" + html_words(finding.id, 40) + "</span>");
  return out + "</div></details>\n";
}

std::string html_edits(const engine::Report& report, std::string_view directory) {
  if (report.findings.empty()) return {};
  constexpr std::string_view kOpen =
      "<div class=scroll><table class=edits><thead><tr><th class=num>#</th><th scope=col>line</th><th "
      "scope=col>tensor, "
      "where it is → where it belongs</th><th scope=col>edit</th></tr></thead><tbody>\n";
  constexpr std::string_view kClose = "</tbody></table></div>\n";
  std::string out = "<section id=edits><h2>What to change</h2>\n" + std::string(kOpen);
  std::size_t number = 0;
  bool folded = false;
  for (const Finding& finding : report.findings) {
    if (out.size() > kEditBytes) break;
    if (number == kEditsInSight && report.findings.size() > kEditsInSight + 5) {
      folded = true;
      out += kClose;
      out += fmt::format("<details class=more><summary>{}</summary>{}",
                         counted_more(static_cast<std::int64_t>(report.findings.size() - number), "edit"), kOpen);
    }
    ++number;
    out += fmt::format(
        "<tr class={0}><td class=num><a href=\"#f{1}\" aria-label=\"finding {1}\">{1}</a></td><td>{2}{5}</td>"
        "<td>{3}</td><td>{4}</td></tr>\n",
        tone_of(finding), number, edit_place(finding, directory), short_headline(finding), short_edit(finding),
        report.baseline ? " " + html_state(report, finding) : "");
  }
  out += kClose;
  if (number < report.findings.size()) {
    out += fmt::format("<p class=dim>… and {}</p>",
                       counted_more(static_cast<std::int64_t>(report.findings.size() - number), "finding"));
  }
  return out + (folded ? "</details>" : "") + "</section>\n";
}

std::string html_findings(const engine::Report& report, std::string_view directory) {
  if (report.findings.empty()) return {};
  const bool few = report.findings.size() <= kOpenFindings;
  std::string out =
      "<section id=findings><div class=sechead><h2>Findings</h2><span class=tools hidden><input type=search id=filter "
      "placeholder=\"filter: name, file, code\" aria-label=\"filter findings\"><button type=button id=expand>open all"
      "</button><button type=button id=collapse>close all</button></span></div>\n";
  std::size_t number = 0;
  for (; number < report.findings.size() && out.size() < kFindingBytes; ++number) {
    // Those that come first are in sight; a long list is easier to scan when the others are closed. So are known ones.
    const Finding& finding = report.findings[number];
    const bool open = (few || number < 3) && !engine::is_known(report, finding);
    out += html_finding(finding, number + 1, open, report.program.steps, directory, html_state(report, finding));
  }
  if (number < report.findings.size()) {
    out += fmt::format("<h3>{}, in short</h3><div class=scroll><table class=edits><tbody>\n",
                       counted_more(static_cast<std::int64_t>(report.findings.size() - number), "finding"));
    const std::size_t start = out.size();
    for (; number < report.findings.size() && out.size() - start < kEditBytes; ++number) {
      out += one_line(report.findings[number], number + 1, directory);
    }
    out += "</tbody></table></div>\n";
  }
  if (number < report.findings.size()) {
    out += fmt::format("<p class=dim>… and {}. All of them are in the JSON report.</p>\n",
                       counted_more(static_cast<std::int64_t>(report.findings.size() - number), "finding"));
  }
  return out + "</section>\n";
}

}  // namespace locus::report
