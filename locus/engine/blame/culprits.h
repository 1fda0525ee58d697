// Which operands of a broken rule are wrong, and where they should have been. Explicit beats default: a tensor that was
// put on its device on purpose is right, one that merely landed there is the suspect.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "locus/engine/blame/blame.h"

namespace locus::engine {

/// No operand: nothing is known of any.
inline constexpr std::size_t kNoOperand = static_cast<std::size_t>(-1);

struct Culprits {
  std::vector<std::size_t> operands;  ///< their numbers, the surest first; kNoOperand where there is none
  std::string expected;               ///< the device where they should be
};

Culprits find_culprits(const Case& broken);

}  // namespace locus::engine
