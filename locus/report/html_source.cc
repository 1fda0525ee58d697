// Source on the HTML page: the lines that tell the story of a finding, with what matters marked and a word under it;
// and an edit as a difference.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "locus/report/html_parts.h"
#include "locus/report/phrase.h"
#include "locus/report/screen.h"

namespace locus::report {

using engine::Finding;
using engine::Location;

namespace {

constexpr std::size_t kMaxCells = 300, kMaxLines = 8, kMaxDiffLines = 40;

/// Cells [begin, end) of a line.
struct Mark {
  std::size_t begin = 0, end = 0;
};

/// A line of source with what is said about it.
struct Line {
  const Location* at;
  std::vector<std::string> labels;  // HTML
  bool bad = false;                 // the mistake hurts here
};

std::string_view without_end(std::string_view text) {
  text = text.substr(0, text.find_first_of("\r\n"));
  return text.substr(0, text.find_last_not_of(" \t\f\v") + 1);  // npos + 1 is 0: all blank
}

Mark marked(const Location& at, const std::vector<Cell>& cells, const std::vector<std::size_t>& starts) {
  if (at.column < 0 || cells.empty()) return {};
  const auto cell = [&](int column) {
    return static_cast<std::size_t>(column) < starts.size() ? starts[static_cast<std::size_t>(column)] : cells.size();
  };
  const std::size_t begin = std::min(cell(at.column), cells.size() - 1);
  if (at.end_line > at.line) return {begin, cells.size()};
  return {begin, std::max(at.end_column > at.column ? cell(at.end_column) : begin + 1, begin + 1)};
}

/// Where the program's own folder is, lines of libraries add little.
void add(std::vector<Line>& lines, const Location& at, const std::string& label, bool bad = false) {
  if (at.line <= 0 || without_end(at.text).empty()) return;
  for (Line& line : lines) {
    if (line.at->file != at.file || line.at->line != at.line) continue;
    if (line.at->column < 0) line.at = &at;
    line.bad = line.bad || bad;
    if (std::find(line.labels.begin(), line.labels.end(), label) == line.labels.end()) line.labels.push_back(label);
    return;
  }
  if (lines.size() < kMaxLines) lines.push_back({&at, {label}, bad});
}

std::size_t indentation_of(const std::vector<Cell>& line) {
  const auto first = std::find_if(line.begin(), line.end(), [](const Cell& cell) { return cell.character != ' '; });
  return static_cast<std::size_t>(first - line.begin());
}

/// `dedent` is how much of its indentation a line has in common with the others.
std::string render_line(const Line& line, std::size_t dedent) {
  std::vector<std::size_t> starts;
  std::vector<Cell> cells = cells_of(without_end(line.at->text), &starts);
  Mark mark = marked(*line.at, cells, starts);
  cells.erase(cells.begin(), cells.begin() + static_cast<std::ptrdiff_t>(std::min(dedent, cells.size())));
  mark = {mark.begin - std::min(mark.begin, dedent), mark.end - std::min(mark.end, dedent)};
  const bool cut = cells.size() > kMaxCells;
  if (cut) cells.resize(kMaxCells);
  const auto part = [&](std::size_t begin, std::size_t end) { return escape(text_of(cells, begin, end)); };
  const char* tone = line.bad ? "bad" : "say";
  std::string code = part(0, mark.begin);
  if (mark.end > mark.begin) code += fmt::format("<mark class={}>{}</mark>", tone, part(mark.begin, mark.end));
  code += part(mark.end, cells.size()) + (cut ? "…" : "");
  std::string out =
      fmt::format("<div class=\"ln {}\"><span class=no>{}</span><code>{}</code></div>", tone, line.at->line, code);
  // The word stands under the mark, or under the code where the mark is far out.
  const std::size_t indent = indentation_of(cells);
  std::size_t column = static_cast<std::size_t>(std::max(0, width_of(cells, 0, mark.begin)));
  if (mark.end <= mark.begin || column > 56) column = std::min<std::size_t>(indent, 40);
  out += fmt::format("<div class=\"lab {}\" style=\"padding-left:{}ch\">", tone, column);
  for (const std::string& label : line.labels) out += "<span>" + label + "</span>";
  return out + "</div>\n";
}

/// The characters in which two lines differ: what they begin and end with in common is left out.
struct Change {
  Mark before, after;
};
Change change_of(const std::vector<Cell>& before, const std::vector<Cell>& after) {
  const std::size_t shorter = std::min(before.size(), after.size());
  const auto same = [&](std::size_t i, std::size_t j) { return before[i].character == after[j].character; };
  std::size_t front = 0, back = 0;
  while (front < shorter && same(front, front)) ++front;
  while (back < shorter - front && same(before.size() - 1 - back, after.size() - 1 - back)) ++back;
  return {{front, before.size() - back}, {front, after.size() - back}};
}

std::string with_mark(const std::vector<Cell>& cells, Mark span, std::string_view tag) {
  const std::size_t end = std::min(cells.size(), kMaxCells);
  span = {std::min(span.begin, end), std::min(span.end, end)};
  std::string out = escape(text_of(cells, 0, span.begin));
  if (span.end > span.begin) out += fmt::format("<{0}>{1}</{0}>", tag, escape(text_of(cells, span.begin, span.end)));
  return out + escape(text_of(cells, span.end, end)) + (end < cells.size() ? "…" : "");
}

std::vector<std::vector<Cell>> lines_of(std::string_view text) {
  std::vector<std::vector<Cell>> lines;
  while (!text.empty()) {
    const auto end = text.find('\n');
    lines.push_back(cells_of(without_end(text.substr(0, end))));
    text.remove_prefix(end == text.npos ? text.size() : end + 1);
  }
  return lines;
}

std::size_t indentation(const std::vector<std::vector<Cell>>& lines) {
  std::size_t least = std::string::npos;
  for (const auto& line : lines) {
    if (indentation_of(line) < line.size()) least = std::min(least, indentation_of(line));
  }
  return least;
}

}  // namespace

std::string html_excerpt(const Finding& finding, std::string_view directory) {
  std::vector<Line> lines;
  // Ordered by what must not be left out when there are too many.
  for (std::size_t i = 0; i < finding.uses.size() && i < 1; ++i) {
    const std::string op = operator_name(finding.uses[i].op.empty() ? finding.op : finding.uses[i].op);
    add(lines, finding.uses[i].at, op.empty() ? "used here" : "used here, by " + html_code(op + "()"), true);
  }
  for (const engine::Step& step : finding.history) {
    add(lines, step.at, html_words(step_words(step), 100) + " " + device_chip(step.device));
  }
  for (const engine::Operand& operand : finding.operands) {
    if (!operand.culprit || !operand.owner || !operand.owner->moved_at) continue;
    add(lines, *operand.owner->moved_at,
        html_code(operand.owner->name, 60) + " is moved here, to " + device_chip(operand.owner->moved_to));
    break;
  }
  if (finding.forward) add(lines, *finding.forward, "the line of the forward pass");
  add(lines, finding.cause, finding.fixes.empty() ? "the cause" : "<b>the line to edit</b>");
  if (lines.empty()) return {};

  // One block for each file, the one where it hurts first; inside it by line.
  std::vector<std::string> files;
  for (const Line& line : lines) {
    if (std::find(files.begin(), files.end(), line.at->file) == files.end()) files.push_back(line.at->file);
  }
  std::stable_sort(lines.begin(), lines.end(), [](const Line& a, const Line& b) { return a.at->line < b.at->line; });
  std::string out;
  for (const std::string& file : files) {
    out += "<figure class=src><figcaption>" + html_place(file, 0, directory) + "</figcaption><div class=scroll>\n";
    std::size_t dedent = std::string::npos;
    for (const Line& line : lines) {
      if (line.at->file == file) dedent = std::min(dedent, indentation_of(cells_of(without_end(line.at->text))));
    }
    int last = 0;
    for (const Line& line : lines) {
      if (line.at->file != file) continue;
      if (last != 0 && line.at->line - last > 1) out += "<div class=gap>⋮</div>";
      out += render_line(line, dedent);
      last = line.at->line;
    }
    out += "</div></figure>\n";
  }
  return out;
}

std::string html_changed_line(std::string_view old_line, std::string_view new_line, std::string_view tag) {
  const std::vector<Cell> before = cells_of(without_end(old_line)), after = cells_of(without_end(new_line));
  return with_mark(after, change_of(before, after).after, tag);
}

std::string html_diff(const engine::Fix& fix) {
  auto before = lines_of(fix.old_text), after = lines_of(fix.new_text);
  const std::size_t dedent = std::min(indentation(before), indentation(after));
  for (auto* side : {&before, &after}) {
    for (auto& line : *side) line.erase(line.begin(), line.begin() + static_cast<long>(std::min(dedent, line.size())));
  }
  const bool one = before.size() == 1 && after.size() == 1;
  const Change change = one ? change_of(before[0], after[0]) : Change{};
  std::string out = "<div class=\"diff scroll\">";
  const auto side = [&](const std::vector<std::vector<Cell>>& lines, const char* name, Mark span, const char* tag) {
    for (std::size_t i = 0; i < lines.size() && i < kMaxDiffLines; ++i) {
      out += fmt::format("<div class={}><code>{}</code></div>", name, with_mark(lines[i], one ? span : Mark{}, tag));
    }
    if (lines.size() > kMaxDiffLines) {
      out += fmt::format("<div class={}>… and {}</div>", name,
                         counted_more(static_cast<std::int64_t>(lines.size() - kMaxDiffLines), "line"));
    }
  };
  side(before, "del", change.before, "del");
  side(after, "ins", change.after, "ins");
  return out + "</div>";
}

}  // namespace locus::report
