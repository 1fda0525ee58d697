// See out_of_memory.h.
#include "locus/bridge/memory/out_of_memory.h"

#include <pybind11/stl.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <optional>

#include "locus/bridge/compat.h"
#include "locus/bridge/door/door.h"
#include "locus/bridge/door/findings.h"
#include "locus/bridge/door/origins.h"
#include "locus/bridge/door/verdicts.h"
#include "locus/bridge/door/watch.h"
#include "locus/bridge/memory/purpose.h"
#include "locus/bridge/python/courier.h"
#include "locus/bridge/python/ledger.h"

namespace locus::bridge {
namespace {

namespace py = pybind11;

struct Held {
  sim::OutOfMemory why;
  std::vector<engine::MemoryByLine::Line> lines;
  engine::SiteId site = 0;
};

std::mutex g_mutex;
std::optional<Held>& last() {
  static auto* held = new std::optional<Held>;
  return *held;
}

Held held_at(const sim::OutOfMemory& why) { return {why, memory_by_line(why.device).now_held(), current_site()}; }

/// What the program has asked to be called before the error, as PyTorch's allocator does. Never destroyed: Python is
/// gone by then.
std::vector<py::function>& observers() {
  static auto* all = new std::vector<py::function>;
  return *all;
}
std::atomic<bool> g_observed{false};

void call_observers(const sim::OutOfMemory& why) {
  const py::gil_scoped_acquire gil;
  const std::size_t most = why.limit != 0 ? why.limit : why.capacity;
  const std::vector<py::function> now = observers();  // one may attach another
  for (const py::function& each : now) each(why.device, why.requested, most, why.free);
}

/// By name, largest first; what there is nothing of is left out.
py::list categories_of(const engine::ByKind& kinds) {
  std::vector<std::pair<std::int64_t, std::string>> rows;
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    if (kinds[i] > 0) rows.emplace_back(kinds[i], engine::kMemoryKindNames[i]);
  }
  std::sort(rows.rbegin(), rows.rend());
  py::list all;
  for (const auto& [bytes, name] : rows) all.append(py::make_tuple(name, bytes));
  return all;
}

py::dict rows_of(const std::vector<engine::MemoryByLine::Line>& held) {
  py::list lines;
  for (const auto& line : held) {
    const Place place = place_of(line.site);
    lines.append(py::make_tuple(place.file != nullptr ? place.file : "", place.line, line.bytes, line.count,
                                categories_of(line.kinds)));
  }
  py::dict d;
  d["lines"] = std::move(lines);
  d["categories"] = categories_of(engine::by_kind(held));
  py::list modules;
  for (const auto& [module, bytes] : activations_by_module(held)) modules.append(py::make_tuple(module, bytes));
  d["modules"] = std::move(modules);
  return d;
}

py::dict as_dict(const Held& held) {
  py::dict d = rows_of(held.lines);
  const std::size_t limited = held.why.limit > held.why.reserved ? held.why.limit - held.why.reserved : 0;
  d["device"] = held.why.device, d["requested"] = held.why.requested, d["capacity"] = held.why.capacity;
  d["free"] = held.why.limit != 0 ? std::min(limited, held.why.free) : held.why.free;
  d["allocated"] = held.why.allocated, d["reserved"] = held.why.reserved;
  const Place place = place_of(held.site);
  d["place"] = py::make_tuple(place.file != nullptr ? place.file : "", place.line);
  return d;
}

}  // namespace

void raise_out_of_memory(const sim::OutOfMemory& why) {
  if (watching()) {
    set_in_step(false);  // where a step ends by this error, nobody says that it has ended
    Held held = held_at(why);
    const std::lock_guard<std::mutex> lock(g_mutex);
    last() = std::move(held);
  }
  if (g_observed.load(std::memory_order_relaxed)) call_observers(why);
  raise_out_of_memory(sim::out_of_memory_message(why));
}

void attach_out_of_memory_observer(py::function observer) {
  observers().push_back(std::move(observer));
  g_observed.store(true, std::memory_order_relaxed);
}

void report_out_of_memory(const sim::OutOfMemory& why) {
  if (!watching() || policy() != Policy::kCollect) return;
  const c10::Device device(c10::kCUDA, static_cast<c10::DeviceIndex>(why.device));
  const Decision go_on{false, device};
  const engine::SiteId site = current_site();
  const uint64_t key = engine::mix((uint64_t{site} << 20) ^ operator_number("out of memory") ^
                                   (static_cast<uint64_t>(why.device) << 56));
  const Decision decision = decide(key, go_on, [&](uint64_t distinct) {
    return in_python(
        [held = held_at(why), device, site, distinct] {
          py::dict raw;
          raw["kind"] = "out-of-memory", raw["overload"] = "", raw["operands"] = py::list();
          raw["error"] = sim::out_of_memory_message(held.why), raw["device"] = device.str();
          raw["site"] = site, raw["key"] = distinct, raw["held"] = as_dict(held);
          raw["policy"] = static_cast<int>(Policy::kCollect);
          return report_raw(raw, device);
        },
        go_on);
  });
  if (decision.raise) raise_out_of_memory(why);
}

py::object held_at_error(const std::string& words) {
  std::optional<Held> held;
  {
    const std::lock_guard<std::mutex> lock(g_mutex);
    held = last();
  }
  if (!held.has_value() || !words.starts_with(sim::out_of_memory_message(held->why))) return py::none();
  return as_dict(*held);
}

py::dict held_now(int device) { return rows_of(memory_by_line(device).now_held()); }

py::list growing_lines(int device, unsigned steps) {
  py::list all;
  for (const auto& line : memory_by_line(device).growing(steps)) {
    const Place place = place_of(line.site);
    all.append(py::make_tuple(place.file != nullptr ? place.file : "", place.line,
                              line.kinds[static_cast<std::size_t>(engine::MemoryKind::kKept)]));
  }
  return all;
}

}  // namespace locus::bridge
