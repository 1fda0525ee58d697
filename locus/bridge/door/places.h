// Where the operands of a call are, seen with their C++ types: is there anything to judge?
#pragma once

#include <ATen/core/IListRef.h>
#include <ATen/core/Tensor.h>

#include "locus/bridge/kernels/signatures.h"

namespace locus::bridge {

/// Where the operands of a call are. 0-dim tensors of the CPU are counted by themselves: they may stand among others.
class Places {
 public:
  void add(const at::Tensor& t, bool written) {
    const c10::Device device = t.device();
    if (device.is_cpu() && !written && t.unsafeGetTensorImpl()->dim() == 0) {
      scalars_ += 1;
    } else if (!known_) {
      known_ = true;
      home_ = device;
    } else if (device != home_) {
      mixed_ = true;
    }
  }
  /// The call asks for a device by itself.
  void ask_for(c10::Device device) {
    asked_ = true;
    wanted_ = device;
  }
  bool any_on_the_cpu() const { return mixed_ || scalars_ != 0 || (known_ && home_.is_cpu()); }
  bool any_off_the_cpu() const { return mixed_ || (known_ && !home_.is_cpu()); }
  /// The card that operands are on; -1: none is.
  int card() const { return known_ && home_.is_cuda() ? home_.index() : -1; }
  /// Nothing to judge and nothing that crosses from one device to another.
  bool plain(bool one_scalar_is_welcome) const {
    if (mixed_) return false;
    if (asked_ && known_ && (wanted_ != home_ || scalars_ != 0)) return false;
    if (asked_ && !known_ && scalars_ != 0 && !wanted_.is_cpu()) return false;
    if (scalars_ == 0 || !known_ || home_.is_cpu()) return true;
    return scalars_ == 1 && one_scalar_is_welcome;
  }

 private:
  bool known_ = false, mixed_ = false, asked_ = false;
  int scalars_ = 0;
  c10::Device home_{c10::kCPU}, wanted_{c10::kCPU};
};

/// Calls `see(tensor, written)` on each defined tensor among the arguments.
template <class See>
void each_tensor_of(at::Tensor& t, See&& see) {
  if (t.defined()) see(t, true);
}
template <class See>
void each_tensor_of(const at::Tensor& t, See&& see) {
  if (t.defined()) see(t, false);
}
template <class See>
void each_tensor_of(const MaybeTensor& t, See&& see) {
  if (t.has_value() && t->defined()) see(*t, false);
}
template <class See>
void each_tensor_of(at::TensorList list, See&& see) {
  for (const at::Tensor& t : list) {
    if (t.defined()) see(t, false);
  }
}
template <class See>
void each_tensor_of(const at::ITensorListRef& list, See&& see) {
  for (const at::Tensor& t : list) {
    if (t.defined()) see(t, false);
  }
}
template <class Other, class See>
void each_tensor_of(const Other&, See&&) {}

}  // namespace locus::bridge
