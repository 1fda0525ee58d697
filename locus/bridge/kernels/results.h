// After a CPU kernel: what it has made becomes tensors of the device, what it has changed is followed. Hot path.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/SmallVector.h>

#include <utility>

#include "locus/bridge/kernels/special.h"
#include "locus/bridge/memory/memory.h"

namespace locus::bridge {

inline c10::StorageImpl* storage_behind(const at::Tensor& t) {
  return t.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl();
}

/// Storages that a kernel has made, each adopted once: the host's, held for its address; the device's.
using Adopted =
    c10::SmallVector<std::pair<c10::intrusive_ptr<c10::StorageImpl>, c10::intrusive_ptr<c10::StorageImpl>>, 2>;

/// The memory of the device behind a plain result that is no operand itself: an operand's where it is a view of one,
/// its own where it is new. `operands`: each with the tensor of the device() and its `host` twin. What is new counts
/// for `counted` on the card, for its own size at 0.
template <class Operands>
at::Tensor adopt_result(at::Tensor&& t, const Operands& operands, Adopted* adopted, int device, size_t counted) {
  c10::StorageImpl* storage = storage_behind(t);
  if (storage->data() != nullptr) {
    for (const auto& operand : operands) {
      if (is_plain(operand.tensor()) && storage_behind(operand.host) == storage) {
        return adopt_tensor(std::move(t),
                            c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(storage_behind(operand.tensor())));
      }
    }
  }
  for (auto& [host, known] : *adopted) {
    if (host.get() == storage) return adopt_tensor(std::move(t), known);
  }
  auto host = c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(storage);
  auto made = adopt_storage(host, device, counted);
  adopted->emplace_back(std::move(host), made);
  return adopt_tensor(std::move(t), made);
}

/// resize_ and out= may have given the host twin of a plain tensor other sizes or other memory.
inline void follow_twin(const at::Tensor& t, const at::Tensor& twin) {
  c10::TensorImpl* device = t.unsafeGetTensorImpl();
  c10::TensorImpl* host = twin.unsafeGetTensorImpl();
  follow_host(*storage_behind(t), host->unsafe_storage().getWeakStorageImpl().lock(), t.device().index());
  if (device->sizes() != host->sizes() || device->strides() != host->strides() ||
      device->storage_offset() != host->storage_offset()) {
    device->set_sizes_and_strides(host->sizes(), host->strides());
    device->set_storage_offset(host->storage_offset());
  }
  // Some kernels leave a result conjugated: the bits are the conjugate's, and the flag says so.
  if (device->is_conj() != host->is_conj()) device->_set_conj(host->is_conj());
  if (device->is_neg() != host->is_neg()) device->_set_neg(host->is_neg());
}

}  // namespace locus::bridge
