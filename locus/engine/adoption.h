// How a project with findings of old adopts a checker: comparing a run with the report of an earlier one.
#pragma once

#include <string>

#include "locus/engine/report.h"

namespace locus::engine {

/// What `now` has that `before` had not, and the other way round. `file` is the earlier report's name, for people.
Comparison compare(const Report& before, const Report& now, std::string file);

/// Whether the report was compared with an earlier one that has this finding, too.
bool is_known(const Report& report, const Finding& finding);

}  // namespace locus::engine
