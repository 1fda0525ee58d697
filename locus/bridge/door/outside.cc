// Mistakes that are no operator's: a gradient that autograd itself refuses, host code that looks into device memory.
// Python sees the moment and says what it saw; keys, counts and the way to a finding are those of every other mistake.

#include <ATen/SequenceNumber.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/utils/pybind.h>

#include "locus/bridge/door/door.h"
#include "locus/bridge/door/passage.h"
#include "locus/bridge/door/watch.h"
#include "locus/bridge/memory/memory.h"
#include "locus/bridge/python/module.h"

namespace locus::bridge {
namespace {

namespace py = pybind11;
using at::Tensor;

/// Same line, same thing done, same tensors odd: the same mistake.
uint64_t key_of(const py::dict& raw, engine::SiteId site) {
  uint64_t key = engine::mix((uint64_t{site} << 20) ^ operator_number(raw["overload"].cast<std::string>()));
  for (const py::handle operand : raw["operands"]) {
    const py::object value = operand["tensor"];
    if (!operand["odd"].cast<bool>() || !THPVariable_Check(value.ptr())) continue;
    const Tensor& t = THPVariable_Unpack(value.ptr());
    key = engine::mix(key ^ (uint64_t{origins().at(origin_of_tensor(t)).site} << 24) ^
                      static_cast<uint64_t>(t.device().index() + 1));
  }
  return engine::mix(key);
}

/// None: PyTorch shall speak for itself. Else the device where the odd tensors belong.
py::object report_outside(py::dict raw) {
  if (policy() == Policy::kRaise) return py::none();
  const engine::SiteId site = current_site();
  const c10::Device device(raw["device"].cast<std::string>());
  const Decision decision = decide(key_of(raw, site), {false, device}, [&](uint64_t key) {
    const engine::SiteId forward = forward_site_of_current_node();
    raw["forward_site"] = forward;
    raw["in_backward"] = torch::autograd::get_current_node() != nullptr;
    raw["site"] = site;
    raw["key"] = key;
    return report_raw(raw, device);
  });
  if (decision.raise) return py::none();
  return py::str(decision.device.str());
}

/// A copy elsewhere, recorded by autograd and by nobody else.
Tensor move_unseen(const Tensor& t, const std::string& device) {
  const c10::impl::ExcludeDispatchKeyGuard closed{c10::DispatchKeySet(kCheckKey)};
  py::gil_scoped_release no_gil;
  const MovingScope moving;
  return t.to(c10::Device(device));
}

/// A function that a thread runs first, under the policy of the thread that started it. No Python of ours: it would
/// stand in the program's tracebacks.
struct PolicyCall {
  py::object function;
  PolicyState state;

  py::object call(const py::args& given, const py::kwargs& named) const {
    set_policy_state(state);
    return function(*given, **named);
  }
};

/// `p.grad = g`: PyTorch's own setter behind one comparison. The getter stays PyTorch's.
struct GradSetter {
  PyGetSetDef definition{};
  setter original = nullptr;
  py::object* watcher = nullptr;  // called with (tensor, gradient), gives the gradient to assign
};
GradSetter g_grad;

bool on_other_device(PyObject* tensor, PyObject* gradient) {
  if (gradient == nullptr || !THPVariable_Check(tensor) || !THPVariable_Check(gradient)) return false;
  return THPVariable_Unpack(tensor).device() != THPVariable_Unpack(gradient).device();
}

int set_grad(PyObject* self, PyObject* gradient, void* closure) {
  if (!on_other_device(self, gradient) || policy() == Policy::kRaise) return g_grad.original(self, gradient, closure);
  PyObject* answer = PyObject_CallFunctionObjArgs(g_grad.watcher->ptr(), self, gradient, nullptr);
  if (answer == nullptr) return -1;
  const int result = g_grad.original(self, answer, closure);
  Py_DECREF(answer);
  return result;
}

void watch_grad(const py::object& tensor_class, py::object watcher) {
  if (g_grad.watcher != nullptr) return;
  const py::object base = tensor_class.attr("__mro__").cast<py::tuple>()[1];
  const py::object known = base.attr("grad");
  if (Py_TYPE(known.ptr()) != &PyGetSetDescr_Type) return;  // not as we know it: assignments go unseen
  g_grad.definition = *reinterpret_cast<PyGetSetDescrObject*>(known.ptr())->d_getset;
  g_grad.original = g_grad.definition.set;
  g_grad.definition.set = &set_grad;
  g_grad.watcher = new py::object(std::move(watcher));
  const auto descriptor = py::reinterpret_steal<py::object>(
      PyDescr_NewGetSet(reinterpret_cast<PyTypeObject*>(tensor_class.ptr()), &g_grad.definition));
  tensor_class.attr("grad") = descriptor;
}

}  // namespace

void define_outside(py::module_& m) {
  m.def("report_outside", &report_outside);
  m.def("move_unseen", &move_unseen);
  m.def("watch_grad", &watch_grad);
  // The node of a custom function is made outside any operator: its number is the first that its apply() takes.
  m.def("next_node", [] { return at::sequence_number::peek(); });
  m.def("note_node", [](uint64_t number) {
    if (at::sequence_number::peek() != number) note_forward_site(number, number + 1, user_site());
  });
  m.def("begin_watching", &begin_watching);
  m.def("end_watching", &end_watching);
  m.def("policy_state", &policy_state);
  m.def("set_process_policy", [](PolicyState state) {
    if (state != kClosed) install_door();
    set_process_policy(state);
  });
  m.def("see_thread", [] { is_unseen(); });
  py::class_<PolicyCall>(m, "PolicyCall")
      .def(py::init([](py::object function, PolicyState state) { return PolicyCall{std::move(function), state}; }))
      .def("__call__", &PolicyCall::call)
      .def("__repr__", [](const PolicyCall& self) { return py::repr(self.function); });
  m.def("set_policy_state", [](PolicyState state) {
    const PolicyState before = policy_state();
    if (state != kClosed) install_door();
    set_policy_state(state);
    return before;
  });
}

}  // namespace locus::bridge
