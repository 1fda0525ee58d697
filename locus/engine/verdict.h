// What a run comes to: what may be said of it, and the exit status of the check. The one place that decides; the words
// are in locus/report/closing.h.
#pragma once

#include <cstdint>
#include <string_view>

#include "locus/engine/report.h"

namespace locus::engine {

/// What a check may say. "Nothing found" is said only of what was looked at.
enum class Verdict : std::uint8_t {
  kFindings,         ///< something that nobody decided to live with
  kNothingNew,       ///< findings, all of them in the baseline
  kNothingFound,     ///< operators ran on devices, and none was wrong
  kNothingOnDevice,  ///< operators ran, all of them on the CPU
  kNothingChecked,   ///< the program called no operator
  kIncomplete,       ///< nothing was found, but the check did not see all that it should have
};

/// "findings", "nothing-new", …: as in JSON.
std::string_view to_string(Verdict verdict);

Verdict judge(const Report& report);

/// Whether the program came to its end: not with an error, not by a signal, not with an exit status of its own.
bool is_finished(const Program& program);

/// Whether the verdict stands for the whole program: it came to its end, and was looked at.
bool is_conclusive(const Report& report);

/// The exit status of a check: that of Ctrl-C and SIGTERM; 1 with findings; without, 0 for a program that finished and
/// was checked, 2 for one that was not checked, else the program's own, never 0. `all_fixed`: the fixes of all findings
/// were verified and written.
int exit_status(const Report& report, bool all_fixed = false);

}  // namespace locus::engine
