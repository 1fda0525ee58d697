// The Python class ProcessGroupNCCL for simulated devices. No logic of its own.
#include <pybind11/chrono.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>
#include <torch/csrc/autograd/graph_task.h>
#include <torch/csrc/utils/pybind.h>

#include <map>
#include <mutex>
#include <thread>
#include <tuple>

#include "locus/bridge/distributed/carrier.h"
#include "locus/bridge/distributed/ranks.h"
#include "locus/bridge/door/findings.h"
#include "locus/bridge/door/origins.h"
#include "locus/bridge/door/watch.h"
#include "locus/bridge/dry/lone_store.h"
#include "locus/bridge/dry/ranks.h"
#include "locus/bridge/python/module.h"
#include "locus/engine/ranks/journal.h"

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

/// All calls of this process, where they are compared when the ranks are done.
struct KeptJournal {
  std::mutex mutex;
  engine::ranks::Journal journal;
  std::map<std::string, int> groups;
  std::thread::id program;  ///< the thread that made the first group
};

KeptJournal& kept_journal() {
  static auto* kept = new KeptJournal;
  return *kept;
}

/// Of the larger side of a call: what is gathered, what is scattered.
int64_t bytes_moved(const Collective& call, int size) {
  int64_t bytes = 0;
  for (const at::Tensor& t : call.given) bytes += static_cast<int64_t>(t.nbytes());
  if (call.given.empty() && call.tensor.defined()) bytes = static_cast<int64_t>(call.tensor.nbytes());
  const bool whole_is_larger = call.type == c10d::OpType::ALLGATHER || call.type == c10d::OpType::_ALLGATHER_BASE ||
                               call.type == c10d::OpType::GATHER ||
                               (call.type == c10d::OpType::SCATTER && call.given.empty());
  return whole_is_larger ? bytes * size : bytes;
}

void keep_in_journal(Carrier& group, const Collective& collective, uint64_t sequence) {
  engine::ranks::Journal::Kind kind;
  kind.call = rank_call(group, collective, sequence).call;
  kind.tag = collective.tag;
  kind.bytes = bytes_moved(collective, group.getSize());
  const Place place = place_of(current_site());
  if (place.file != nullptr) kind.call.place.file = place.file;
  if (place.function != nullptr) kind.call.place.function = place.function;
  kind.call.place.line = kind.call.place.end_line = place.line;
  KeptJournal& kept = kept_journal();
  const std::lock_guard lock(kept.mutex);
  const auto [entry, is_new] = kept.groups.try_emplace(kind.call.group, static_cast<int>(kept.journal.groups.size()));
  if (is_new) kept.journal.groups.push_back({kind.call.group, "", {}});
  kind.group = entry->second;
  // A backward pass is waited for; a thread that saves a checkpoint meanwhile goes at its own pace.
  kind.aside = kept.program != std::this_thread::get_id() && torch::autograd::get_current_graph_task_id() < 0;
  kind.call.group.clear(), kind.call.number = 0;
  kept.journal.add(std::move(kind), steps_made());
}

/// An optimizer step was made, by the line that runs now.
void keep_step() {
  const Place place = place_of(site_of_call());
  KeptJournal& kept = kept_journal();
  const std::lock_guard lock(kept.mutex);
  if (kept.journal.steps.size() < engine::ranks::Journal::kMaxCalls) {
    kept.journal.steps.push_back((place.file != nullptr ? place.file : "") + (":" + std::to_string(place.line)));
  }
}

/// From here on, all calls are kept.
void keep_journal() {
  {
    KeptJournal& kept = kept_journal();
    const std::lock_guard lock(kept.mutex);
    if (kept.program == std::thread::id()) kept.program = std::this_thread::get_id();
  }
  set_listeners(&keep_in_journal, {});
}

/// Label and members of a group, by its name.
using Groups = std::map<std::string, std::pair<std::string, std::vector<int>>>;

std::string journal_text(int rank, int world, bool cut, const Groups& groups) {
  KeptJournal& kept = kept_journal();
  const std::lock_guard lock(kept.mutex);
  engine::ranks::Journal& journal = kept.journal;
  journal.rank = rank, journal.world = world, journal.cut = cut;
  for (engine::ranks::Journal::Group& each : journal.groups) {
    if (const auto known = groups.find(each.name); known != groups.end())
      std::tie(each.label, each.members) = known->second;
  }
  return to_text(journal);
}

/// From here on, groups are answered without the rest of their ranks.
void begin_alone(const std::string& folder, int rank, std::vector<int> running, bool open, const py::object& members) {
  auto* ask = new py::object(members);  // for good: works may end after the interpreter
  LoneGroup::begin(engine::ranks::Mailbox(folder, rank, std::move(running), open), [ask](const std::string& group) {
    py::gil_scoped_acquire gil;
    return (*ask)(group).cast<std::vector<int>>();
  });
}

void define_alone(py::module_& m) {
  m.def("begin_alone", &begin_alone);
  m.def("note_other_ranks", &note_taken_as_same);
  m.def("taken_as_same", [] {
    std::vector<std::tuple<std::string, int, int64_t>> rows;  // file, line, times
    for (const auto& [what, counted] : taken_as_same().rows()) {
      const Place place = place_of(what.site);
      rows.emplace_back(place.file != nullptr ? place.file : "", place.line, counted.count);
    }
    return rows;
  });
  m.def("say_rank_ended", &engine::ranks::Mailbox::say_ended);
  m.def("say_rank_stands_for", &engine::ranks::Mailbox::say_stands_for);
  m.def("rank_waits_for", &engine::ranks::Mailbox::waits_for);
  m.def("keep_journal", &keep_journal);
  m.def("keep_step", &keep_step);
  m.def("journal_text", &journal_text);
}

/// What takes Gloo's place, with its constructor.
void define_lone_group(py::module_& m) {
  py::class_<LoneGroup, c10::intrusive_ptr<LoneGroup>, c10d::Backend>(m, "LoneGroup", py::dynamic_attr())
      .def(py::init([](const c10::intrusive_ptr<c10d::Store>&, int rank, int size, const py::args&, const py::kwargs&) {
        return c10::make_intrusive<LoneGroup>(rank, size);
      }));
  py::class_<LoneStore, c10::intrusive_ptr<LoneStore>, c10d::Store>(m, "LoneStore")
      .def(py::init([](const py::args&, const py::kwargs&) { return c10::make_intrusive<LoneStore>(); }));
}

}  // namespace

void define_collectives(py::module_& m) {
  m.def("listen_to_collectives", &listen);
  define_alone(m);
  // Not at import: the base classes are torch.distributed's, which may not be there.
  m.def("define_process_group", [m](const py::object& make_gloo) mutable {
    if (py::hasattr(m, "ProcessGroupNCCL")) return m.attr("ProcessGroupNCCL").cast<py::object>();
    install_ddp_timer();
    define_lone_group(m);
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
    group.def("_announce", [](Carrier& self, const std::string& name) { self.announce(name.c_str()); });
    group.def("_pending", &Carrier::pending);
    group.def("_waited_for", &Carrier::waited_for);
    group.def("_give_up", &Carrier::give_up, py::call_guard<py::gil_scoped_release>());
    group.def("_set_default_timeout",
              [](Carrier& self, std::chrono::milliseconds timeout) { self.options()->timeout = timeout; });
    return m.attr("ProcessGroupNCCL").cast<py::object>();
  });
}

}  // namespace locus::bridge
