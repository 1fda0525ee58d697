// See graph_findings.h. Also the Python module's door to graphs.
#include "locus/bridge/streams/graph_findings.h"

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>

#include <functional>

#include "locus/bridge/door/origins.h"
#include "locus/bridge/door/policy.h"
#include "locus/bridge/door/verdicts.h"
#include "locus/bridge/door/watch.h"
#include "locus/bridge/python/courier.h"
#include "locus/bridge/python/module.h"
#include "locus/bridge/streams/graphs.h"
#include "locus/engine/intern.h"

namespace locus::bridge {
namespace {

namespace py = pybind11;

/// What Python is told; the finding's line is the one that is running.
void report(const std::string& what, const std::string& op, const std::string& words, engine::SiteId first) {
  const engine::SiteId site = current_site();
  const bool in_backward = forward_site_of_current_node() != 0 && user_site() == 0;
  uint64_t key = engine::mix((uint64_t{site} << 32) ^ first);
  key = engine::mix(key ^ std::hash<std::string>()(what + op));
  const Decision as_it_is{false, c10::Device(c10::kCPU)};
  decide(key, as_it_is, [&](uint64_t distinct) {
    return in_python(
        [=] {
          py::dict raw;
          raw["kind"] = "graph", raw["what"] = what, raw["op"] = op, raw["words"] = words;
          raw["site"] = site, raw["first"] = first, raw["key"] = distinct, raw["in_backward"] = in_backward;
          return report_raw(raw, c10::Device(c10::kCPU));
        },
        as_it_is);
  });
}

bool collects() { return policy() != Policy::kRaise && policy() != Policy::kMove && !t_reporting; }

}  // namespace

bool report_refusal(const char* op, const char* words) {
  if (!collects()) return false;
  report("refused", op, words, 0);
  return true;
}

void report_gone(engine::SiteId site, engine::OperatorId op, bool freed, bool written) {
  if (!collects()) return;
  const std::string name = operator_name(op);
  const std::string word = name.substr(name.rfind(':') + 1);
  report(freed ? "freed" : "moved", word.substr(0, word.find('.')), written ? "writes" : "reads", site);
}

void note_numbers(const std::string& op, const std::string& numbers, std::uint32_t capture) {
  if (collects()) report("numbers", op + " " + numbers, numbers, capture);
}

void report_kept(std::uint32_t found_out) {
  if (collects()) report("kept", "", "", found_out);
}

void define_graphs(py::module_& m) {
  py::class_<Graph>(m, "Graph")
      .def(py::init<>())
      .def("capture_begin",
           [](Graph& self, std::optional<PoolId> pool, const std::string& mode) {
             self.capture_begin(pool, mode == "relaxed"        ? CaptureMode::kNobody
                                      : mode == "thread_local" ? CaptureMode::kItsThread
                                                               : CaptureMode::kEveryThread);
           })
      .def("capture_end", &Graph::capture_end)
      .def("replay", &Graph::replay, py::call_guard<py::gil_scoped_release>())
      .def("reset", &Graph::reset)
      .def("register_generator", &Graph::register_generator)
      .def("pool", &Graph::pool)
      .def("read_at", &Graph::read_at);
  m.def("report_graph", [](const std::string& what, const std::string& op, const std::string& words) {
    if (collects()) report(what, op, words, 0);
  });
  m.def("collects", &collects);
  m.def("is_capturing", [] { return capturing() && is_captured(t_current_device, current_stream(t_current_device)); });
}

}  // namespace locus::bridge
