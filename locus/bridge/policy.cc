// See policy.h. The state travels with PyTorch's own thread state (ThreadLocalState), which a variable of ours would
// not: whether the door is open is the check key, which policy it is lies among its thread-local Python objects.
#include "locus/bridge/policy.h"

#include <ATen/ThreadLocalPythonObjects.h>
#include <Python.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/PyInterpreter.h>

#include <array>
#include <memory>

#include "locus/bridge/check.h"
#include "locus/bridge/real.h"
#include "locus/bridge/watch.h"

namespace locus::bridge {
namespace {

using at::impl::ThreadLocalPythonObjects;
using Mark = std::shared_ptr<c10::SafePyObject>;

const char* const kKey = "locus.policy";  // absent while the policy is kCollect, as in most checked programs

/// One mark for each policy, told apart by its address. Never freed: threads may hold one after the interpreter ended.
const std::array<Mark, 4>& marks() {
  static const auto* all = [] {
    const PyGILState_STATE gil = PyGILState_Ensure();
    auto* made = new std::array<Mark, 4>;
    for (Mark& mark : *made) {
      Py_INCREF(Py_None);
      mark = std::make_shared<c10::SafePyObject>(Py_None, getPyInterpreter());
    }
    PyGILState_Release(gil);
    return made;
  }();
  return *all;
}

}  // namespace

PolicyState policy_state() noexcept {
  if (!c10::impl::tls_is_dispatch_key_included(kCheckKey)) return kClosed;
  if (!ThreadLocalPythonObjects::contains(kKey)) return static_cast<PolicyState>(Policy::kCollect);
  const c10::SafePyObject* mark = ThreadLocalPythonObjects::get(kKey).get();
  for (size_t i = 0; i < marks().size(); ++i) {
    if (marks()[i].get() == mark) return static_cast<PolicyState>(i);
  }
  return static_cast<PolicyState>(Policy::kCollect);
}

Policy policy() noexcept {
  const PolicyState state = policy_state();
  return state == kClosed ? Policy::kRaise : static_cast<Policy>(state);
}

void set_policy_state(PolicyState state) {
  c10::impl::tls_set_dispatch_key_included(kCheckKey, state != kClosed);
  if (on_real_devices()) follow_memory(state != kClosed);
  if (state > static_cast<PolicyState>(Policy::kRaise)) g_judging.store(true);
  if (state == kClosed || state == static_cast<PolicyState>(Policy::kCollect)) {
    // Not erased: before PyTorch 2.12 there is no way to.
    if (ThreadLocalPythonObjects::contains(kKey)) {
      ThreadLocalPythonObjects::set(kKey, marks()[static_cast<size_t>(Policy::kCollect)]);
    }
  } else {
    ThreadLocalPythonObjects::set(kKey, marks()[state]);
  }
}

}  // namespace locus::bridge
