// What the arguments of a call in a capture say: where it runs, and what a card makes of them. They are on the stack
// from `base` on.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <string>

#include "locus/bridge/kernels/plan.h"
#include "locus/sim/libraries.h"

namespace locus::bridge {

/// The device that a call runs on: that of its operands, else the one it names, else the current one.
int device_of(const OperatorPlan& plan, const torch::jit::Stack& stack, size_t base);
/// Whether a card waits to see how much a mask selects. One value for all that it selects needs no waiting.
bool waits_for_mask(const OperatorPlan& plan, const torch::jit::Stack& stack, size_t base);
/// The numbers of the host's among the arguments that are not the schema's own: "0.5 2".
std::string numbers_of(const c10::OperatorHandle& op, const torch::jit::Stack& stack, size_t base);
/// What a card says where it would have to set a library up for the call and the capture's mode forbids that here, or
/// never captures it; nulls: it takes it.
sim::LibraryWords refused_for_library(const OperatorPlan& plan, const torch::jit::Stack& stack, size_t base, int device,
                                      bool forbids_set_up);

}  // namespace locus::bridge
