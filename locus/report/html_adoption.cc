// The parts of the HTML page for a project that lives with a checker: what is new since an earlier report and what is
// gone, what is ignored and by whom, and the code that never ran.
#include <fmt/format.h>

#include <algorithm>

#include "locus/engine/adoption.h"
#include "locus/report/html_parts.h"
#include "locus/report/phrase.h"
#include "locus/report/screen.h"

namespace locus::report {

using engine::Report;

std::string html_state(const Report& report, const engine::Finding& finding) {
  if (!report.baseline) return {};
  return engine::is_known(report, finding) ? "<span class=tag>known</span>" : "<span class=\"tag new\">new</span>";
}

std::string html_since(const Report& report, std::string_view directory) {
  if (!report.baseline || (report.baseline->more.empty() && report.baseline->gone.empty())) return {};
  const engine::Comparison& since = *report.baseline;
  std::string out = html_open_table("since", "Since " + html_words(since.file, 120), {"line", "what", "before", "now"});
  std::size_t shown = 0;
  for (const engine::Change& each : since.more) {
    if (shown++ >= kMaxListedRows) break;
    const bool memory = each.kind == "memory";
    const auto amount = [&](std::int64_t value) {
      return value <= 0 ? std::string("–") : memory ? bytes_text(value) : counted(value, "time");
    };
    const std::string where = each.line > 0 ? html_place_of(each.file, each.line, directory) : "in all";
    const std::string what = html_words(change_words(each), 80);
    out += html_row({where, what, amount(each.before), amount(each.now)});
  }
  for (const engine::Ignored& each : since.gone) {
    if (shown++ >= kMaxListedRows) break;
    const std::string what = html_words(each.code, 12) + " " + html_prose(each.message, 200);
    out += html_row({html_place_of(each.file, each.line, directory), what, "found", "gone"});
  }
  return out + html_close_table(since.more.size() + since.gone.size(), "line");
}

std::string html_ignored(const Report& report, std::string_view directory) {
  if (report.ignored.empty()) return {};
  std::string out = html_open_table("ignored", "Ignored", {"code", "line", "what", "by"});
  for (std::size_t i = 0; i < std::min(kMaxListedRows, report.ignored.size()); ++i) {
    const engine::Ignored& each = report.ignored[i];
    out += html_row({html_words(each.code, 12), html_place_of(each.file, each.line, directory),
                     html_prose(each.message, 200), html_prose(each.by, 300)});
  }
  return out + html_close_table(report.ignored.size(), "finding");
}

std::string html_not_run(const Report& report, std::string_view directory) {
  if (report.not_run.empty()) return {};
  std::string out = html_open_table("notrun", "Not run, so not checked", {"line", "function"});
  for (std::size_t i = 0; i < std::min(kMaxListedRows, report.not_run.size()); ++i) {
    const engine::NotRun& each = report.not_run[i];
    out += html_row({html_place_of(each.file, each.line, directory),
                     each.function.empty() ? std::string("the whole file") : html_code(each.function, 120)});
  }
  return out + html_close_table(report.not_run.size(), "function");
}

}  // namespace locus::report
