// The check door: a boxed kernel above autograd that sees the operands of every call before it runs.
#pragma once

#include <atomic>
#include <exception>
#include <mutex>
#include <set>
#include <string>

#include "locus/bridge/door/check.h"
#include "locus/bridge/door/verdicts.h"

namespace locus::bridge {

/// Registers the door's kernel; done once, at the first check. set_policy_state() opens the door for a thread.
void install_door();
/// The devices are real from now on, where it is there already.
void see_in_place();

/// The door's kernel, for any operator.
void door(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack);

/// Records the broken rule as a finding (the first time through Python), then moves the odd operands where they
/// should be, with a differentiable copy where autograd is on, or raises where the program means to catch it.
/// `refusal`: PyTorch's error, where it is known already.
void report_and_move(const Call& call, const Violation& violation, const std::exception_ptr& refusal = nullptr);

/// The same where the operands can't be moved: PyTorch's error is raised, and the finding is kept.
[[noreturn]] void report_and_raise(const Call& call, const Violation& violation);

/// The words of errors that were raised although their findings are kept: who hears of one that nobody caught knows
/// that it is told already.
class KeptErrors {
 public:
  void note(std::string words);
  /// Whether there was one with these words; it is forgotten.
  bool take(const std::string& words);

 private:
  static constexpr std::size_t kMost = 10'000;
  std::mutex mutex_;
  std::multiset<std::string> words_;
};
KeptErrors& kept_errors();

/// The host reads this tensor here: a finding when its copy from a device is still under way.
void check_host_read(const std::string& op, const at::Tensor& tensor, int argument, bool by_operator = false);
/// The host writes to it: a finding when a copy to a device still reads it.
void check_host_write(const std::string& op, const at::Tensor& tensor, int argument);

/// Operator calls that the door has seen.
uint64_t calls_seen();

}  // namespace locus::bridge
