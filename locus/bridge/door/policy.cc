// See policy.h. The state travels with PyTorch's own thread state (ThreadLocalState), which a variable of ours would
// not: whether the door is open is the check key, which policy it is lies among its thread-local Python objects. A
// thread that has neither is one for which nobody has decided.
#include "locus/bridge/door/policy.h"

#include <ATen/ThreadLocalPythonObjects.h>
#include <Python.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/PyInterpreter.h>

#include <array>
#include <memory>

#include "locus/bridge/door/check.h"
#include "locus/bridge/door/passage.h"
#include "locus/bridge/door/real.h"
#include "locus/bridge/door/watch.h"

namespace locus::bridge {

std::atomic<PolicyState> g_process_policy{kClosed};

namespace {

using at::impl::ThreadLocalPythonObjects;
using Mark = std::shared_ptr<c10::SafePyObject>;

const char* const kKey = "locus.policy";  // absent while the policy is kCollect, as in most checked programs

/// One mark for each policy, told apart by its address, and two more. Never freed: threads may hold one after the
/// interpreter ended.
constexpr size_t kShut = 4;     ///< somebody decided that the door be shut
constexpr size_t kFollows = 5;  ///< opened because nobody decided: what holds is the process's policy
using Marks = std::array<Mark, 6>;
const Marks& marks() {
  static const auto* all = [] {
    const PyGILState_STATE gil = PyGILState_Ensure();
    auto* made = new Marks;
    for (Mark& mark : *made) {
      Py_INCREF(Py_None);
      mark = std::make_shared<c10::SafePyObject>(Py_None, getPyInterpreter());
    }
    PyGILState_Release(gil);
    return made;
  }();
  return *all;
}

/// The number of this thread's mark; -1 where it has none.
int mark_here() {
  if (!ThreadLocalPythonObjects::contains(kKey)) return -1;
  const c10::SafePyObject* mark = ThreadLocalPythonObjects::get(kKey).get();
  for (size_t i = 0; i < marks().size(); ++i) {
    if (marks()[i].get() == mark) return static_cast<int>(i);
  }
  return -1;
}

}  // namespace

PolicyState policy_state() noexcept {
  const bool open = c10::impl::tls_is_dispatch_key_included(kCheckKey);
  const PolicyState process = g_process_policy.load(std::memory_order_relaxed);
  if (!open && process == kClosed) return kClosed;
  const int mark = mark_here();
  if (mark == static_cast<int>(kFollows) || (!open && mark < 0)) return process;
  if (!open) return kClosed;
  return mark < 0 ? static_cast<PolicyState>(Policy::kCollect) : mark;
}

Policy policy() noexcept {
  const PolicyState state = policy_state();
  return state == kClosed ? Policy::kRaise : static_cast<Policy>(state);
}

void set_policy_state(PolicyState state) {
  c10::impl::tls_set_dispatch_key_included(kCheckKey, state != kClosed);
  if (on_real_devices()) follow_memory(state != kClosed);
  if (state > static_cast<PolicyState>(Policy::kRaise)) g_judging.store(true);
  // Collecting needs no mark, but one that is there is not erased: before PyTorch 2.12 there is no way to.
  if (state != static_cast<PolicyState>(Policy::kCollect) || ThreadLocalPythonObjects::contains(kKey)) {
    ThreadLocalPythonObjects::set(kKey, marks()[state == kClosed ? kShut : static_cast<size_t>(state)]);
  }
}

void set_process_policy(PolicyState state) {
  marks();  // later there may be no way to the GIL
  if (state > static_cast<PolicyState>(Policy::kRaise)) g_judging.store(true);
  g_process_policy.store(state);
}

bool is_undecided() noexcept {
  const int mark = mark_here();
  return mark == static_cast<int>(kFollows) || (mark < 0 && !c10::impl::tls_is_dispatch_key_included(kCheckKey));
}

bool open_undecided() noexcept {
  if (c10::impl::tls_is_dispatch_key_included(kCheckKey) || ThreadLocalPythonObjects::contains(kKey)) return false;
  ThreadLocalPythonObjects::set(kKey, marks()[kFollows]);
  c10::impl::tls_set_dispatch_key_included(kCheckKey, true);
  if (on_real_devices()) {
    follow_memory(true);
    note_late_thread();
  }
  g_calls.fetch_add(1, std::memory_order_relaxed);  // this one is judged all the same
  return true;
}

}  // namespace locus::bridge
