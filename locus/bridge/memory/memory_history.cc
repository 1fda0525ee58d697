// Histories and snapshots of the simulated devices' memory, in the form that PyTorch's memory viewer reads. See
// memory_history.h.
#include "locus/bridge/memory/memory_history.h"

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "locus/bridge/door/origins.h"
#include "locus/bridge/door/watch.h"
#include "locus/bridge/python/module.h"
#include "locus/bridge/state.h"
#include "locus/engine/intern.h"

namespace py = pybind11;

namespace locus::bridge {

std::atomic<bool> g_records_askers{false};

namespace {

/// A line, and the stack that it was called from; equal stacks have equal numbers.
struct Stack {
  engine::SiteId site = 0;
  std::uint32_t outer = 0;
  bool operator==(const Stack&) const = default;
  std::uint64_t hash() const { return engine::mix((std::uint64_t{site} << 32) | outer); }
};
engine::InternTable<Stack>& stacks() {
  static auto* table = new engine::InternTable<Stack>;
  return *table;
}

constinit thread_local std::uint32_t t_asker = 0;

/// Innermost first. Locus's own are left out: they are not there on a card.
py::list frames_of(std::uint32_t stack) {
  static const auto* own =
      new std::string(py::module_::import("locus").attr("__path__").cast<py::list>()[0].cast<std::string>() + "/");
  py::list frames;
  for (; stack != 0; stack = stacks().at(stack).outer) {
    const Place place = place_of(stacks().at(stack).site);
    if (place.file == nullptr || std::string_view(place.file).starts_with(*own)) continue;
    py::dict frame;
    frame["filename"] = place.file, frame["line"] = place.line;
    frame["name"] = place.function != nullptr ? place.function : "";
    frames.append(std::move(frame));
  }
  return frames;
}

/// What torch.cuda.memory._record_memory_history() wants; each device keeps its own.
void record_memory_history(bool on, bool events, bool askers, std::size_t most, bool clear,
                           const std::vector<std::string>& skipped) {
  sim::TraceOptions options{on, events, clear, most, 0};
  for (std::size_t i = 0; i < sim::kTraceActions; ++i) {
    const auto name = sim::to_string(static_cast<sim::TraceAction>(i));
    if (std::ranges::find(skipped, name) != skipped.end()) options.skipped |= 1U << i;
  }
  g_records_askers.store(on && askers);
  sim::set_trace_asker([]() noexcept -> std::uint32_t { return g_records_askers.load() ? t_asker : 0; });
  for (int i = 0; i < machine().devices(); ++i) machine().memory(i).record(options);
}

py::list memory_traces() {
  py::list all;
  for (int i = 0; i < machine().devices(); ++i) {
    py::list events;
    for (const sim::TraceEntry& entry : machine().memory(i).trace()) {
      py::dict d;
      d["action"] = std::string(sim::to_string(entry.action)), d["size"] = entry.size, d["stream"] = entry.stream;
      d["time_us"] = entry.microseconds, d["frames"] = frames_of(entry.who), d["pool_id"] = entry.pool;
      d[entry.action == sim::TraceAction::kOutOfMemory ? "device_free" : "addr"] =
          entry.action == sim::TraceAction::kOutOfMemory ? entry.device_free : static_cast<std::int64_t>(entry.address);
      events.append(std::move(d));
    }
    all.append(std::move(events));
  }
  return all;
}

py::list memory_snapshot() {
  py::list all;
  for (int i = 0; i < machine().devices(); ++i) {
    for (const auto& segment : machine().memory(i).snapshot()) {
      py::dict d;
      d["device"] = i, d["address"] = segment.address, d["total_size"] = segment.total;
      d["allocated_size"] = segment.allocated, d["active_size"] = segment.active, d["stream"] = segment.stream;
      d["segment_type"] = segment.large ? "large" : "small", d["segment_pool_id"] = segment.pool;
      d["is_expandable"] = segment.expandable, d["frames"] = frames_of(segment.who);
      size_t requested = 0;
      py::list blocks;
      for (const auto& block : segment.blocks) {
        py::dict b;
        b["address"] = block.address, b["size"] = block.size, b["requested_size"] = block.requested;
        b["state"] = block.active ? "active_allocated" : "inactive", b["frames"] = frames_of(block.who);
        requested += block.active ? block.requested : 0;
        blocks.append(std::move(b));
      }
      d["requested_size"] = requested, d["blocks"] = std::move(blocks);
      all.append(std::move(d));
    }
  }
  return all;
}

py::dict allocator_settings() {
  const sim::AllocatorSettings s = machine().memory(0).settings();
  py::dict divisions;  // by the size in MiB that they begin at
  for (std::size_t i = 0; i < s.divisions.size(); ++i) {
    divisions[py::str(std::to_string(std::size_t{1} << i))] = s.divisions[i];
  }
  py::dict all;
  all["PYTORCH_CUDA_ALLOC_CONF"] = s.text;
  all["max_split_size"] = s.max_split == SIZE_MAX ? -1 : static_cast<std::int64_t>(s.max_split);
  all["garbage_collection_threshold"] = s.collect_from;
  all["expandable_segments"] = s.expandable;
  all["pinned_num_register_threads"] = s.register_threads;
  all["release_lock_on_cudamalloc"] = s.releases_lock;
  all["pinned_use_cuda_host_register"] = s.registers_host;
  all["graph_capture_record_stream_reuse"] = s.records_reuse;
  all["roundup_power2_divisions"] = divisions;
  return all;
}

}  // namespace

void note_asker() noexcept {
  constexpr std::size_t kDeepest = 128;
  std::array<engine::SiteId, kDeepest> sites;
  std::size_t count = all_sites(sites);
  if (count == 0) {  // a thread of autograd: the line of the forward pass
    sites[0] = current_site();
    count = 1;
  }
  std::uint32_t stack = 0;
  while (count > 0) {
    const std::uint32_t inner = stacks().intern({sites[--count], stack});
    if (inner == 0) break;  // no more room for new ones
    stack = inner;
  }
  t_asker = stack;
}

void define_memory_history(py::module_& m) {
  m.def("memory_snapshot", &memory_snapshot);
  m.def("memory_traces", &memory_traces);
  m.def("allocator_settings", &allocator_settings);
  m.def("record_memory_history", &record_memory_history);
  m.def("records_memory_history", [] { return machine().devices() > 0 && machine().memory(0).recording(); });
}

}  // namespace locus::bridge
