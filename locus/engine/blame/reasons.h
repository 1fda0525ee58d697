// Why a culprit is where it is: the reason, by what it is to the program and what its history says.
#pragma once

#include <string>

#include "locus/engine/blame/blame.h"

namespace locus::engine {

/// `culprit`: null where no operand is known. `expected`: the device where it should be.
Code reason_of(const Case& broken, const Operand* culprit, const std::string& expected);

}  // namespace locus::engine
