// The Python class ProcessGroupNCCL for simulated devices. No logic of its own.
#include <pybind11/chrono.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>

#include "locus/bridge/carrier.h"
#include "locus/bridge/module.h"

namespace locus::bridge {

namespace py = pybind11;

void define_collectives(py::module_& m) {
  // Not at import: the base classes are torch.distributed's, which may not be there.
  m.def("define_process_group", [m](py::object make_gloo) mutable {
    if (py::hasattr(m, "ProcessGroupNCCL")) return m.attr("ProcessGroupNCCL").cast<py::object>();
    install_ddp_timer();
    py::class_<Carrier, c10::intrusive_ptr<Carrier>, c10d::Backend> group(m, "ProcessGroupNCCL", py::dynamic_attr());
    py::class_<NcclOptions, c10::intrusive_ptr<NcclOptions>, c10d::Backend::Options>(group, "Options", py::dynamic_attr())
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
    group.def_property_readonly("options", [](Carrier& self) {
      return c10::static_intrusive_pointer_cast<NcclOptions>(self.getBackendOptions());
    });
    group.def("_set_default_timeout", [](Carrier& self, std::chrono::milliseconds timeout) { self.setTimeout(timeout); });
    return m.attr("ProcessGroupNCCL").cast<py::object>();
  });
}

}  // namespace locus::bridge
