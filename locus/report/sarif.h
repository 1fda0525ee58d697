// The report as SARIF 2.1.0, which code hosts and editors show next to the source. No transfers, no memory, none of the
// program's arguments: only what is said about lines.
#pragma once

#include <string>

#include "locus/engine/report.h"

namespace locus::report {

struct SarifOptions {
  std::string directory;  ///< relative paths of the report start here; empty: the current one
  std::string root;       ///< paths inside it become relative to it (`SRCROOT`); empty: the same as `directory`
};

/// Version 2.1.0, indented, always valid UTF-8, a newline at the end.
std::string render_sarif(const engine::Report& report, const SarifOptions& options);

}  // namespace locus::report
