// The Python class Report: everything that a run brought to light, held on this side from the end of the program until
// it is written. Here it is amended (ignored findings, verified fixes, the comparison with an earlier run), and
// rendered.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "locus/bridge/python/ledger.h"
#include "locus/bridge/python/module.h"
#include "locus/bridge/python/reporting.h"
#include "locus/engine/adoption.h"
#include "locus/engine/ignoring.h"
#include "locus/engine/merge.h"
#include "locus/engine/verdict.h"
#include "locus/report/closing.h"
#include "locus/report/hosts.h"
#include "locus/report/html.h"
#include "locus/report/json.h"
#include "locus/report/lines.h"
#include "locus/report/phrase.h"
#include "locus/report/sarif.h"
#include "locus/report/text.h"

namespace locus::bridge {
namespace {

namespace py = pybind11;
using engine::Report;

/// What is wrong with a report as JSON is a ValueError.
Report read(const std::string& json, Report (*reader)(std::string_view) = report::read_report) {
  try {
    return reader(json);
  } catch (const engine::FormatError& error) {
    throw py::value_error(error.what());
  }
}

/// `root`: paths for code hosts count from there; the other options are those of the text.
py::bytes render(const Report& report, const std::string& form, const report::TextOptions& options,
                 const std::string& root) {
  const std::string& directory = options.directory;
  if (form == "json") return report::render_json(report);
  if (form == "html") return report::render_html(report, {.directory = directory});
  if (form == "sarif") return report::render_sarif(report, {.directory = directory, .root = root});
  if (form == "gitlab") return report::render_gitlab(report, directory, root);
  if (form == "markdown") return report::render_markdown(report, directory, root);
  if (form == "concise") return report::render_concise(report, options);
  if (form == "statistics") return report::render_statistics(report, options);
  if (form == "github") return report::render_github(report, options, root);
  if (form == "text") return report::render_text(report, options);
  if (form != "findings") throw py::value_error("a report has no form " + form);
  std::string out;  // the blocks alone, for a reader who has a closing line of his own
  for (const engine::Finding& finding : report.findings)
    out += (out.empty() ? "" : "\n") + report::render_finding(finding, options, report.program.steps);
  return out;
}

using PerFile = std::vector<std::pair<std::string, std::vector<std::string>>>;

/// `comments_at` is called with file, line and text of a line, and gives (line, comment) for its statement.
void ignore(Report& report, std::string file, std::vector<std::string> codes, PerFile per_file,
            std::vector<std::string> options, const py::function& comments_at) {
  engine::set_aside(report, {std::move(file), std::move(codes), std::move(per_file), std::move(options)},
                    [&](const engine::Location& place) {
                      std::vector<engine::Comment> comments;
                      const py::object found = comments_at(place.file, place.line, place.text);
                      for (auto& [line, text] : found.cast<std::vector<std::pair<int, std::string>>>())
                        comments.push_back({line, std::move(text)});
                      return comments;
                    });
}

/// Findings as they are now, in the place of those that were: a list as JSON.
void amend(Report& report, const std::string& findings) {
  report.findings = report::parse_report("{\"version\": 1, \"findings\": " + findings + "}").findings;
}

/// What a report comes to: (verdict, whether the program finished, the exit status of the check, the sentence).
py::tuple judge(const Report& report, bool all_fixed) {
  return py::make_tuple(std::string(engine::to_string(engine::judge(report))), engine::is_finished(report.program),
                        engine::exit_status(report, all_fixed), report::verdict_words(report));
}

/// The program was ended from outside; what is known of it since the report was made.
void end(Report& report, int exit, std::string by, double seconds, int64_t steps, int64_t ops, bool on_device) {
  engine::Program& program = report.program;
  program.exit = exit, program.ended_by = std::move(by), program.seconds = seconds;
  program.steps = std::max(program.steps, steps), program.ops = std::max(program.ops, ops);
  program.on_device = program.on_device || on_device;
}

/// Something is known to have escaped the check.
void note_unseen(Report& report, std::string note) {
  report.notes.push_back(std::move(note));
  report.program.all_seen = false;
}

/// Name and ranks of a host, and whether they have reported.
using OnHost = std::tuple<std::string, std::vector<int>, bool>;

/// The ranks ran on several hosts; `incomplete`: why not all of them are in this report.
void set_hosts(Report& report, const std::vector<OnHost>& hosts, std::string incomplete) {
  report.program.hosts.clear();
  for (const auto& [name, ranks, reported] : hosts) report.program.hosts.push_back({name, ranks, reported});
  if (report.program.incomplete.empty()) report.program.incomplete = std::move(incomplete);
}

}  // namespace

void define_report(py::module_& m) {
  py::class_<report::TextOptions>(m, "TextOptions")
      .def(py::init<>())
      .def_readwrite("width", &report::TextOptions::width)
      .def_readwrite("color", &report::TextOptions::color)
      .def_readwrite("quiet", &report::TextOptions::quiet)
      .def_readwrite("fold", &report::TextOptions::fold)
      .def_readwrite("next", &report::TextOptions::next)
      .def_readwrite("fix", &report::TextOptions::fix)
      .def_readwrite("pages", &report::TextOptions::pages)
      .def_readwrite("explain", &report::TextOptions::explain)
      .def_readwrite("ledger", &report::TextOptions::ledger)
      .def_readwrite("directory", &report::TextOptions::directory);
  py::class_<Report>(m, "Report")
      .def_static("read", [](const std::string& json) { return read(json); })
      .def("render", &render, py::arg("form"), py::arg("options") = report::TextOptions(), py::arg("root") = "")
      .def("ignore", &ignore)
      .def("compare", [](Report& self, const Report& earlier,
                         std::string file) { self.baseline = engine::compare(earlier, self, std::move(file)); })
      .def("amend", &amend)
      .def("judge", &judge, py::arg("all_fixed") = false)
      .def("end", &end)
      .def("set_hosts", &set_hosts)
      .def("add_note", [](Report& self, std::string note) { self.notes.push_back(std::move(note)); })
      .def("set_incomplete",
           [](Report& self, std::string why) {
             if (self.program.incomplete.empty()) self.program.incomplete = std::move(why);
           })
      .def("note_unseen", &note_unseen)
      .def("hand_over", &hand_over)
      .def("complete", &complete)
      .def("sign", [](Report& self, int ranks, std::optional<int> rank) { engine::sign(self, ranks, rank); })
      .def("leave_to_parent", [](Report& self) { engine::leave_to_parent(self); })
      .def_property_readonly("finding_count", [](const Report& self) { return self.findings.size(); })
      .def_property_readonly("ignored_count", [](const Report& self) { return self.ignored.size(); })
      .def_property_readonly("exit", [](const Report& self) { return self.program.exit; })
      .def_property_readonly("ended_by", [](const Report& self) { return self.program.ended_by; })
      .def_property_readonly("seconds", [](const Report& self) { return self.program.seconds; })
      .def_property_readonly("ranks", [](const Report& self) { return self.program.ranks; });
  m.def("make_report", [](const std::string& frame, const py::function& line_text) {
    Report report = read(frame, report::parse_report);
    add_ledger(report, line_text);
    add_made_up(report, line_text);
    complete(report);
    return report;
  });
  m.def("rank_ranges", &report::rank_ranges);
  m.def("take_in", [](const std::string& json) { take_in(read(json, report::parse_report)); });
  py::class_<engine::News>(m, "News")
      .def(py::init<>())
      .def("take_in",
           [](engine::News& self, const std::string& process, const std::string& json) {
             Report report = read(json, report::parse_report);
             self.keep_new(process, report);
             if (!report.findings.empty()) take_in(std::move(report));
           })
      .def("forget", &engine::News::forget);
}

}  // namespace locus::bridge
