// Transfers and synchronizations by source line on the HTML page: tables with bars, the heaviest lines first.
#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "locus/report/html_parts.h"
#include "locus/report/phrase.h"
#include "locus/report/screen.h"

namespace locus::report {

namespace {

template <class T>
bool any_time(const std::vector<T>& items) {
  return std::any_of(items.begin(), items.end(), [](const T& item) { return item.milliseconds > 0; });
}

std::string time_text(double milliseconds) { return milliseconds > 0 ? fmt::format("{:.2f} ms", milliseconds) : ""; }

}  // namespace

std::string html_transfers(const engine::Report& report, std::string_view directory) {
  if (report.transfers.empty()) return {};
  std::int64_t count = 0, bytes = 0;
  const bool timed = any_time(report.transfers);
  BarTable table{.caption = {}, .head = {"line", "from → to", "times", "bytes"}, .numbers = 2, .rows = {}};
  if (timed) table.head.emplace_back("time");
  const auto merge = [](engine::Transfer& sum, const engine::Transfer& more) {
    sum.count = add_up(sum.count, more.count), sum.bytes = add_up(sum.bytes, more.bytes);
    sum.milliseconds += more.milliseconds;
  };
  for (const engine::Transfer& each : by_weight(
           report.transfers, [](const auto& t) { return std::tie(t.file, t.line, t.from, t.to, t.note); }, merge,
           [](const auto& t) { return t.bytes; })) {
    count = add_up(count, each.count), bytes = add_up(bytes, each.bytes);
    std::string way = device_chip(each.from) + " → " + device_chip(each.to);
    if (!each.note.empty()) way += " <small>" + html_words(each.note, 60) + "</small>";
    std::vector<std::string> cells = {html_source_place(each.file, each.line, directory, each.text), std::move(way),
                                      grouped(each.count), bytes_text(each.bytes)};
    if (timed) cells.push_back(time_text(each.milliseconds));
    table.rows.push_back({std::move(cells), static_cast<double>(each.bytes), each.to});
  }
  return fmt::format(
      "<section id=transfers><h2>Transfers</h2><p class=lead>{} moved {} between devices. Heaviest lines first.</p>\n{}"
      "</section>\n",
      count == 1 ? "1 copy" : grouped(count) + " copies", bytes_text(bytes), html_bars(table));
}

std::string html_syncs(const engine::Report& report, std::string_view directory) {
  if (report.syncs.empty()) return {};
  std::int64_t count = 0;
  const bool timed = any_time(report.syncs);
  BarTable table{.caption = {}, .head = {"line", "by", "times"}, .numbers = 2, .rows = {}};
  if (timed) table.head.emplace_back("time");
  const auto merge = [](engine::Sync& sum, const engine::Sync& more) {
    sum.count = add_up(sum.count, more.count), sum.milliseconds += more.milliseconds;
  };
  for (const engine::Sync& each : by_weight(
           report.syncs, [](const auto& s) { return std::tie(s.file, s.line, s.kind); }, merge,
           [](const auto& s) { return s.count; })) {
    count = add_up(count, each.count);
    std::vector<std::string> cells = {html_source_place(each.file, each.line, directory, each.text),
                                      html_code(waiting_call(each.kind), 60), grouped(each.count)};
    if (timed) cells.push_back(time_text(each.milliseconds));
    table.rows.push_back({std::move(cells), static_cast<double>(each.count), ""});
  }
  return fmt::format(
      "<section id=syncs><h2>Synchronizations</h2><p class=lead>The host waits for a device {}. Lines that do it "
      "most come first.</p>\n{}</section>\n",
      counted(count, "time"), html_bars(table));
}

}  // namespace locus::report
