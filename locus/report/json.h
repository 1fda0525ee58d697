// The report as JSON, the contract with other programs (docs/report.schema.json), and back.
#pragma once

#include <string>
#include <string_view>

#include "locus/engine/report.h"

namespace locus::report {

/// Version 1, indented, keys always in the same order, always valid UTF-8, a newline at the end.
std::string render_json(const engine::Report& report);

/// Reads what render_json() or the bridge wrote; throws engine::FormatError, which says what is wrong and where.
engine::Report parse_report(std::string_view text);

/// The same for a file that somebody gives as a report: what has no version, no program or findings without a code, a
/// message and a place is no report of Locus, and throws too.
engine::Report read_report(std::string_view text);

}  // namespace locus::report
