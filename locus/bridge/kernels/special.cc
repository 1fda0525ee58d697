// See special.h.
#include "locus/bridge/kernels/special.h"

#include <ATen/NestedTensorImpl.h>
#include <ATen/SparseCsrTensorImpl.h>
#include <ATen/SparseTensorImpl.h>
#include <c10/core/DeviceGuard.h>

namespace locus::bridge {
namespace {

using at::Tensor;
using c10::DispatchKey;
using c10::DispatchKeySet;

at::SparseTensorImpl* coo(const Tensor& t) { return static_cast<at::SparseTensorImpl*>(t.unsafeGetTensorImpl()); }
at::SparseCsrTensorImpl* csr(const Tensor& t) { return static_cast<at::SparseCsrTensorImpl*>(t.unsafeGetTensorImpl()); }

bool is_compressed(c10::Layout layout) {
  return layout == c10::kSparseCsr || layout == c10::kSparseCsc || layout == c10::kSparseBsr ||
         layout == c10::kSparseBsc;
}

[[noreturn]] void refuse_layout(const Tensor& t) {
  TORCH_CHECK_NOT_IMPLEMENTED(!t.is_quantized(), "locus: quantized tensors (here: ", t.scalar_type(),
                              ") are not simulated. Keep this part on the CPU (x.cpu()), where PyTorch has most of its "
                              "quantized operators.");
  TORCH_CHECK_NOT_IMPLEMENTED(false, "locus: tensors of layout ", t.layout(), " and type ", t.toString(),
                              " are not simulated. Keep this part on the CPU (x.cpu()).");
}

void set_coo_parts(const Tensor& target, const Tensor& source, const Tensor& indices, const Tensor& values) {
  coo(target)->raw_resize_(coo(source)->sparse_dim(), coo(source)->dense_dim(), source.sizes());
  coo(target)->set_indices_and_values_unsafe(indices, values);
  coo(target)->set_coalesced(coo(source)->coalesced());
}

Tensor make_coo(DispatchKey key, const Tensor& like, const Tensor& indices, const Tensor& values) {
  const c10::DeviceGuard here(values.device());  // an empty one is made first, where the current device is
  Tensor made = at::detail::make_tensor<at::SparseTensorImpl>(DispatchKeySet(key), like.dtype());
  set_coo_parts(made, like, indices, values);
  return made;
}

Tensor make_compressed(DispatchKey key, c10::Device device, const Tensor& like, const Tensor& compressed,
                       const Tensor& plain, const Tensor& values) {
  Tensor made =
      at::detail::make_tensor<at::SparseCsrTensorImpl>(DispatchKeySet(key), device, like.layout(), like.dtype());
  csr(made)->set_member_tensors(compressed, plain, values, like.sizes());
  return made;
}

/// The same list of tensors over other memory.
Tensor nested_over(const Tensor& buffer, const Tensor& like) {
  const auto* impl = static_cast<const at::native::NestedTensorImpl*>(like.unsafeGetTensorImpl());
  return at::detail::make_tensor<at::native::NestedTensorImpl>(buffer, impl->get_nested_sizes(),
                                                               impl->get_nested_strides(), impl->get_storage_offsets());
}
Tensor buffer_of(const Tensor& nested) {
  return static_cast<at::native::NestedTensorImpl*>(nested.unsafeGetTensorImpl())->get_unsafe_storage_as_tensor();
}

}  // namespace

Tensor special_to_host(const Tensor& device, const std::function<Tensor(const Tensor&)>& part) {
  if (device.layout() == c10::kSparse) {
    return make_coo(DispatchKey::SparseCPU, device, part(coo(device)->indices()), part(coo(device)->values()));
  }
  if (is_compressed(device.layout())) {
    return make_compressed(DispatchKey::SparseCsrCPU, c10::Device(c10::kCPU), device,
                           part(csr(device)->compressed_indices()), part(csr(device)->plain_indices()),
                           part(csr(device)->values()));
  }
  if (device.is_nested()) return nested_over(part(buffer_of(device)), device);
  refuse_layout(device);
}

Tensor special_to_device(const Tensor& host, int index, const std::function<Tensor(Tensor)>& part) {
  if (host.layout() == c10::kSparse) {
    return make_coo(DispatchKey::SparseCUDA, host, part(coo(host)->indices()), part(coo(host)->values()));
  }
  if (is_compressed(host.layout())) {
    return make_compressed(DispatchKey::SparseCsrCUDA, c10::Device(c10::kCUDA, static_cast<c10::DeviceIndex>(index)),
                           host, part(csr(host)->compressed_indices()), part(csr(host)->plain_indices()),
                           part(csr(host)->values()));
  }
  if (host.is_nested()) return nested_over(part(buffer_of(host)), host);
  refuse_layout(host);
}

void special_follow(const Tensor& device, const Tensor& host, const std::function<Tensor(Tensor)>& part) {
  if (device.layout() == c10::kSparse) {
    set_coo_parts(device, host, part(coo(host)->indices()), part(coo(host)->values()));
  } else if (is_compressed(device.layout())) {
    csr(device)->set_member_tensors(part(csr(host)->compressed_indices()), part(csr(host)->plain_indices()),
                                    part(csr(host)->values()), host.sizes());
  } else if (!device.is_nested()) {  // the parts of a nested tensor were written in place
    refuse_layout(device);
  }
}

}  // namespace locus::bridge
