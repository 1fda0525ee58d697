// The part of the Python module that serves a check: the door, steps, origins, memory.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>

#include <map>
#include <set>

#include "locus/bridge/door/door.h"
#include "locus/bridge/door/real.h"
#include "locus/bridge/door/typed_door.h"
#include "locus/bridge/door/watch.h"
#include "locus/bridge/kernels/typed_kernels.h"
#include "locus/bridge/memory/memory.h"
#include "locus/bridge/memory/out_of_memory.h"
#include "locus/bridge/memory/purpose.h"
#include "locus/bridge/python/aside.h"
#include "locus/bridge/python/ledger.h"
#include "locus/bridge/python/module.h"
#include "locus/bridge/python/shared_counters.h"
#include "locus/bridge/streams/card_calls.h"
#include "locus/bridge/streams/pending.h"
#include "locus/bridge/streams/pinned.h"

namespace locus::bridge {
namespace {

namespace py = pybind11;
using at::Tensor;

const char* placement_name(engine::Placement placement) {
  switch (placement) {
    case engine::Placement::kDefault:
      return "default";
    case engine::Placement::kExplicit:
      return "explicit";
    case engine::Placement::kMoved:
      return "moved";
    case engine::Placement::kForeign:
      return "foreign";
    case engine::Placement::kLoaded:
      return "loaded";
    case engine::Placement::kReceived:
      return "received";
    default:
      return "derived";
  }
}

std::string device_name(int8_t device) { return device == engine::kHost ? "cpu" : "cuda:" + std::to_string(device); }

py::object site_location(engine::SiteId id) {
  if (id == 0) return py::none();
  const engine::Site site = sites().at(id);
  const CodeInfo* info = code_info(site.code);
  if (info == nullptr) return py::none();
  const Place place = place_of(id);
  int line = 0, column = -1, end_line = 0, end_column = -1;
#if PY_VERSION_HEX >= 0x030B0000
  if (PyCode_Addr2Location(static_cast<PyCodeObject*>(info->code), site.instruction, &line, &column, &end_line,
                           &end_column) == 0) {
    line = place.line;
  }
#else
  line = end_line = place.line;
#endif
  return py::make_tuple(place.file, line, end_line, column, end_column, place.function);
}

py::list origin_chain(const Tensor& t) {
  py::list steps;
  if (!t.defined() || !t.has_storage()) return steps;
  engine::OriginId id = origin_of(*t.storage().unsafeGetStorageImpl());
  for (int hops = 0; id != 0 && hops < 16; ++hops) {
    const engine::Origin& origin = origins().at(id);
    py::dict step;
    step["op"] = operator_name(origin.op);
    step["site"] = origin.site;
    step["device"] = device_name(origin.device);
    step["placement"] = placement_name(origin.placement);
    steps.append(std::move(step));
    id = origin.parent;
  }
  return steps;
}

py::list memory_lines(const std::vector<engine::MemoryByLine::Line>& from) {
  py::list lines;
  for (const auto& line : from) {
    py::dict d;
    const Place place = place_of(line.site);
    d["file"] = place.file != nullptr ? place.file : "", d["line"] = place.line;
    d["bytes"] = line.bytes, d["count"] = line.count;
    lines.append(std::move(d));
  }
  return lines;
}

void mark(const std::vector<Tensor>& tensors, engine::Placement placement, const std::string& what) {
  engine::Origin origin;
  origin.op = operator_number(what);
  origin.placement = placement;
  origin.complete = true;
  origin.site = user_site();
  for (const Tensor& t : tensors) {
    if (!t.defined() || !t.has_storage()) continue;
    const c10::StorageImpl& storage = *t.storage().unsafeGetStorageImpl();
    origin.device = t.device().is_cuda() ? static_cast<int8_t>(t.device().index()) : engine::kHost;
    origin.parent = placement == engine::Placement::kReceived ? origin_of(storage) : 0;
    const engine::OriginId id = engine::intern_bounded(origins(), origin);
    count_made(id);
    set_origin(storage, id);
  }
}

/// The order of streams on real cards, for Python.
struct CardOrder {};

void define_card_order(py::module_& m) {
  py::class_<CardOrder> order(m, "CardOrder");
  order.def_static("is_followed", &card_ordering);
  order.def_static("stop", &stop_card_order);
  order.def_static("is_stopped", &card_order_is_stopped);
  order.def_static("set_doubt", [](py::object doubt) {
    auto* kept = new py::object(std::move(doubt));  // for good
    set_order_doubt([kept] {
      try {
        return (*kept)().cast<bool>();
      } catch (const std::exception&) {
        return true;  // what is not known is not blamed
      }
    });
  });
  order.def_static("pass_trace_on", &pass_trace_on);
  order.def_static("event_is_done", &card_event_is_done);
  order.def_static("stream_is_done", [](std::int64_t stream, int device) {
    card_is_done(c10::Stream::unpack3(stream, static_cast<c10::DeviceIndex>(device), c10::kCUDA));
  });
  order.def_static("all_is_done", &host_waits_for_cards);
}

}  // namespace

void define_check(py::module_& m) {
  define_card_order(m);
  m.def("set_reporter", [](py::object reporter) {
    TORCH_CHECK(simulating() || on_real_devices(), "locus: there are no devices to watch; call locus.simulate() first");
    set_reporter(std::move(reporter));
  });
  m.def("start_recording", [] {
    TORCH_CHECK(simulating() || on_real_devices(), "locus: there are no devices to watch");
    if (watching()) return;  // a check is under way, which records too
    begin_watching();
    install_door();
    set_policy_state(static_cast<PolicyState>(Policy::kRaise));
  });
  m.def("use_real_devices", &use_real_devices);
  m.def("aside", [](const py::function& work) {
    py::object result;
    aside([&] { result = work(); });
    return result;
  });
  m.def("set_copy_follower", [](py::object follower) {
    auto* kept = new py::object(std::move(follower));  // for good: a copy may be made to the very end
    set_copy_follower([kept](std::uint64_t site, int device) {
      const py::gil_scoped_acquire gil;
      try {
        return (*kept)(site, device).cast<bool>();
      } catch (const std::exception&) {
        return false;  // a copy that is not followed is not blamed
      }
    });
  });
  m.def("note_wait", [](int device, const std::string& what, double seconds) {
    if (watching()) note_synchronization(device, operator_number(what), static_cast<std::int64_t>(seconds * 1e9));
  });
  m.def("open_door", [](bool open) { set_policy_state(open ? static_cast<PolicyState>(Policy::kCollect) : kClosed); });
  m.def("follow_memory", &follow_memory);
  m.def("fault_said", &fault_said);
  m.def("current_site", [] { return current_site(); });
  m.def("check_host_read", [](const Tensor& t, const std::string& op) {
    // Where every access is seen, it is the access that counts: a view may be made before the copy is done. tolist()
    // makes none, and here the tensor is at hand.
    const HostHeader* header = on_real_devices() || op == "tolist" ? nullptr : pinned_header(t);
    if (header == nullptr || !sees_every_access(*header)) check_host_read(op, t, 0, op == "tolist");
  });
  m.def("count_step", [] {
    ++g_steps;
    publish_counters();
    set_in_step(false);
    bool look = false;
    for (int device = 0; device < sim::kMaxDevices; ++device) look = memory_by_line(device).end_step() || look;
    return look;
  });
  m.def("begin_step", [] { set_in_step(true); });
  m.def("are_parameters", [](const std::vector<Tensor>& tensors) {
    for (const Tensor& t : tensors) {
      if (!is_simulated(t) || !t.has_storage()) continue;
      is_for(*t.storage().unsafeGetStorageImpl(), engine::MemoryKind::kParameter);
    }
  });
  m.def("held_at_error", &held_at_error);
  m.def("attach_out_of_memory_observer", &attach_out_of_memory_observer);
  m.def("held_now", &held_now);
  m.def("growing_lines", &growing_lines);
  m.def("note_growth", &note_growth);
  m.def("take_kept_error", [](const std::string& words) { return kept_errors().take(words); });
  m.def("device_used", [] { return g_device_used.load(); });
  m.def("publish_fault", &publish_fault);
  m.def("share_counters", [](uintptr_t address) { share_counters(reinterpret_cast<SharedCounters*>(address)); });
  m.def("steps", [] { return g_steps.load(); });
  m.def("reset_steps", [] { g_steps.store(0); });
  m.def("calls_seen", &calls_seen);
  m.def("typed_doors", &typed_doors);
  m.def("typed_kernels", &typed_kernels);
  m.def("late_threads", &late_threads);
  m.def("site_location", &site_location);
  m.def("origin_chain", &origin_chain);
  m.def("made_at", [](engine::SiteId site) {
    // Few origins are of one line; this runs once a finding.
    std::map<std::string, int64_t> by_device;
    std::set<engine::OriginId> moved_on;  // torch.tensor(…, device="cuda") makes it on the host first
    for (engine::OriginId id = 1; id < origins().size(); ++id) {
      const engine::Origin& origin = origins().at(id);
      if (origin.site == site && origin.parent != 0 && origins().at(origin.parent).site == site)
        moved_on.insert(origin.parent);
    }
    for (engine::OriginId id = 1; id < origins().size(); ++id) {
      const engine::Origin& origin = origins().at(id);
      if (origin.site != site || made_count(id) == 0 || moved_on.count(id) != 0) continue;
      by_device[device_name(origin.device)] += made_count(id);
    }
    return by_device;
  });
  m.def("has_copied", [](const std::string& file, int line) {
    for (const auto& entry : transfers().entries()) {
      if (entry.key.to == engine::kHost) continue;
      const Place place = place_of(entry.key.site);
      if (place.line == line && place.file != nullptr && file == place.file) return true;
    }
    return false;
  });
  m.def("open_peak", [](int device) { return memory_by_line(device).open_scope(allocated_now(device)); });
  m.def("peak_of", [](int device, std::uint64_t scope) {
    const engine::MemoryByLine::Peak peak = memory_by_line(device).peak_of(scope, allocated_now(device));
    return py::make_tuple(peak.total, memory_lines(peak.lines));
  });
  m.def("close_peak", [](int device, std::uint64_t scope) { memory_by_line(device).close_scope(scope); });
  m.def("mark_loaded", [](const std::vector<Tensor>& tensors, const std::string&) {
    mark(tensors, engine::Placement::kLoaded, "torch.load");
  });
  m.def("mark_received",
        [](const std::vector<Tensor>& tensors) { mark(tensors, engine::Placement::kReceived, "DataLoader"); });
}

}  // namespace locus::bridge
