// Memory that is booked on a simulated card with nothing behind it: scratch memory of kernels, workspaces of libraries.
// What an operator takes is said by sim/operator_memory.h; here it is asked, and played to the caching model.
#pragma once

#include <ATen/core/stack.h>

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

/// What one call takes on the card. Made before the kernel consumes the arguments, played when the results are there.
class CardMemory {
 public:
  CardMemory(const OperatorPlan& plan, const torch::jit::Stack& stack, size_t base, int device);
  /// `make_result(i, bytes)` makes the i-th result a tensor of the device, that counts for `bytes` (0: for its own
  /// size).
  template <class MakeResult>
  void play(const torch::jit::Stack& stack, size_t returns, MakeResult&& make_result) {
    const sim::OperatorMemory memory = ask(stack, returns);
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

 private:
  sim::OperatorMemory ask(const torch::jit::Stack& stack, size_t returns);

  sim::OperatorCall call_;
  int device_;
};

}  // namespace locus::bridge
