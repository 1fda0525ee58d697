// Kernels of simulated devices for the operators whose C++ signature is known. The common kernel gets its arguments in
// boxes, which costs an allocation and a copy of every operand; a typed one takes them as they are, and calls the
// common one for anything but the plain case: dense operands on one device, in a run with values that no graph
// captures.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

namespace locus::bridge {

/// True: the operator has one behind key CUDA from now on.
bool install_typed_kernel(const c10::OperatorHandle& op);
/// How many operators have one.
int typed_kernels();

}  // namespace locus::bridge
