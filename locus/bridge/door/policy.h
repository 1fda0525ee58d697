// What happens when operands break their operator's rule: a choice of each thread, nested by scope. Work that a thread
// hands to autograd's threads takes its policy along. For threads that PyTorch or an extension started nobody chooses;
// there the process's own policy holds, which a check of the whole program sets.
#pragma once

#include <atomic>
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

/// The policy of threads for which nobody has decided; kClosed outside a check of the whole program.
extern std::atomic<PolicyState> g_process_policy;
/// Takes the GIL at the first call. The door must be installed before.
void set_process_policy(PolicyState state);

/// The policy in force on this thread.
Policy policy() noexcept;
PolicyState policy_state() noexcept;
/// Takes the GIL at the first call. The door must be installed before it is opened.
void set_policy_state(PolicyState state);

/// Whether nobody has decided about this thread, or whoever handed it its work: the process's policy holds.
bool is_undecided() noexcept;
/// Opens the door where nobody has decided about this thread. True: it was shut, and did not see the call in progress.
bool open_undecided() noexcept;
/// For kernels, which see every call whoever makes it: one comparison outside a check, two inside.
inline bool is_unseen() noexcept {
  return g_process_policy.load(std::memory_order_relaxed) != kClosed && open_undecided();
}

}  // namespace locus::bridge
