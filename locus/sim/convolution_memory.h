// cuDNN's scratch memory for convolutions, by its heuristics' usual choice. See convolution_memory.cc.
#pragma once

#include "locus/sim/operator_memory.h"

namespace locus::sim {

void add_convolution(const OperatorCall& call, const Card& card, OperatorMemory& memory);
void add_convolution_backward(const OperatorCall& call, const Card& card, OperatorMemory& memory);

}  // namespace locus::sim
