// The boxed kernels behind dispatch key CUDA, for whoever registers them.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <map>
#include <string>

#include "locus/bridge/door/check.h"

namespace locus::bridge {

/// What must not see the calls that a CPU kernel makes inside.
constexpr c10::DispatchKeySet kAboveKernels =
    c10::autograd_dispatch_keyset_with_ADInplaceOrView | c10::DispatchKeySet(kCheckKey);

/// Runs PyTorch's CPU kernel of the operator on the operands' host addresses.
void simulated_kernel(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack);
/// The same for sparse tensors.
void simulated_special_kernel(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack);
/// Checks the operands, then takes the operator apart: for composites that are one operator on a card.
void checked_composite_kernel(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack);
/// Takes the operator apart; only the words it raises with are a card's, which has one operator inside for many.
void worded_composite_kernel(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack);
/// A broken rule, met in a kernel. `unseen`: no door stood before it.
void answer(const Call& call, const Violation& violation, bool unseen);
/// Says that quantized tensors are not simulated.
void refusing_quantized_kernel(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack);
/// Says by name that the operator is not simulated.
void refusing_kernel(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack);

/// Each aten operator that PyTorch's metadata or this build knows a kernel of: "simulated", "written" (by Locus),
/// "refused" (by name), "host only" (a card has no kernel for it either). Complete once devices are simulated.
const std::map<std::string, const char*>& operator_kinds();

}  // namespace locus::bridge
