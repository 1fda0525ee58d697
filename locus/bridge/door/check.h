// The check of an operator's operands against its rule: the same for a kernel, which raises as a real GPU
// does, and for the door, which reports and goes on.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/stack.h>
#include <c10/core/DispatchKey.h>
#include <c10/util/SmallVector.h>

#include <string>

#include "locus/bridge/kernels/plan.h"

namespace locus::bridge {

/// The dispatch key of the door above autograd (see docs/design.md). PyTorch leaves it to tools like this one.
constexpr auto kCheckKey = c10::DispatchKey::TESTING_ONLY_GenericMode;

/// One tensor among an operator's arguments.
struct OperandRef {
  int argument = 0;
  int element = -1;  ///< position in a list of tensors; -1: the argument is the tensor
};

/// A broken rule.
struct Violation {
  enum class Kind : uint8_t { kDevices, kIndex, kMustBeCpu, kGenerator } kind = Kind::kDevices;
  c10::Device device{c10::kCPU};        ///< where the call should happen, as PyTorch sees it
  c10::SmallVector<OperandRef, 4> odd;  ///< the operands that are elsewhere
};

/// A call's operands, seen through its plan.
struct Call {
  const OperatorPlan& plan;
  const c10::OperatorHandle& op;
  torch::jit::Stack& stack;
  size_t base;
};

/// Whether two tensor operands are on different devices.
bool on_two_devices(const Call& call);
/// True when the operands break the rule; cheap when all are on one device.
bool find_violation(const Call& call, Violation* violation);
/// PyTorch's own error for it.
[[noreturn]] void raise_violation(const Call& call, const Violation& violation);
/// Its first line.
std::string violation_message(const Call& call, const Violation& violation);

/// The tensor behind a reference (undefined when the argument is none).
at::Tensor operand(const Call& call, OperandRef ref);
/// All defined tensors of a call.
c10::SmallVector<OperandRef, 8> all_operands(const Call& call);

}  // namespace locus::bridge
