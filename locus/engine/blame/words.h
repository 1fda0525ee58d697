// The sentences of a finding that depend on the run: its message and why the tensor is where it is.
#pragma once

#include <string>
#include <vector>

#include "locus/engine/blame/blame.h"

namespace locus::engine {

/// "expected all tensors to be on the same device, but add() got cuda:0 and cpu"
std::string message_of(const Case& broken, Code code, const std::vector<Operand>& operands);
/// "`cache` is a plain attribute of `model` (Net); model.to("cuda:0") at train.py:56 moves parameters and buffers only"
/// `cause_line`: the line that is blamed.
std::string why_of(const Case& broken, Code code, const Operand& culprit, const std::string& expected, int cause_line);

}  // namespace locus::engine
