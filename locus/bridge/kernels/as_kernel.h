// Tensor code of our own that runs as one kernel of a simulated device: operands in at their host addresses,
// results out as device tensors, nothing counted in between.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include "locus/bridge/door/check.h"
#include "locus/bridge/door/policy.h"
#include "locus/bridge/dry/knowledge.h"
#include "locus/bridge/memory/memory.h"
#include "locus/bridge/state.h"
#include "locus/bridge/streams/ordering.h"

namespace locus::bridge {

/// For its lifetime the thread runs a kernel of the device that `anchor` is on.
class AsKernel {
 public:
  explicit AsKernel(const at::Tensor& anchor)
      : device_(anchor.device().is_cuda() ? anchor.device().index() : t_current_device),
        scope_(device_),
        below_(c10::autograd_dispatch_keyset_with_ADInplaceOrView | c10::DispatchKeySet(kCheckKey)) {
    is_unseen();
  }

  int device() const { return device_; }
  /// The operand at its host address; raises when it is elsewhere.
  at::Tensor in(const at::Tensor& t) const {
    if (!t.defined()) return t;
    TORCH_CHECK(t.device() == c10::Device(c10::kCUDA, static_cast<c10::DeviceIndex>(device_)),
                "Expected all tensors to be on the same device, but found at least two devices, cuda:", device_,
                " and ", t.device(), "!");
    unknown_ = unknown_ || (dry::on() && dry::is_unknown(t));
    if (ordering()) note_touch(t, /*written=*/false);
    return host_alias(t);
  }
  at::Tensor in(const std::optional<at::Tensor>& t) const { return t.has_value() ? in(*t) : at::Tensor(); }
  /// A result made here, as a contiguous tensor of the device.
  at::Tensor out(const at::Tensor& t) const { return t.defined() ? out_as_is(t.contiguous()) : t; }
  /// The same with the strides it has. The result must not share memory with an operand. It counts for `bytes` on the
  /// card, for its own size at 0.
  at::Tensor out_as_is(at::Tensor t, std::int64_t bytes = 0) const {
    if (!t.defined()) return t;
    auto host = c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(t.storage().unsafeGetStorageImpl());
    at::Tensor made = adopt_tensor(std::move(t), adopt_storage(host, device_, static_cast<size_t>(bytes)));
    if (unknown_) dry::set_knowledge(made, dry::Knowledge::kUnknown);
    if (ordering()) note_touch(made, /*written=*/true);
    return made;
  }
  /// In a dry run nothing passes through here: these were read, and these made.
  void note_dry(at::TensorList read, at::TensorList made) const {
    if (!ordering()) return;
    StreamWork work(device_, t_operator);
    for (const at::Tensor& t : read) work.touches(t, /*written=*/false);
    for (const at::Tensor& t : made) work.touches(t, /*written=*/true);
    work.finish();
  }

 private:
  void note_touch(const at::Tensor& t, bool written) const {
    StreamWork work(device_, t_operator);
    work.touches(t, written);
    work.finish();
  }

  int device_;
  mutable bool unknown_ = false;  ///< an operand's values are, in a dry run: so are the results'
  KernelScope scope_;
  c10::impl::ExcludeDispatchKeyGuard below_;
};

}  // namespace locus::bridge
