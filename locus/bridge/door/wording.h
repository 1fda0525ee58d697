// The words of operators that check their operands themselves, in a way of their own.
#pragma once

#include "locus/bridge/door/check.h"

namespace locus::bridge {

/// Raises for operands on different devices as this operator does; returns where its words are the common ones.
void raise_in_own_words(const Call& call);

/// TensorIterator looks at shapes before it looks at devices: raises where they don't fit each other.
void raise_shapes_first(const Call& call);

}  // namespace locus::bridge
