// What happens when operands break their operator's rule: a choice of each thread, nested by scope. Work that a thread
// hands to autograd's threads takes its policy along.
#pragma once

#include <cstdint>

namespace locus::bridge {

enum class Policy : uint8_t {
  kRaise,    ///< PyTorch's own error
  kCollect,  ///< record a finding, move the odd operand, go on
  kWarn,     ///< the same, and a Python warning, once a cause
  kMove,     ///< move the odd operand and say nothing
};

/// A thread's policy as one number, to be kept and put back: that of a Policy, or kClosed.
using PolicyState = int;
/// The door is shut: operators pass unseen, and kernels raise. How a thread begins outside a check.
constexpr PolicyState kClosed = -1;

/// The policy in force on this thread.
Policy policy() noexcept;
PolicyState policy_state() noexcept;
/// Takes the GIL at the first call. The door must be installed before it is opened.
void set_policy_state(PolicyState state);

}  // namespace locus::bridge
