// The verdict in words: the same sentence in text, JSON, SARIF, the page and the summary of pytest.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "locus/engine/report.h"

namespace locus::report {

/// A space at which no line ends; what shows text on a screen turns it into a plain one.
inline constexpr std::string_view kNoBreak = "\u00a0";

/// All lines of the ledger together.
struct Totals {
  std::int64_t transfers = 0, bytes = 0, syncs = 0;
};
Totals totals_of(const engine::Report& report);

/// "ended with ValueError (exit status 1)", "was ended by SIGTERM", "ran out of device memory"; empty: it finished.
std::string ending_words(const engine::Program& program);

/// "no placement mistakes", "2 findings (1 error, 1 warning)", "nothing found before the program ended with exit status
/// 3", …: what may be said of the run, and no more.
std::string verdict_words(const engine::Report& report);

/// The same in two: what is said first, and what belongs to it.
struct Headline {
  std::string what;  ///< "2 findings"
  std::string rest;  ///< " (2 errors) before the program ended with exit status 3"
};
Headline headline(const engine::Report& report);

/// The verdict with the numbers of the run, for the last line; with no-break spaces.
std::string closing_words(const engine::Report& report);

}  // namespace locus::report
