// The check of an operator's operands against its rule, as a real GPU makes it: inside the kernel.
#pragma once

#include <ATen/core/stack.h>
#include <c10/core/DispatchKey.h>

#include "locus/bridge/plan.h"

namespace locus::bridge {

/// The dispatch key of the door above autograd (see docs/design.md). PyTorch leaves it to tools like this one.
constexpr auto kCheckKey = c10::DispatchKey::TESTING_ONLY_GenericMode;

/// Raises PyTorch's own error when the operands break the operator's rule. Cheap when all are on one device.
void check_operands(const OperatorPlan& plan, const c10::OperatorHandle& op, const torch::jit::Stack& stack, size_t base);

}  // namespace locus::bridge
