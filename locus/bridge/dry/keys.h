// The dispatch keys of a tensor, which PyTorch leaves to the tensor's own class.
#pragma once

#include <c10/core/TensorImpl.h>

namespace locus::bridge::dry {

struct KeysOf : c10::TensorImpl {
  static c10::DispatchKeySet& get(c10::TensorImpl& impl) { return impl.*(&KeysOf::key_set_); }
};

}  // namespace locus::bridge::dry
