// Which operands of an operator may be on which device: one rule per operator, one exception per
// argument where it differs. The table itself is made from PyTorch's own metadata when Locus is built.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace locus::engine {

/// How PyTorch checks an operator's operands as a whole.
enum class RuleKind : std::uint8_t {
  kExact,           ///< all on one device, 0-dim tensors too; the message names the argument
  kIterator,        ///< all on one device; the message names the two devices
  kIteratorScalar,  ///< as kIterator, but one 0-dim CPU tensor may stand among CUDA tensors
  kAnywhere,        ///< no check: copies, shape queries
};

/// How one argument departs from its operator's rule.
enum class ArgumentRule : std::uint8_t {
  kSame,        ///< follows the operator's rule
  kScalarOk,    ///< a 0-dim CPU tensor is fine here
  kIndex,       ///< on the CPU or on the device of what is indexed
  kMustBeCpu,   ///< lengths
  kFree,        ///< anywhere
  kRealScalar,  ///< follows the operator's rule, but a 0-dim CPU tensor is not fine among complex numbers
};

struct OperatorRule {
  RuleKind kind = RuleKind::kExact;
  static constexpr int kMaxArguments = 21;  ///< how many can differ
  std::uint64_t arguments = 0;              ///< 3 bits an argument: ArgumentRule
  ArgumentRule argument(int position) const {
    return position < kMaxArguments ? static_cast<ArgumentRule>((arguments >> (3 * position)) & 7)
                                    : ArgumentRule::kSame;
  }
  void set_argument(int position, ArgumentRule rule) {
    if (position < kMaxArguments) arguments |= static_cast<std::uint64_t>(rule) << (3 * position);
  }
};

}  // namespace locus::engine
