// Doors for the operators whose C++ signature is known. The door's common kernel gets its arguments in boxes, which
// costs an allocation and a copy of every operand; from PyTorch 2.10 on, a copy of a tensor that only Python holds
// takes the interpreter's lock, too. A typed door takes the arguments as they are, and calls the common one for
// anything but the plain case: operands on one device.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

namespace locus::bridge {

/// Registers one, where the operator's signature is known; the door's common kernel is there for the rest.
void install_typed_door(const c10::OperatorHandle& op);
/// How many operators have one.
int typed_doors();

}  // namespace locus::bridge
