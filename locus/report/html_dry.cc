// What a dry run made up, on the HTML page: so that nobody takes a printed loss for real.
#include <fmt/format.h>

#include <algorithm>

#include "locus/report/html_parts.h"
#include "locus/report/phrase.h"

namespace locus::report {

std::string html_dry(const engine::Report& report, std::string_view directory) {
  if (!report.dry) return {};
  const engine::DryRun& dry = *report.dry;
  if (dry.made_up.empty()) {
    return "<section id=dry><h2>Dry run</h2><p class=lead>Nothing that the program read was made up.</p></section>\n";
  }
  std::string out = html_open_table("dry", "Dry run: made up, not computed", {"what", "line", "call", "times"});
  for (std::size_t i = 0; i < std::min(kMaxListedRows, dry.made_up.size()); ++i) {
    const engine::MadeUpLine& each = dry.made_up[i];
    std::string what(made_up_words(each.kind));
    if (each.kind == "shape") what += " (" + html_words(dry.shapes, 12) + ")";
    if (each.kind == "memory") what += ", by " + bytes_text(each.bytes);
    const std::string where = each.line > 0 ? html_place_of(each.file, each.line, directory) : "in backward";
    out += html_row({what, where, html_code(waiting_call(each.operation), 80), std::to_string(each.count)});
  }
  return out + html_close_table(dry.made_up.size(), "line");
}

}  // namespace locus::report
