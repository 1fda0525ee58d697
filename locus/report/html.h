// The report as one HTML page: everything is in the file, nothing is fetched, and it reads without scripts. For a
// person who has ten seconds: what is wrong and which line to edit come first, the reasons and the numbers after it.
#pragma once

#include <string>

#include "locus/engine/report.h"

namespace locus::report {

struct HtmlOptions {
  std::string directory;  ///< paths inside it are shown relative; empty: the current one
};

/// The whole page, always valid UTF-8, under kMaxPageBytes whatever the report holds.
std::string render_html(const engine::Report& report, const HtmlOptions& options);

/// What does not fit is counted on the page; it is in the JSON report.
constexpr std::size_t kMaxPageBytes = 2'000'000;

}  // namespace locus::report
