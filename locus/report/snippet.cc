// A source line with carets; see snippet.h. Columns come from the program's own text and are trusted for nothing:
// any value must give a line that can be printed.
#include "locus/report/snippet.h"

#include <fmt/format.h>

#include <algorithm>

namespace locus::report {

namespace {

/// Cells [begin, end), half open.
struct Columns {
  std::size_t begin, end;
};

/// The cells under which the carets go; empty when the column is unknown.
Columns caret_span(const engine::Location& at, const std::vector<Cell>& cells, const std::vector<std::size_t>& starts) {
  if (at.column < 0) return {0, 0};
  const auto cell = [&](int column) {
    return static_cast<std::size_t>(column) < starts.size() ? starts[static_cast<std::size_t>(column)] : cells.size();
  };
  const std::size_t begin = std::min(cell(at.column), cells.size() - 1);  // never behind the line
  if (at.end_line > at.line) return {begin, cells.size()};
  const std::size_t end = at.end_column > at.column ? cell(at.end_column) : begin + 1;
  return {begin, std::max(end, begin + 1)};
}

/// The part of a line that fits into `room` columns, ellipses included, and shows the carets.
Columns window(const std::vector<Cell>& cells, Columns caret, int room) {
  const auto is_space = [](const Cell& cell) { return cell.character == ' '; };
  const auto first_word = std::find_if_not(cells.begin(), cells.end(), is_space);
  auto begin = static_cast<std::size_t>(first_word - cells.begin());
  begin = std::min(begin, caret.begin);
  if (width_of(cells, begin) <= room) return {begin, cells.size()};

  // One column for each ellipsis. From the front when the carets can be seen there, else around them.
  if (width_of(cells, begin, caret.end) > room - 1) {
    int left = std::max(0, room - 2 - width_of(cells, caret.begin, caret.end)) / 2;
    begin = std::min(caret.begin, cells.size());
    while (begin > 0 && cells[begin - 1].width <= left) left -= cells[--begin].width;
  }
  int right = room - 2;
  std::size_t end = begin;
  while (end < cells.size() && cells[end].width <= right) right -= cells[end++].width;
  return {begin, end};
}

}  // namespace

std::string render_snippet(const engine::Location& at, int gutter, Tone caret_tone, const TextOptions& options) {
  std::string_view source = at.text;
  source = source.substr(0, source.find_last_not_of(" \t\r\n\f\v") + 1);  // npos + 1 is 0: all blank
  if (source.empty() || at.line <= 0) return {};

  std::vector<std::size_t> starts;
  const std::vector<Cell> cells = cells_of(source, &starts);
  const Columns caret = caret_span(at, cells, starts);
  const int room = layout_width(options) == 0 ? 0 : layout_width(options) - gutter - 3;
  const bool fits = room == 0 || width_of(cells) <= room;
  const Columns shown = fits ? Columns{0, cells.size()} : window(cells, caret, room);

  // Only what is not indentation deserves an ellipsis.
  const bool cut_left = text_of(cells, 0, shown.begin).find_first_not_of(' ') != std::string::npos;
  std::string line = cut_left ? "…" : "";
  line += text_of(cells, shown.begin, shown.end);
  if (shown.end < cells.size()) line += "…";

  const std::string empty_gutter = paint(fmt::format("{:{}} |", "", gutter), Tone::kGutter, options.color);
  std::string out = empty_gutter + "\n";
  out += paint(fmt::format("{:{}} |", at.line, gutter), Tone::kGutter, options.color) + " " + line + "\n";
  if (caret.end > caret.begin) {
    int before = width_of(cells, shown.begin, caret.begin) + (cut_left ? 1 : 0);
    if (room > 0) before = std::min(before, room - 1);  // the last character may have no width of its own
    const int under = std::max(1, width_of(cells, caret.begin, std::min(caret.end, shown.end)));
    out += empty_gutter + std::string(static_cast<std::size_t>(before) + 1, ' ') +
           paint(std::string(static_cast<std::size_t>(under), '^'), caret_tone, options.color) + "\n";
  }
  return out;
}

}  // namespace locus::report
