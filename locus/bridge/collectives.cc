// The Python class ProcessGroupNCCL for simulated devices. No logic of its own.
#include <pybind11/chrono.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>

#include "locus/bridge/carrier.h"
#include "locus/bridge/module.h"
#include "locus/bridge/ranks.h"

namespace locus::bridge {

namespace py = pybind11;

namespace {

RankCall rank_call(Carrier& group, const Collective& collective, uint64_t sequence) {
  RankCall heard;
  engine::ranks::Call& call = heard.call;
  call.group = group.getGroupUid(), call.number = sequence, call.name = collective.name;
  call.elements = collective.elements, call.root = collective.root, call.reduction = collective.reduction;
  if (collective.tensor.defined()) {
    call.dtype = c10::toString(collective.tensor.scalar_type());
    call.shape = collective.tensor.sizes().vec();
  }
  heard.size = group.getSize(), heard.tag = collective.tag;
  return heard;
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
          (*call)(c10::intrusive_ptr<Carrier>::reclaim_copy(&group), rank_call(group, collective, sequence));
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
