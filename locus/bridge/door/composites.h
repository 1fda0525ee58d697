// Composites whose operands are on two devices. Their kernels check nothing themselves; one of the operators they call
// refuses. But the mistake is the composite's: its operands have names and a history, a part's are often steps on the
// way, and to go on with a step on the wrong device would carry the mistake into the result.
#pragma once

#include <exception>
#include <functional>

#include "locus/bridge/door/check.h"

namespace locus::bridge {

/// Whether this call is to be tried first: a composite that writes none of its operands, which are on two devices.
bool needs_trial(const Call& call);
/// Runs a composite. Where a part of it refused operands on two devices: PyTorch's error for that; else nothing.
std::exception_ptr refusal_of_parts(const std::function<void()>& run);
/// Before a part is reported: ends the trial that is under way on this thread, if there is one.
void refuse_in_trial(const Call& part, const Violation& violation);
/// The composite's own operands that are elsewhere.
Violation violation_of_whole(const Call& call);

}  // namespace locus::bridge
