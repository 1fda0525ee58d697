// From a case (one broken rule, with all that is known of its operands) to a finding: which operand is wrong, why it
// is where it is, which line to edit. Words that depend on the run are made here; how they are laid out is not.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "locus/engine/finding.h"

namespace locus::engine {

/// One broken rule as it happened.
struct Case {
  CaseKind kind = CaseKind::kOperator;
  std::string op, overload, error, device;
  std::string refused_with;  ///< what a library or the program itself said that refused the call; empty for operators
  Location use;
  std::optional<Location> library, forward, caught_by;
  bool in_backward = false;
  std::int64_t step = 0;
  bool replica = false;    ///< inside a DataParallel replica
  bool collating = false;  ///< while a DataLoader makes a batch of samples
  std::string home;        ///< the one device of the module whose code runs; empty where it is on several
  std::vector<Operand> operands;
  std::vector<Candidate> candidates;  ///< where no operand is known
};

/// Reads a case as the bridge writes it. Throws FormatError.
Case parse_case(std::string_view json);

/// Decides: one finding for each operand that is wrong for a reason of its own. Never empty and never fails: where
/// nothing better is known, the reason is "other" and the words say what is known.
std::vector<Finding> blame(const Case& broken);

}  // namespace locus::engine
