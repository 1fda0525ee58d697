// See memory.h.
#include "locus/bridge/dry/memory.h"

#include <ATen/EmptyTensor.h>
#include <ATen/SparseCsrTensorImpl.h>
#include <ATen/SparseCsrTensorUtils.h>
#include <ATen/SparseTensorImpl.h>
#include <c10/core/CPUAllocator.h>

#include <algorithm>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "locus/bridge/dry/knowledge.h"
#include "locus/bridge/memory/memory.h"

namespace locus::bridge::dry {

c10::intrusive_ptr<c10::StorageImpl> new_untouched_storage(std::size_t bytes, int device, std::size_t counted) {
  auto storage = new_device_storage(bytes, device, counted);
  if (DeviceBlock* block = block_of(*storage)) block->knowledge = static_cast<std::uint8_t>(Knowledge::kUnknown);
  return storage;
}

c10::intrusive_ptr<c10::StorageImpl> new_host_storage(std::size_t bytes) {
  c10::Allocator* allocator = c10::GetCPUAllocator();
  return c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), bytes, allocator->allocate(bytes),
                                               allocator, /*resizable=*/true);
}

void grow_storage(const at::Tensor& t, std::size_t bytes) {
  c10::StorageImpl* storage = t.storage().unsafeGetStorageImpl();
  if (t.is_cuda()) {
    resize_device_storage(*storage, bytes);
    return;
  }
  storage->set_data_ptr_noswap(c10::GetCPUAllocator()->allocate(bytes));
  storage->set_nbytes(bytes);
}

at::Tensor tensor_on(c10::Storage storage, bool on_host, bool unknown, const TensorGeometry& geometry) {
  c10::DispatchKeySet keys(on_host ? c10::DispatchKey::CPU : c10::DispatchKey::CUDA);
  if (on_host && unknown) keys = keys.add(kHostKey);
  auto impl = c10::make_intrusive<c10::TensorImpl>(std::move(storage), keys, c10::scalarTypeToTypeMeta(geometry.type));
  impl->set_sizes_and_strides(geometry.sizes, geometry.strides);
  impl->set_storage_offset(geometry.offset);
  if (geometry.conjugated) impl->_set_conj(true);
  if (geometry.negated) impl->_set_neg(true);
  return at::Tensor(std::move(impl));
}

at::Tensor new_unknown(c10::IntArrayRef sizes, at::ScalarType type, int device, std::int64_t counted) {
  return new_unknown(at::detail::empty_meta(sizes, type), device, counted);
}

at::Tensor new_unknown(const at::Tensor& like, int device, std::int64_t counted) {
  TensorGeometry geometry;
  geometry.type = like.scalar_type();
  geometry.sizes.append(like.sizes().begin(), like.sizes().end());
  geometry.strides.append(like.strides().begin(), like.strides().end());
  return new_unknown(geometry, device, counted);
}

at::Tensor new_unknown(const TensorGeometry& geometry, int device, std::int64_t counted) {
  const std::size_t bytes =
      at::detail::computeStorageNbytes(geometry.sizes, geometry.strides, c10::elementSize(geometry.type));
  auto storage = new_untouched_storage(bytes, device, static_cast<std::size_t>(counted));
  return tensor_on(c10::Storage(std::move(storage)), /*on_host=*/false, /*unknown=*/true, geometry);
}

bool make_parts_harmless(const at::Tensor& t) {
  std::vector<at::Tensor> parts;
  if (t.layout() == c10::kSparse) {
    const auto* impl = static_cast<const at::SparseTensorImpl*>(t.unsafeGetTensorImpl());
    parts = {impl->indices(), impl->values()};
  } else if (at::sparse_csr::is_sparse_compressed(t)) {
    const auto* impl = static_cast<const at::SparseCsrTensorImpl*>(t.unsafeGetTensorImpl());
    parts = {impl->compressed_indices(), impl->plain_indices(), impl->values()};
  }
  bool unknown = false;
  for (const at::Tensor& part : parts) {
    if (!is_unknown(part)) continue;
    unknown = true;
    fill_for_real(part, at::Scalar(0));
  }
  return unknown;
}

namespace {

constexpr std::size_t kMadeUpAtMost = std::size_t{256} << 20;  // a larger storage has the system's zeros

/// The storages that have made-up bytes.
struct Filled {
  std::mutex mutex;
  std::unordered_map<const c10::StorageImpl*, c10::weak_intrusive_ptr<c10::StorageImpl>> storages;
  std::size_t limit = 1024;

  bool add(const at::Tensor& t) {
    const c10::StorageImpl* storage = t.storage().unsafeGetStorageImpl();
    const std::lock_guard guard(mutex);
    const auto found = storages.find(storage);
    if (found != storages.end() && !found->second.expired()) return false;
    if (storages.size() >= limit) {
      std::erase_if(storages, [](const auto& each) { return each.second.expired(); });
      limit = std::max<std::size_t>(1024, storages.size() * 2);
    }
    storages.insert_or_assign(storage, c10::weak_intrusive_ptr<c10::StorageImpl>(t.storage().getWeakStorageImpl()));
    return true;
  }
};

}  // namespace

void make_up_bytes(const at::Tensor& t) {
  const std::size_t bytes = bytes_of_storage(t);
  if (!t.device().is_cpu() || t.layout() != c10::kStrided || bytes > kMadeUpAtMost ||
      is_small(bytes, t.scalar_type(), /*on_host=*/true)) {
    return;
  }
  static auto* filled = new Filled;
  if (!filled->add(t)) return;
  TensorGeometry whole;
  whole.type = t.scalar_type();
  whole.sizes.assign(1, static_cast<std::int64_t>(bytes / t.element_size()));
  whole.strides.assign(1, 1);
  fill_for_real(tensor_on(t.storage(), /*on_host=*/true, /*unknown=*/false, whole), made_up_value(whole.type));
}

at::Scalar as_read(const at::Scalar& value, at::ScalarType type) {
  if (type == at::kBool) return at::Scalar(value.toDouble() != 0.0);
  if (c10::isIntegralType(type, false)) return at::Scalar(value.toLong());
  if (c10::isComplexType(type)) return at::Scalar(c10::complex<double>(value.toDouble(), 0.0));
  return at::Scalar(value.toDouble());
}

}  // namespace locus::bridge::dry
