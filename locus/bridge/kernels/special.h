// Tensors that are more than a storage and strides (sparse COO, CSR and their kin, nested ones): taken apart
// into plain tensors for a kernel and put together again afterwards.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/DispatchKeySet.h>

#include <functional>

namespace locus::bridge {

inline bool is_plain(const at::Tensor& t) {
  constexpr c10::DispatchKeySet kRefined =
      c10::DispatchKeySet(c10::DispatchKey::NestedTensor) | c10::DispatchKeySet(c10::DispatchKey::Quantized);
  const c10::TensorImpl* impl = t.unsafeGetTensorImpl();
  return impl->layout() == c10::kStrided && impl->has_storage() && !impl->key_set().has_any(kRefined);
}

/// The CPU tensor over the host twins of the parts. Raises for layouts that are not simulated.
at::Tensor special_to_host(const at::Tensor& device, const std::function<at::Tensor(const at::Tensor&)>& part_to_host);
/// The device tensor made of a CPU result's parts.
at::Tensor special_to_device(const at::Tensor& host, int device,
                             const std::function<at::Tensor(at::Tensor)>& part_to_device);
/// After an in-place kernel: the device tensor gets the host twin's parts.
void special_follow(const at::Tensor& device, const at::Tensor& host,
                    const std::function<at::Tensor(at::Tensor)>& part_to_device);

}  // namespace locus::bridge
