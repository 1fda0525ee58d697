// The Python module's door to locus/engine/ranks: calls go in, findings are kept, the words for an error come out.
#include "locus/bridge/distributed/ranks.h"

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "locus/bridge/door/findings.h"
#include "locus/bridge/dry/knowledge.h"
#include "locus/bridge/memory/memory.h"
#include "locus/bridge/python/module.h"
#include "locus/bridge/python/reporting.h"
#include "locus/bridge/state.h"
#include "locus/engine/ranks/journal.h"
#include "locus/engine/ranks/parting.h"
#include "locus/engine/ranks/seen.h"
#include "locus/engine/ranks/surroundings.h"
#include "locus/engine/ranks/together.h"
#include "locus/report/json.h"

namespace locus::bridge {
namespace {

namespace py = pybind11;
namespace ranks = engine::ranks;

/// Called with a file and a line, gives its text; files don't say by themselves whether they are what runs.
using LineText = py::function;

/// Called with the places of a call and of its callers, gives what stands around it, as JSON.
using SettingOf = py::function;

engine::Location location_from(const py::dict& place) {
  engine::Location location;
  location.file = place["file"].cast<std::string>(), location.function = place["function"].cast<std::string>();
  location.line = place["line"].cast<int>(), location.end_line = place["end_line"].cast<int>();
  location.column = place["column"].cast<int>(), location.end_column = place["end_column"].cast<int>();
  return location;
}

py::dict dict_from(const engine::Location& at) {
  using namespace py::literals;
  return py::dict("file"_a = at.file, "function"_a = at.function, "line"_a = at.line, "end_line"_a = at.end_line,
                  "column"_a = at.column, "end_column"_a = at.end_column, "text"_a = at.text);
}

/// Holds the GIL when it is called: whoever looks comes from Python.
ranks::Around around_by(const SettingOf& setting_of) {
  return [setting_of](const ranks::Call& call) {
    py::list places;
    places.append(dict_from(call.place));
    for (const engine::Location& each : call.callers) places.append(dict_from(each));
    return ranks::parse_setting(setting_of(places).cast<std::string>());
  };
}

/// Keeps a finding; the words for the error that ends the call.
std::string keep(engine::Finding finding, const LineText& line_text, int64_t step) {
  finding.first_step = step;
  finding.cause.text = line_text(finding.cause.file, finding.cause.line).cast<std::string>();
  for (engine::Use& use : finding.uses) {
    use.at.text = line_text(use.at.file, use.at.line).cast<std::string>();
    use.first_step = step;
  }
  std::string words = "locus: " + finding.message + ": " + finding.why;
  keep_finding(std::move(finding));
  return words;
}

/// Batches so far, of so many, samples, sampler, (file, line) of who took the last.
using Fed = std::tuple<int64_t, int64_t, int64_t, std::string, std::vector<std::pair<std::string, int64_t>>>;

/// `places`: the call's own, then those of its callers.
std::optional<std::string> hear(ranks::Meeting& meeting, RankCall heard, const std::vector<int>& members, bool is_known,
                                const std::vector<py::dict>& places, const std::optional<Fed>& feed,
                                const LineText& line_text) {
  for (const py::dict& place : places) heard.call.callers.push_back(location_from(place));
  if (!places.empty()) {
    heard.call.place = std::move(heard.call.callers.front());
    heard.call.callers.erase(heard.call.callers.begin());
  }
  if (feed) {
    const auto& [given, of, samples, sampler, taken] = *feed;
    heard.call.feed = {given, of, samples, sampler, {}};
    for (const auto& [file, line] : taken) {
      engine::Location& at = heard.call.feed->taken.emplace_back();
      at.file = file, at.line = static_cast<int>(line);
    }
  }
  if (is_known) heard.call.members = members;
  std::optional<engine::Finding> finding = meeting.hear(std::move(heard.call), members, heard.tag);
  if (!finding) return std::nullopt;
  return keep(std::move(*finding), line_text, steps_made());
}

/// A group's name, members, calls under way and those that are waited for.
using Group = std::tuple<std::string, std::vector<int>, std::vector<int64_t>, std::vector<int64_t>>;

/// The group whose calls will never end, and why.
std::optional<std::pair<std::string, std::string>> look(ranks::Meeting& meeting, const std::vector<Group>& groups,
                                                        bool in_backward, const LineText& line_text) {
  std::vector<ranks::UnderWay> under_way;
  for (const auto& [name, members, numbers, waited] : groups) under_way.push_back({name, members, numbers, waited});
  std::optional<ranks::Stuck> stuck = meeting.look(under_way, in_backward, ranks::now());
  if (!stuck) return std::nullopt;
  return std::pair(stuck->group, keep(std::move(stuck->finding), line_text, steps_made()));
}

/// By rank: the exit status, the name of the signal where one has ended it, and the error that did, as JSON.
using Fates = std::map<int, std::tuple<int, std::string, std::string>>;

std::map<int, ranks::Fate> fates_from(const Fates& known) {
  std::map<int, ranks::Fate> fates;
  for (const auto& [rank, fate] : known) {
    const auto& [status, signal, raised] = fate;
    fates[rank] = {status, signal, std::nullopt};
    if (!raised.empty()) from_json(engine::parse_json(raised), fates[rank].raised.emplace());
  }
  return fates;
}

/// After the reports of all were taken in: who did not come, where nothing that was found explains it.
void judge_ranks(const std::string& folder, const Fates& known, const LineText& line_text,
                 const SettingOf& setting_of) {
  if (ranks::explains_the_rest(finding_reasons())) return;
  for (engine::Finding& finding : ranks::judge_jobs(folder, fates_from(known), around_by(setting_of)))
    keep(std::move(finding), line_text, 0);
}

template <class Number>
double element(const at::Tensor& host, int64_t number) {
  int64_t place = 0;
  for (int64_t axis = host.dim() - 1; axis >= 0; --axis) {
    place += number % host.size(axis) * host.stride(axis);
    number /= host.size(axis);
  }
  return static_cast<double>(static_cast<const Number*>(host.const_data_ptr())[place]);
}

/// Some elements of a tensor, evenly spread, read without an operator: nobody sees it. None where they are not known,
/// not numbers, or on a real device.
std::optional<std::vector<double>> sample(const at::Tensor& tensor, int64_t most) {
  const bool on_device = tensor.device().is_cuda();
  if (tensor.layout() != at::kStrided || tensor.numel() == 0 || !(on_device ? simulating() : tensor.device().is_cpu()))
    return std::nullopt;
  if (dry::on() && dry::is_unknown(tensor)) return std::nullopt;
  const at::Tensor host = on_device ? host_alias(tensor) : tensor;
  double (*read)(const at::Tensor&, int64_t) = host.scalar_type() == at::kFloat      ? &element<float>
                                               : host.scalar_type() == at::kDouble   ? &element<double>
                                               : host.scalar_type() == at::kHalf     ? &element<at::Half>
                                               : host.scalar_type() == at::kBFloat16 ? &element<at::BFloat16>
                                                                                     : nullptr;
  if (read == nullptr) return std::nullopt;
  std::vector<double> values(static_cast<size_t>(std::min(most, host.numel())));
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = read(host, static_cast<int64_t>(i) * host.numel() / static_cast<int64_t>(values.size()));
    if (!std::isfinite(values[i])) return std::nullopt;
  }
  return values;
}

/// The calls of ranks, by process; those that can't be read are told of.
std::vector<ranks::Journal> journals_in(const std::map<std::string, std::string>& texts,
                                        std::vector<std::string>& problems) {
  std::vector<ranks::Journal> journals;
  for (const auto& [name, text] : texts) {
    try {
      journals.push_back(ranks::parse_journal(text));
    } catch (const engine::FormatError& error) {
      problems.push_back("process " + name + ": " + error.what());
    }
  }
  return journals;
}

/// What ranks move between them, as a part of a report's cluster.
std::string journal_traffic(const std::map<std::string, std::string>& texts, const LineText& line_text) {
  std::vector<std::string> problems;
  engine::Cluster cluster = ranks::traffic_of(journals_in(texts, problems));
  for (engine::ClusterTraffic& each : cluster.traffic) {
    if (each.line > 0) each.text = line_text(each.file, each.line).cast<std::string>();
  }
  engine::Json json;
  to_json(json, cluster);
  const engine::Json part{{"step", json["step"]}, {"traffic", json["traffic"]}};
  return part.dump(-1, ' ', false, engine::Json::error_handler_t::replace);
}

/// Ranks that ran by themselves: what they have called, as if they had run together. What could not be read.
std::vector<std::string> compare_journals(const std::map<std::string, std::string>& texts, const Fates& known,
                                          const LineText& line_text, const SettingOf& setting_of) {
  std::vector<std::string> problems;
  const std::vector<ranks::Journal> journals = journals_in(texts, problems);
  for (engine::Finding& finding : ranks::compare(journals, fates_from(known), around_by(setting_of)))
    keep(std::move(finding), line_text, 0);
  return problems;
}

/// Takes in the reports of all processes, by name, with what they left beside them; what could not be read.
std::vector<std::string> take_in_processes(const std::map<std::string, std::string>& reports,
                                           const std::map<std::string, std::string>& passes) {
  std::vector<ranks::RankReport> all;
  std::vector<std::string> problems;
  for (const auto& [name, text] : reports) {
    ranks::RankReport each;
    const auto left = passes.find(name);
    try {
      each.report = report::parse_report(text);
      if (left != passes.end()) each.passes = ranks::parse_passes(left->second);
    } catch (const engine::FormatError& error) {
      problems.push_back("process " + name + ": " + error.what());
      continue;
    }
    each.has_passes = left != passes.end();
    all.push_back(std::move(each));
  }
  ranks::tidy(all);
  for (ranks::RankReport& each : all) take_in(std::move(each.report));
  return problems;
}

}  // namespace

void define_ranks(py::module_& m) {
  py::class_<RankCall>(m, "RankCall")
      .def_property_readonly("group", [](const RankCall& self) { return self.call.group; })
      .def_readonly("size", &RankCall::size);
  py::class_<ranks::Meeting>(m, "Meeting")
      .def(py::init([](std::string folder, std::string job, int rank, int world, const SettingOf& setting_of) {
             return std::make_unique<ranks::Meeting>(std::move(folder), std::move(job), rank, world,
                                                     around_by(setting_of));
           }),
           py::arg("folder"), py::arg("job"), py::arg("rank"), py::arg("world"), py::arg("setting_of"))
      .def("hear", &hear)
      .def("look", &look)
      .def("end", &ranks::Meeting::end);
  m.def("bring_flight", [](const std::string& path, const std::string& bytes, double ahead) {
    return ranks::Flight::bring(path, bytes, ahead);
  });
  m.def("judge_ranks", &judge_ranks);
  m.def("compare_journals", &compare_journals);
  m.def("journal_traffic", &journal_traffic);
  m.def("take_in_processes", &take_in_processes);
  m.def("sample", &sample);
  m.def("find_drifts", &ranks::find_drifts);
  m.def("have_met", [](const std::string& folder) { return !ranks::jobs_in(folder).empty(); });
  m.def("add_seen", [](const std::string& facts) { keep_finding(ranks::tell(ranks::parse_facts(facts))); });
  m.def("tell_seen", [](const std::string& facts) {
    engine::Json json;
    to_json(json, ranks::tell(ranks::parse_facts(facts)));
    return json.dump(-1, ' ', false, engine::Json::error_handler_t::replace);
  });
}

}  // namespace locus::bridge
