// The Python class ProcessGroupNCCL for simulated devices. No logic of its own.
#include <pybind11/chrono.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>

#include "locus/bridge/carrier.h"
#include "locus/bridge/module.h"

namespace locus::bridge {

namespace py = pybind11;

namespace {

py::dict facts_of(Carrier& group, const Collective& call, uint64_t sequence) {
  py::dict facts;
  facts["group"] = group.getGroupUid(), facts["rank"] = group.getRank(), facts["size"] = group.getSize();
  facts["backend"] = group.getBackendName(), facts["name"] = call.name, facts["sequence"] = sequence;
  facts["elements"] = call.elements, facts["root"] = call.root, facts["reduction"] = call.reduction,
  facts["tag"] = call.tag;
  facts["dtype"] = call.tensor.defined() ? c10::toString(call.tensor.scalar_type()) : "";
  py::tuple shape(call.tensor.defined() ? call.tensor.dim() : 0);
  for (size_t i = 0; i < shape.size(); ++i) shape[i] = call.tensor.size(static_cast<int64_t>(i));
  facts["shape"] = shape;
  facts["device"] = call.tensor.defined() ? call.tensor.device().str() : "";
  return facts;
}

/// Python hears of every collective from here on; None: no longer. Faults of the listener are its own to catch.
void listen(const py::object& on_call, const py::object& on_sharing) {
  if (on_call.is_none()) return set_listeners({}, {});
  auto* call = new py::object(on_call);  // for good: works may end after the interpreter
  auto* sharing = new py::object(on_sharing);
  set_listeners(
      [call](Carrier& group, const Collective& collective, uint64_t sequence) {
        py::gil_scoped_acquire gil;
        try {
          (*call)(c10::intrusive_ptr<Carrier>::reclaim_copy(&group), facts_of(group, collective, sequence));
        } catch (const py::error_already_set& error) {
          // A thread of autograd's may carry it on: nothing of Python in it.
          throw std::runtime_error(py::str(error.value()).cast<std::string>());
        }
      },
      [sharing](Carrier& group, c10::Device device, const std::vector<int>& ranks) {
        py::gil_scoped_acquire gil;
        return (*sharing)(c10::intrusive_ptr<Carrier>::reclaim_copy(&group), device.str(), ranks).cast<bool>();
      });
}

}  // namespace

void define_collectives(py::module_& m) {
  m.def("listen_to_collectives", &listen);
  // Not at import: the base classes are torch.distributed's, which may not be there.
  m.def("define_process_group", [m](const py::object& make_gloo) mutable {
    if (py::hasattr(m, "ProcessGroupNCCL")) return m.attr("ProcessGroupNCCL").cast<py::object>();
    install_ddp_timer();
    py::class_<Carrier, c10::intrusive_ptr<Carrier>, c10d::Backend> group(m, "ProcessGroupNCCL", py::dynamic_attr());
    py::class_<NcclOptions, c10::intrusive_ptr<NcclOptions>, c10d::Backend::Options>(group, "Options",
                                                                                     py::dynamic_attr())
        .def(py::init<bool>(), py::arg("is_high_priority_stream") = false)
        .def_readwrite("is_high_priority_stream", &NcclOptions::is_high_priority_stream);
    group.def(py::init([make_gloo](c10::intrusive_ptr<c10d::Store> store, int rank, int size,
                                   c10::intrusive_ptr<NcclOptions> options) {
                const py::object gloo = make_gloo(store, rank, size, options->timeout);
                return c10::make_intrusive<Carrier>(gloo.cast<c10::intrusive_ptr<c10d::Backend>>(), std::move(store),
                                                    "nccl", std::move(options));
              }),
              py::arg("store"), py::arg("rank"), py::arg("size"), py::arg("options"));
    group.def_static("over_gloo", [](c10::intrusive_ptr<c10d::Backend> gloo) {
      return c10::make_intrusive<Carrier>(std::move(gloo), nullptr, "gloo", c10::make_intrusive<NcclOptions>());
    });
    group.def_property_readonly(
        "options", [](Carrier& self) { return c10::static_intrusive_pointer_cast<NcclOptions>(self.options()); });
    group.def("_pending", &Carrier::pending);
    group.def("_waited_for", &Carrier::waited_for);
    group.def("_give_up", &Carrier::give_up, py::call_guard<py::gil_scoped_release>());
    group.def("_set_default_timeout",
              [](Carrier& self, std::chrono::milliseconds timeout) { self.options()->timeout = timeout; });
    return m.attr("ProcessGroupNCCL").cast<py::object>();
  });
}

}  // namespace locus::bridge
