// While shapes are asked of PyTorch: what is called then is no call of the program's.
#pragma once

#include <ATen/PythonTorchFunctionTLS.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include "locus/bridge/door/check.h"

namespace locus::bridge::dry {

/// The rules may be Python: they are not to see what the program has put around its own calls.
class RuleScope {
 public:
  RuleScope() : state_(at::impl::PythonTorchFunctionTLS::get_disabled_state()) {
    at::impl::PythonTorchFunctionTLS::set_disabled_state(at::impl::TorchFunctionDisabledState::ALL_DISABLED);
  }
  ~RuleScope() { at::impl::PythonTorchFunctionTLS::set_disabled_state(state_); }
  RuleScope(const RuleScope&) = delete;
  RuleScope& operator=(const RuleScope&) = delete;

 private:
  at::impl::TorchFunctionDisabledState state_;
  KernelScope host_{-1};
  c10::impl::ExcludeDispatchKeyGuard below_{
      c10::autograd_dispatch_keyset_with_ADInplaceOrView | c10::DispatchKeySet(kCheckKey) |
      c10::DispatchKeySet(c10::DispatchKey::Python) | c10::DispatchKeySet(c10::DispatchKey::PythonTLSSnapshot)};
};

}  // namespace locus::bridge::dry
