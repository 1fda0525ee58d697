// The report in a line for each finding: for a terminal, for GitHub's log, and counted by code. What is cut off
// elsewhere is here too: every finding has its line.
#pragma once

#include <string>

#include "locus/engine/report.h"
#include "locus/report/text.h"

namespace locus::report {

/// "train.py:22:18: error[LOC004] `places`, made by arange(), was made without a device … [fix]", without a newline.
std::string concise_line(const engine::Finding& finding, const TextOptions& options);

/// A line for each finding that is not in the baseline, and the closing line.
std::string render_concise(const engine::Report& report, const TextOptions& options);

/// How many findings of each code, the most first, and the closing line.
std::string render_statistics(const engine::Report& report, const TextOptions& options);

/// Workflow commands, which GitHub shows at the lines of a pull request. Paths count from `root`.
std::string render_github(const engine::Report& report, const TextOptions& options, const std::string& root);

}  // namespace locus::report
