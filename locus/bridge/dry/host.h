// Host tensors without values.
#pragma once

#include <ATen/core/Tensor.h>

namespace locus::bridge::dry {

/// Registers what operators do with host tensors whose values are unknown, and has large new ones be such.
void install_host_kernels();

/// A copy with an operand whose values are unknown, or a target that is too large to have any. False: copy the bytes.
bool copy_dry(const at::Tensor& to, const at::Tensor& from);

}  // namespace locus::bridge::dry
