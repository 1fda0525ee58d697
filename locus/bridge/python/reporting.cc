// The Python module's door to engine and report: a case goes in, findings are kept, a report comes out.
#include "locus/bridge/python/reporting.h"

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "locus/bridge/door/door.h"
#include "locus/bridge/python/courier.h"
#include "locus/bridge/python/module.h"
#include "locus/bridge/python/write_trace.h"
#include "locus/bridge/streams/pinned.h"
#include "locus/engine/blame/blame.h"
#include "locus/engine/finding_log.h"
#include "locus/engine/graphs.h"
#include "locus/engine/merge.h"
#include "locus/engine/races.h"
#include "locus/report/json.h"
#include "locus/report/text.h"

namespace locus::bridge {
namespace {

namespace py = pybind11;

engine::FindingLog& log() {
  static auto* findings = new engine::FindingLog;
  return *findings;
}

/// What other processes of the program have reported; their findings are in the log.
std::vector<engine::Report>& others() {
  static auto* reports = new std::vector<engine::Report>;
  return *reports;
}

using Told = std::vector<std::pair<std::string, std::string>>;

/// Decides about a case and keeps its findings: where the operands should be; with a directory, also each finding's
/// root cause and text.
std::pair<std::string, Told> add_case(const std::string& text, uint64_t key, const std::string& directory) {
  std::pair<std::string, Told> answer;
  report::TextOptions options;
  options.directory = directory;
  for (engine::Finding& finding : engine::blame(engine::parse_case(text))) {
    if (answer.first.empty()) answer.first = finding.culprit.expected_device;
    if (!directory.empty())
      answer.second.emplace_back(engine::root_cause(finding), report::render_finding(finding, options));
    log().add(std::move(finding), key == 0 ? 0 : key++);  // several findings of one event have keys in a row
  }
  return answer;
}

/// Keeps a finding; with a directory, its root cause and text.
Told keep_one(engine::Finding finding, uint64_t key, const std::string& directory) {
  Told told;
  report::TextOptions options;
  options.directory = directory;
  if (!directory.empty()) told.emplace_back(engine::root_cause(finding), report::render_finding(finding, options));
  log().add(std::move(finding), key);
  return told;
}

Told add_race(const std::string& text, uint64_t key, const std::string& directory) {
  return keep_one(engine::races::tell(engine::races::parse_facts(text)), key, directory);
}
Told add_graph_mistake(const std::string& text, uint64_t key, const std::string& directory) {
  return keep_one(engine::graphs::tell(engine::graphs::parse_facts(text)), key, directory);
}

/// Where the operands of a case should be; keeps nothing.
std::string blame_device(const std::string& text) {
  const std::vector<engine::Finding> findings = engine::blame(engine::parse_case(text));
  return findings.empty() ? "" : findings.front().culprit.expected_device;
}

/// Findings that are kept nowhere: (as JSON, as text).
py::tuple rendered(std::vector<engine::Finding> findings, int width, const std::string& directory) {
  engine::Report report;
  report.findings = std::move(findings);
  report::TextOptions options;
  options.width = width, options.directory = directory;
  std::string words;
  for (const engine::Finding& finding : report.findings) words += report::render_finding(finding, options);
  return py::make_tuple(py::bytes(report::render_json(report)), words);
}

/// What there is to say about one case.
py::tuple explain_case(const std::string& text, int width, const std::string& directory) {
  return rendered(engine::blame(engine::parse_case(text)), width, directory);
}

/// A finding that needs no blaming, in words.
py::tuple explain_finding(const std::string& text, int width, const std::string& directory) {
  return rendered({engine::parse_finding(text)}, width, directory);
}

destructor g_forget_exit = nullptr;
PyObject* g_exit_listener = nullptr;

/// Python takes a SystemExit that has come out of the last frame itself, and no hook hears of it. What can be seen is
/// that the exception goes, and that no frame is left.
void forget_exit(PyObject* exit) {
  PyObject* behind = reinterpret_cast<PyBaseExceptionObject*>(exit)->context;
  if (behind != nullptr && PyEval_GetFrame() == nullptr) {
    PyObject *type = nullptr, *value = nullptr, *traceback = nullptr;
    PyErr_Fetch(&type, &value, &traceback);
    Py_SET_REFCNT(exit, 1);  // the collector may come by
    Py_INCREF(behind);
    PyObject* heard = PyObject_CallFunctionObjArgs(g_exit_listener, behind, nullptr);
    if (heard == nullptr) PyErr_Clear();
    Py_XDECREF(heard);
    Py_DECREF(behind);
    Py_SET_REFCNT(exit, 0);
    PyErr_Restore(type, value, traceback);
  }
  g_forget_exit(exit);
}

/// Calls the listener with what a SystemExit has taken the place of, where it ends this process or a bare thread.
void hear_exit(const py::object& listener) {
  auto* type = reinterpret_cast<PyTypeObject*>(PyExc_SystemExit);
  Py_XDECREF(g_exit_listener);
  g_exit_listener = py::object(listener).release().ptr();
  if (g_forget_exit != nullptr) return;
  g_forget_exit = type->tp_dealloc;
  type->tp_dealloc = &forget_exit;
}

}  // namespace

std::size_t found_so_far() { return log().size(); }

void keep_finding(engine::Finding finding) { log().add(std::move(finding)); }

std::set<std::string> finding_reasons() {
  std::set<std::string> reasons;
  for (const engine::Finding& finding : log().findings()) reasons.insert(finding.reason);
  return reasons;
}

void take_in(engine::Report report) {
  hand_over(report);
  others().push_back(std::move(report));
}

void hand_over(engine::Report& report) {
  for (engine::Finding& finding : report.findings) log().add(std::move(finding));
  report.findings.clear();
}

void complete(engine::Report& report) {
  for (const engine::Report& other : others()) engine::merge_into(report, other);
  report.findings = log().findings();
  if (log().dropped() > 0)
    report.notes.push_back(std::to_string(log().dropped()) + " further findings had no room in this report");
}

void define_reporting(py::module_& m) {
  m.def("add_case", &add_case, py::arg("case"), py::arg("key") = 0, py::arg("directory") = "");
  m.def("add_race", &add_race, py::arg("facts"), py::arg("key") = 0, py::arg("directory") = "");
  m.def("add_graph_mistake", &add_graph_mistake, py::arg("facts"), py::arg("key") = 0, py::arg("directory") = "");
  m.def("blame_device", &blame_device);
  m.def("count_repeats", [] {
    report_pinned_faults();
    finish_jobs();
    // The first time of each was counted when it was added.
    for (const auto& [key, count] : take_repeats()) {
      for (uint64_t each = key; log().count_more(each, count); ++each) {
      }
    }
  });
  m.def("explain_case", &explain_case);
  m.def("explain_finding", &explain_finding);
  m.def("hear_exit", &hear_exit);
  m.def("set_type_attribute", [](const py::handle& type, const char* name, const py::object& value) {
    // Types of the interpreter's own take attributes this way only.
    auto* raw = reinterpret_cast<PyTypeObject*>(type.ptr());
    if (raw->tp_dict == nullptr || PyDict_SetItemString(raw->tp_dict, name, value.ptr()) != 0)
      throw py::error_already_set();
    PyType_Modified(raw);
  });
  m.def(
      "add_finding", [](const std::string& text, uint64_t key) { log().add(engine::parse_finding(text), key); },
      py::arg("finding"), py::arg("key") = 0);
  m.def("finding_count", [] { return log().size(); });
  define_trace(m);
  m.def("clear_findings", [] {
    log().clear();
    forget_verdicts();
  });
  m.def("is_met_at", [](const std::string& file, int line) {
    const std::vector<engine::Finding> all = log().findings();
    return std::any_of(all.begin(), all.end(), [&](const engine::Finding& finding) {
      return std::any_of(finding.uses.begin(), finding.uses.end(),
                         [&](const engine::Use& use) { return use.at.line == line && use.at.file == file; });
    });
  });
  m.def("codes", [] {
    py::list all;
    for (const auto& code : engine::all_codes()) {
      py::dict d;
      d["code"] = std::string(code.code), d["reason"] = std::string(code.reason);
      d["severity"] = std::string(engine::to_string(code.severity)), d["title"] = std::string(code.title);
      d["what"] = std::string(code.what), d["why"] = std::string(code.why);
      py::list fixes;
      for (const auto& fix : code.fixes) fixes.append(std::string(fix));
      d["fixes"] = fixes;
      all.append(std::move(d));
    }
    return all;
  });
}

}  // namespace locus::bridge
