// Storages that nobody fills: address space, and their place in the caching model.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/StorageImpl.h>

#include "locus/bridge/dry/geometry.h"
#include "locus/bridge/kernels/special.h"

namespace locus::bridge::dry {

/// A storage of a device whose memory is never touched.
c10::intrusive_ptr<c10::StorageImpl> new_untouched_storage(std::size_t bytes, int device, std::size_t counted = 0);
/// A tensor without values: contiguous, or with the geometry of another. It counts for `counted` bytes on the card, for
/// its own size at 0.
at::Tensor new_unknown(c10::IntArrayRef sizes, at::ScalarType type, int device, std::int64_t counted = 0);
at::Tensor new_unknown(const at::Tensor& like, int device, std::int64_t counted = 0);
at::Tensor new_unknown(const TensorGeometry& geometry, int device, std::int64_t counted = 0);
/// The same on the host: the system gives pages on first touch.
c10::intrusive_ptr<c10::StorageImpl> new_host_storage(std::size_t bytes);
/// Gives a tensor's storage more bytes (resize_, out=).
void grow_storage(const at::Tensor& t, std::size_t bytes);

/// A tensor of this geometry on a storage of the host, or of a device.
at::Tensor tensor_on(c10::Storage storage, bool on_host, bool unknown, const TensorGeometry& geometry);

/// Whether shape rules speak of tensors like this one.
inline bool is_plain_for_dry(const at::Tensor& t) { return t.layout() == c10::kStrided && is_plain(t); }

/// Writes zeros over unknown indices and values of a sparse tensor, which kernels read as addresses. False where its
/// parts are known, and for other tensors.
bool make_parts_harmless(const at::Tensor& t);

/// Gives an unknown tensor of the host made-up bytes, before somebody reads them. A storage gets them once: what was
/// read stays, and so does what the program has written over it. Those of large tensors are left as they are.
void make_up_bytes(const at::Tensor& t);

/// A made-up number as a tensor of this type would hand it to the host.
at::Scalar as_read(const at::Scalar& value, at::ScalarType type);

}  // namespace locus::bridge::dry
