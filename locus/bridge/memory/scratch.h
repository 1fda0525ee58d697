// Memory that is booked on a simulated card with nothing behind it: scratch memory of kernels, workspaces of libraries.
// What an operator takes is said by sim/operator_memory.h; here it is asked, and played to the caching model.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <ATen/core/stack.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <type_traits>
#include <utility>

#include "locus/bridge/kernels/plan.h"
#include "locus/bridge/memory/memory.h"
#include "locus/sim/operator_memory.h"

namespace locus::bridge {

/// Booked for the lifetime of the object; nothing for 0 bytes. Raises OutOfMemoryError where a card would.
class Scratch {
 public:
  Scratch() = default;
  Scratch(int device, std::int64_t bytes);
  ~Scratch() { release(); }
  Scratch(Scratch&& other) noexcept : device_(other.device_), booking_(std::exchange(other.booking_, {})) {}
  Scratch& operator=(Scratch&& other) noexcept {
    std::swap(device_, other.device_), std::swap(booking_, other.booking_);
    return *this;
  }
  void release() noexcept;

 private:
  int device_ = 0;
  Booking booking_;
};

/// The workspaces of cuBLAS, and of cuBLASLt, for this thread and its current stream: taken at the first product.
void need_blas_workspace(int device, bool lt);
/// torch._C._cuda_clearCublasWorkspaces()
void clear_blas_workspaces();

/// How an argument of any type is told to a rule for memory: the geometry of a tensor (of a list: of the first that is
/// there, which is what rules ask of indices), or numbers.
void tell(const at::Tensor& t, sim::OperatorArgument& argument);
void tell(const c10::IValue& value, sim::OperatorArgument& argument);
void tell(std::int64_t number, sim::OperatorArgument& argument);
void tell(const at::Scalar& number, sim::OperatorArgument& argument);
template <class T>
void tell_any(const T& value, sim::OperatorArgument& argument);
template <class List>
void tell_each(const List& list, sim::OperatorArgument& argument) {
  for (const auto& one : list) {
    if constexpr (std::is_same_v<std::decay_t<decltype(one)>, at::Tensor>) {
      if (argument.tensor.defined()) return;
    }
    tell_any(one, argument);
  }
}
template <class T>
void tell_any(const T& value, sim::OperatorArgument& argument) {
  if constexpr (std::is_same_v<T, at::Tensor> || std::is_same_v<T, at::Scalar>) {
    tell(value, argument);
  } else if constexpr (std::is_same_v<T, c10::SymInt>) {
    tell(value.expect_int(), argument);
  } else if constexpr (std::is_arithmetic_v<T> || std::is_enum_v<T>) {
    tell(static_cast<std::int64_t>(value), argument);
  } else if constexpr (requires { value.has_value(); }) {
    if (value.has_value()) tell_any(*value, argument);
  } else if constexpr (requires { value.begin(); } && !std::is_convertible_v<T, std::string_view> &&
                       !std::is_same_v<T, at::ArrayRef<at::Scalar>>) {
    tell_each(value, argument);
  }
}

/// What one call takes on the card. Made before the kernel consumes the arguments, played when the results are there.
class CardMemory {
 public:
  CardMemory(const OperatorPlan& plan, const torch::jit::Stack& stack, size_t base, int device);
  template <class... Arguments>
  CardMemory(sim::MemoryRule rule, int device, const Arguments&... arguments) : rule_(rule), device_(device) {
    if (!begin(sizeof...(Arguments))) return;
    size_t i = 0;
    ((i < call_->argument_count ? tell_any(arguments, call_->arguments[i++]) : void()), ...);
  }
  /// `look(i)` shows the i-th result before it is the device's (nullptr: no tensor), `make_result(i, bytes)` makes it a
  /// tensor of the device, that counts for `bytes` (0: for its own size).
  template <class Look, class MakeResult>
  void play(size_t returns, Look&& look, MakeResult&& make_result) {
    if (call_.has_value()) {
      call_->result_count = std::min(returns, sim::OperatorCall::kMaxResults);
      for (size_t i = 0; i < call_->result_count; ++i) show_result(i, look(i));
    }
    const sim::OperatorMemory memory = ask();
    std::array<Scratch, sim::OperatorMemory::kMaxSteps> scratch;
    std::uint32_t made = 0;
    size_t taken = 0;
    for (size_t i = 0; i < memory.count; ++i) {
      const sim::MemoryStep& step = memory.steps[i];
      if (step.kind == sim::MemoryStep::Kind::kTake) {
        scratch[taken++] = Scratch(device_, step.bytes);
      } else if (step.kind == sim::MemoryStep::Kind::kGive) {
        scratch[step.which].release();
      } else if (step.which < returns) {
        make_result(step.which, step.bytes);
        made |= 1U << step.which;
      }
    }
    for (size_t i = 0; i < returns; ++i) {
      if ((made >> i & 1) == 0) make_result(i, 0);
    }
    if (memory.blas) need_blas_workspace(device_, memory.blas_lt);
  }
  /// The same for results in boxes, the last of a stack.
  template <class MakeResult>
  void play(const torch::jit::Stack& stack, size_t returns, MakeResult&& make_result) {
    const auto look = [&](size_t i) -> const at::Tensor* {
      const c10::IValue& value = stack[stack.size() - returns + i];
      return value.isTensor() ? &value.toTensor() : nullptr;
    };
    play(returns, look, std::forward<MakeResult>(make_result));
  }

 private:
  /// False: the rule asks nothing of the operands.
  bool begin(size_t arguments);
  void show_result(size_t i, const at::Tensor* t);
  sim::OperatorMemory ask() const;

  sim::MemoryRule rule_;
  std::optional<sim::OperatorCall> call_;  ///< large: only where the rule asks
  int device_;
};

}  // namespace locus::bridge
