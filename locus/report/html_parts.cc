// Escaping, devices, bars; see html_parts.h.
#include "locus/report/html_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "locus/report/phrase.h"
#include "locus/report/screen.h"

namespace locus::report {

namespace {

constexpr std::size_t kOpenRows = 12, kFoldedRows = 488;
constexpr int kMaxPath = 300;

/// A path may be broken behind a slash, and nowhere else.
std::string breakable(std::string path) {
  for (std::size_t at = path.find('/', 1); at != path.npos; at = path.find('/', at + 1)) {
    if (at + 1 < path.size()) path.insert(at + 1, "<wbr>");
  }
  return path;
}

std::string located(const std::string& shown, std::string_view file) {
  const std::string whole = clean(file);
  const std::string title =
      whole.empty() || shown.starts_with(whole) ? "" : " title=\"" + escape(shorten(whole, kMaxPath)) + "\"";
  return fmt::format("<span class=at{}>{}</span>", title, breakable(escape(shorten(shown, 80))));
}

void append_row(std::string& out, const BarTable& table, const BarRow& row, double heaviest) {
  out += "<tr>";
  for (std::size_t i = 0; i < row.cells.size(); ++i) {
    out += i >= table.numbers ? "<td class=n>" : "<td>";
    out += row.cells[i] + "</td>";
  }
  out += fmt::format("<td class=b><i class=\"bar {}\" style=\"width:{}\"></i></td></tr>\n", device_class(row.device),
                     percent(row.weight, heaviest));
}

void append_head(std::string& out, const BarTable& table) {
  out += "<thead><tr>";
  for (std::size_t i = 0; i < table.head.size(); ++i) {
    out += fmt::format("<th scope=col{}>{}</th>", i >= table.numbers ? " class=n" : "", table.head[i]);
  }
  out += "<th class=b><span class=sr>share</span></th></tr></thead>";
}

}  // namespace

std::string escape(std::string_view clean_text) {
  std::string out;
  out.reserve(clean_text.size() + clean_text.size() / 8);
  for (const char c : clean_text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string html_words(std::string_view text, int limit) { return escape(shorten(clean(text), limit)); }

std::string html_prose(std::string_view text, int limit) {
  const std::string words = shorten(clean(text), limit);
  std::string out;
  std::string_view rest = words;
  for (;;) {
    const auto open = rest.find('`');
    const auto close = open == rest.npos ? open : rest.find('`', open + 1);
    if (close == rest.npos) return out + escape(rest);
    out += escape(rest.substr(0, open)) + "<code>" + escape(rest.substr(open + 1, close - open - 1)) + "</code>";
    rest.remove_prefix(close + 1);
  }
}

std::string html_code(std::string_view text, int limit) { return "<code>" + html_words(text, limit) + "</code>"; }

std::string device_class(std::string_view device) {
  if (device == "cpu") return "cpu";
  if (!device.starts_with("cuda")) return "dx";
  const auto digits = device.substr(std::min(device.size(), std::string_view("cuda:").size()));
  int number = 0;
  for (const char c : digits.substr(0, 4)) {
    if (c < '0' || c > '9') return "dx";
    number = number * 10 + (c - '0');
  }
  return fmt::format("d{}", number % 8);
}

std::string device_chip(std::string_view device) {
  if (device.empty()) return {};
  return fmt::format("<span class=\"chip {}\">{}</span>", device_class(device), html_words(device, 24));
}

std::string html_place(std::string_view file, int line, std::string_view directory) {
  return located(place(file, line, directory), file);
}

std::string html_source_place(std::string_view file, int line, std::string_view directory, std::string_view text) {
  std::string out = html_place(file, line, directory);
  const std::size_t begin = text.find_first_not_of(" \t");
  if (begin != text.npos) out += "<br><small>" + html_code(text.substr(begin), 70) + "</small>";
  return out;
}

std::string html_file_line(std::string_view file, int line, std::string_view directory) {
  const std::string whole = place(file, line, directory);
  return located(whole.substr(whole.rfind('/') + 1), file);  // npos + 1 is 0: no folder
}

std::string percent(double part, double whole) {
  const double share = whole > 0 && part > 0 ? std::min(100.0, 100.0 * part / whole) : 0;
  return fmt::format("{:.4g}%", std::isfinite(share) ? share : 0);
}

std::string html_bars(const BarTable& table) {
  if (table.rows.empty()) return {};
  const double heaviest = table.rows.front().weight;
  const std::size_t open = std::min(table.rows.size(), kOpenRows);
  const std::size_t folded = std::min(table.rows.size() - open, kFoldedRows);
  const std::size_t left = table.rows.size() - open - folded;
  std::string out = "<div class=scroll><table class=bars>";
  if (!table.caption.empty()) out += "<caption>" + table.caption + "</caption>";
  append_head(out, table);
  out += "<tbody>\n";
  for (std::size_t i = 0; i < open; ++i) append_row(out, table, table.rows[i], heaviest);
  out += "</tbody></table></div>\n";
  if (folded > 0) {
    out += fmt::format("<details class=more><summary>{}</summary><div class=scroll><table class=bars>",
                       counted_more(static_cast<std::int64_t>(folded), "line"));
    append_head(out, table);
    out += "<tbody>\n";
    for (std::size_t i = open; i < open + folded; ++i) append_row(out, table, table.rows[i], heaviest);
    out += "</tbody></table></div></details>\n";
  }
  if (left > 0) {
    out +=
        fmt::format("<p class=dim>… and {}, each with less than those above. All of them are in the JSON report.</p>\n",
                    counted_more(static_cast<std::int64_t>(left), "line"));
  }
  return out;
}

std::string html_open_table(std::string_view id, const std::string& title,
                            std::initializer_list<std::string_view> head) {
  std::string out =
      fmt::format("<section id={}><h2>{}</h2>\n<div class=scroll><table class=edits><thead><tr>", id, title);
  for (const std::string_view name : head) out += fmt::format("<th scope=col>{}</th>", name);
  return out + "</tr></thead><tbody>\n";
}

std::string html_close_table(std::size_t all, std::string_view what) {
  std::string out = "</tbody></table></div>\n";
  if (all > kMaxListedRows) {
    out +=
        fmt::format("<p class=dim>… and {}</p>", counted_more(static_cast<std::int64_t>(all - kMaxListedRows), what));
  }
  return out + "</section>\n";
}

std::string html_row(std::initializer_list<std::string> cells) {
  std::string out = "<tr>";
  for (const std::string& cell : cells) out += "<td>" + cell + "</td>";
  return out + "</tr>\n";
}

std::string html_place_of(std::string_view file, int line, std::string_view directory) {
  return file.empty() ? std::string() : html_place(file, line, directory);
}

}  // namespace locus::report
