// What the sections of the HTML page are made of: escaped text, devices in their colors, bars, tables. Every string of
// the program passes escape() on its way to the page, by one of these functions.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "locus/engine/report.h"

namespace locus::report {

/// The five characters that mean something to HTML, made harmless in text and in quoted attributes. The text must be
/// clean already.
std::string escape(std::string_view clean_text);

/// Any text as one line of HTML, at most `limit` columns, the middle left out.
std::string html_words(std::string_view text, int limit = 400);

/// Words with `code` between backticks.
std::string html_prose(std::string_view text, int limit = 1200);

/// "<code>…</code>".
std::string html_code(std::string_view text, int limit = 160);

/// The class that gives a device its color: "cpu", "d0" to "d7", "dx" for any other.
std::string device_class(std::string_view device);

/// A device's name in its color.
std::string device_chip(std::string_view device);

/// "train.py:41", with the whole path as a tooltip.
std::string html_place(std::string_view file, int line, std::string_view directory);

/// The same with the line's text below it, where that is known.
std::string html_source_place(std::string_view file, int line, std::string_view directory, std::string_view text);

/// The same without folders, where there is little room; the tooltip has them.
std::string html_file_line(std::string_view file, int line, std::string_view directory);

/// "12.5%", for a style; 0 to 100 whatever comes in.
std::string percent(double part, double whole);

/// One row of a table with bars.
struct BarRow {
  std::vector<std::string> cells;  ///< HTML
  double weight = 0;               ///< how long the bar is, against the heaviest row
  std::string device;              ///< whose color it has
};

/// A table whose last column is a bar: the heaviest `open` rows in sight, more of them in a fold, the rest counted.
/// `head` names the columns; those at or behind `numbers` are right-aligned. `rest` says what the uncounted weigh.
struct BarTable {
  std::string caption;
  std::vector<std::string> head;
  std::size_t numbers = 1;
  std::vector<BarRow> rows;  ///< heaviest first
};
std::string html_bars(const BarTable& table);

constexpr std::size_t kMaxListedRows = 200;

/// The head of a section with a table in it; `head` names the columns.
std::string html_open_table(std::string_view id, const std::string& title,
                            std::initializer_list<std::string_view> head);
/// The end of it; `all` is how many rows there would be.
std::string html_close_table(std::size_t all, std::string_view what);
std::string html_row(std::initializer_list<std::string> cells);  ///< of HTML
/// As html_place(); empty where there is no file.
std::string html_place_of(std::string_view file, int line, std::string_view directory);

/// One entry for each line, whatever stands on it twice: `same` says which belong together, `merge` adds the second to
/// the first. Heaviest first.
template <class T, class Same, class Merge, class Weight>
std::vector<T> by_weight(const std::vector<T>& entries, Same same, Merge merge, Weight weight) {
  std::vector<T> sorted = entries;
  const auto key = [&](const T& a, const T& b) { return same(a) < same(b); };
  std::stable_sort(sorted.begin(), sorted.end(), key);
  std::vector<T> merged;
  for (T& entry : sorted) {
    if (!merged.empty() && same(merged.back()) == same(entry)) {
      merge(merged.back(), entry);
    } else {
      merged.push_back(std::move(entry));
    }
  }
  std::stable_sort(merged.begin(), merged.end(), [&](const T& a, const T& b) { return weight(a) > weight(b); });
  return merged;
}

// The sections of the page; each is empty when it has nothing to show.
std::string html_findings(const engine::Report& report, std::string_view directory);
/// `state` is HTML: whether it is new.
std::string html_finding(const engine::Finding& finding, std::size_t number, bool open, std::int64_t steps,
                         std::string_view directory, std::string_view state = {});
std::string html_edits(const engine::Report& report, std::string_view directory);
std::string html_excerpt(const engine::Finding& finding, std::string_view directory);
std::string html_diff(const engine::Fix& fix);
/// One line of code with what differs from `old` marked.
std::string html_changed_line(std::string_view old_line, std::string_view new_line, std::string_view tag);
std::string html_path(const engine::Finding& finding, std::string_view directory);
std::string html_models(const engine::Report& report);
std::string html_transfers(const engine::Report& report, std::string_view directory);
std::string html_syncs(const engine::Report& report, std::string_view directory);
std::string html_memory(const engine::Report& report, std::string_view directory);
std::string html_since(const engine::Report& report, std::string_view directory);
std::string html_ignored(const engine::Report& report, std::string_view directory);
std::string html_cluster(const engine::Report& report, std::string_view directory);
std::string html_dry(const engine::Report& report, std::string_view directory);
std::string html_not_run(const engine::Report& report, std::string_view directory);

/// "new" or "known" beside a finding, where the report is compared with an earlier one.
std::string html_state(const engine::Report& report, const engine::Finding& finding);

/// "`places` is on cpu and belongs on cuda:0" as HTML, or the finding's message.
std::string html_headline(const engine::Finding& finding);

extern const char* const kHtmlStyle;
extern const char* const kHtmlScript;
/// The script's SHA-256 in base64: the page allows this script and no other.
extern const char* const kHtmlScriptHash;

}  // namespace locus::report
