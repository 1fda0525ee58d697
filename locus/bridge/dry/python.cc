// What Python may ask of dry runs.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>

#include <string>
#include <utility>

#include "locus/bridge/door/origins.h"
#include "locus/bridge/dry/endless.h"
#include "locus/bridge/dry/knowledge.h"
#include "locus/bridge/dry/memory.h"
#include "locus/bridge/python/module.h"

namespace py = pybind11;

namespace locus::bridge {
namespace {

py::list rows() {
  py::list all;
  for (const auto& [what, counted] : dry::made_up().rows()) {
    const Place place = place_of(what.site);
    py::dict row;
    row["file"] = place.file != nullptr ? place.file : "", row["line"] = place.line;
    row["kind"] = engine::to_string(what.kind), row["operation"] = operator_name(what.operation);
    row["count"] = counted.count, row["bytes"] = counted.most;
    all.append(std::move(row));
  }
  return all;
}

/// Gives a tensor one value in every element, and has it known from here on.
void set_known(const at::Tensor& t, double value) {
  if (!dry::on() || !dry::is_unknown(t)) return;
  dry::fill_for_real(t, dry::covers_storage(t) || t.numel() > 0 ? at::Scalar(value) : at::Scalar(0));
  dry::set_knowledge(t, dry::Knowledge::kKnown);
}

/// Whether a loop is stuck, as Python says.
py::object* g_is_stuck = nullptr;  // for good

bool is_stuck(bool again) {
  const py::gil_scoped_acquire gil;
  return (*g_is_stuck)(again).cast<bool>();
}

}  // namespace

void define_dry(py::module_& m) {
  py::class_<dry::Settings>(m, "DrySettings")
      .def(py::init([](size_t keep, const std::string& shapes, bool strict_memory) {
             const auto choice = shapes == "most"    ? dry::Shapes::kMost
                                 : shapes == "least" ? dry::Shapes::kLeast
                                                     : dry::Shapes::kHalf;
             return dry::Settings{keep, choice, strict_memory};
           }),
           py::arg("keep"), py::arg("shapes"), py::arg("strict_memory"));
  m.def("is_dry", [] { return dry::on(); });
  m.def("is_known", [](const at::Tensor& t) {
    const auto knowledge = dry::knowledge_of(t);
    return knowledge != dry::Knowledge::kUnknown && knowledge != dry::Knowledge::kLikely;
  });
  // For tests, which compare calls with and without values: only in a process whose devices are dry.
  m.def("pause_dry", [](bool pause) { dry::g_on.store(!pause, std::memory_order_relaxed); });
  m.def("set_known", &set_known);
  m.def("dry_read", [](const at::Tensor& t) {
    if (!dry::on() || !dry::is_unknown(t)) return;
    dry::note_value_read();
    dry::make_up_bytes(t);
  });
  m.def("dry_exactly", [](const py::function& call) {
    const dry::ExactScope scope;
    return call();
  });
  m.def("dry_rows", &rows);
  m.def("dry_shapes", [] {
    static constexpr const char* kNames[] = {"half", "most", "least"};
    return kNames[static_cast<std::size_t>(dry::settings().shapes)];
  });
  m.def("dry_answer", &dry::set_answer);
  m.def("judge_dry_loops", [](py::object is_stuck_now) {
    g_is_stuck = new py::object(std::move(is_stuck_now));
    dry::set_loop_judge(&is_stuck);
  });
}

}  // namespace locus::bridge
