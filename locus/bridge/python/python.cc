// The module locus._bridge: what the Python package may ask of the C++ side. No logic of its own.
#include <ATen/detail/CUDAHooksInterface.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>
#include <torch/csrc/Storage.h>
#include <torch/csrc/utils/pybind.h>
#include <torch/version.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "locus/bridge/compat.h"
#include "locus/bridge/door/origins.h"
#include "locus/bridge/door/watch.h"
#include "locus/bridge/dry/knowledge.h"
#include "locus/bridge/kernels/generator.h"
#include "locus/bridge/kernels/kernels.h"
#include "locus/bridge/kernels/plan.h"
#include "locus/bridge/memory/host_room.h"
#include "locus/bridge/memory/memory.h"
#include "locus/bridge/memory/scratch.h"
#include "locus/bridge/python/module.h"
#include "locus/bridge/state.h"
#include "locus/bridge/streams/ordering.h"
#include "locus/bridge/streams/pinned.h"

namespace py = pybind11;

namespace locus::bridge {
namespace {

int g_operators = 0;

void need_machine() {
  TORCH_CHECK(simulating(), "locus: no devices are simulated in this process; call locus.simulate() first");
}
int device_argument(int device) {
  need_machine();
  if (device < 0) return t_current_device;
  check_device_index(device);
  return device;
}

void simulate(int devices, size_t memory_bytes, bool shared, bool watch_host, std::optional<size_t> host_bytes,
              const std::string& card_key, const std::optional<dry::Settings>& settings) {
  const bool first = !simulating(), is_dry = settings.has_value();
  const sim::Card* card = card_key.empty() ? &sim::default_card() : sim::find_card(card_key);
  TORCH_CHECK(card != nullptr, "locus: no card is called '", card_key, "'");
  // Nothing fills what a dry run hands out.
  install_backend({devices, memory_bytes, {watch_host && !is_dry, host_bytes}, card, is_dry}, shared);
  if (!first) return;
  if (is_dry) dry::begin(*settings);
  g_operators = install_kernels();
  install_fault_handler(true);
}

py::dict properties(int device) {
  const auto& p = machine().properties(device_argument(device));
  py::dict d;
  d["name"] = p.name, d["major"] = p.major, d["minor"] = p.minor;
  d["multi_processor_count"] = p.multi_processor_count, d["total_memory"] = p.total_memory;
  d["warp_size"] = p.warp_size, d["max_threads_per_multi_processor"] = p.max_threads_per_multi_processor;
  d["regs_per_multiprocessor"] = p.regs_per_multiprocessor;
  d["shared_memory_per_block"] = p.shared_memory_per_block;
  d["shared_memory_per_block_optin"] = p.shared_memory_per_block_optin;
  d["shared_memory_per_multiprocessor"] = p.shared_memory_per_multiprocessor;
  d["L2_cache_size"] = p.l2_cache_size, d["is_integrated"] = p.is_integrated;
  d["is_multi_gpu_board"] = p.is_multi_gpu_board, d["uuid"] = p.uuid, d["gcnArchName"] = "";
  d["pci_bus_id"] = p.pci_bus_id, d["pci_device_id"] = p.pci_device_id, d["pci_domain_id"] = p.pci_domain_id;
  d["clock_rate"] = p.clock_rate_khz, d["memory_clock_rate"] = p.memory_clock_rate_khz;
  d["memory_bus_width"] = p.memory_bus_width;
  return d;
}

py::dict stat_dict(const sim::Stat& stat) {
  py::dict d;
  d["current"] = stat.current, d["peak"] = stat.peak, d["allocated"] = stat.allocated, d["freed"] = stat.freed;
  return d;
}
py::dict stat_dict(const sim::StatArray& stats) {
  py::dict d;
  d["all"] = stat_dict(stats.all), d["small_pool"] = stat_dict(stats.small_pool),
  d["large_pool"] = stat_dict(stats.large_pool);
  return d;
}

/// The layout of torch._C._cuda_memoryStats().
py::dict memory_stats(int device) {
  const sim::MemoryStats s = machine().memory(device_argument(device)).stats();
  py::dict d;
  d["allocation"] = stat_dict(s.allocation), d["segment"] = stat_dict(s.segment), d["active"] = stat_dict(s.active);
  d["inactive_split"] = stat_dict(s.inactive_split), d["allocated_bytes"] = stat_dict(s.allocated_bytes);
  d["reserved_bytes"] = stat_dict(s.reserved_bytes), d["active_bytes"] = stat_dict(s.active_bytes);
  d["inactive_split_bytes"] = stat_dict(s.inactive_split_bytes), d["requested_bytes"] = stat_dict(s.requested_bytes);
  d["oversize_allocations"] = stat_dict(s.oversize_allocations),
  d["oversize_segments"] = stat_dict(s.oversize_segments);
  d["num_alloc_retries"] = s.num_alloc_retries, d["num_ooms"] = s.num_ooms, d["max_split_size"] = s.max_split_size;
  d["num_sync_all_streams"] = s.num_sync_all_streams, d["num_device_alloc"] = s.num_device_alloc;
  d["num_device_free"] = s.num_device_free;
  return d;
}

/// The layout of torch._C._cuda_hostMemoryStats(). Nobody measures how long the host takes for it.
py::dict host_memory_stats() {
  const sim::PinnedStats s = pinned_stats();
  const auto times = [](int64_t count) {
    py::dict d;
    d["count"] = count;
    for (const char* name : {"total", "max", "min", "avg"}) d[name] = 0;
    return d;
  };
  py::dict d;
  d["allocations"] = stat_dict(s.allocations), d["allocated_bytes"] = stat_dict(s.allocated_bytes);
  d["active_requests"] = stat_dict(s.active_requests), d["active_bytes"] = stat_dict(s.active_bytes);
  d["num_host_alloc"] = s.allocations.allocated, d["num_host_free"] = s.allocations.freed;
  d["host_alloc_time"] = times(s.allocations.allocated), d["host_free_time"] = times(s.allocations.freed);
  return d;
}

sim::AllocatorSettings use_settings(const std::string& text, sim::SettingsFrom from) {
  need_machine();
  sim::SettingsRefusal refusal;
  const auto settings = sim::parse_allocator_settings(text, from, &refusal);
  if (!settings && refusal.kind == sim::SettingsRefusal::Kind::kValue) throw py::value_error(refusal.words);
  if (!settings && refusal.kind == sim::SettingsRefusal::Kind::kIndex) throw py::index_error(refusal.words);
  if (!settings) throw std::runtime_error(refusal.words);
  for (int i = 0; i < machine().devices(); ++i) machine().memory(i).configure(*settings);
  return *settings;
}

void set_allocator_settings(const std::string& text) { use_settings(text, sim::SettingsFrom::kProgram); }

/// What the environment says when CUDA is first used; true where it asks for the allocator that is not simulated.
bool read_allocator_environment() {
  const char* text = std::getenv("PYTORCH_CUDA_ALLOC_CONF");  // the other one is then not looked at
  if (text == nullptr) text = std::getenv("PYTORCH_ALLOC_CONF");
  if (text == nullptr) return false;
  const sim::AllocatorSettings settings = use_settings(text, sim::SettingsFrom::kEnvironment);
  for (int i = 0; i < machine().devices() && settings.fraction < 1; ++i) {
    machine().memory(i).set_fraction(settings.fraction);
  }
  return settings.asynchronous;
}

void empty_cache() {
  need_machine();
  for (int i = 0; i < machine().devices(); ++i) machine().memory(i).empty_cache();
  machine().arena().trim();
}

py::tuple stream_tuple(int64_t id, int device) {
  return py::make_tuple(id, device, static_cast<int64_t>(c10::DeviceType::CUDA));
}

py::object new_storage(size_t bytes, int device) {
  return py::reinterpret_steal<py::object>(
      THPStorage_Wrap(c10::Storage(new_device_storage(bytes, device_argument(device)))));
}

std::unordered_map<uint64_t, c10::DataPtr>& raw_blocks() {
  static auto* blocks = new std::unordered_map<uint64_t, c10::DataPtr>;
  return *blocks;
}
uint64_t raw_alloc(size_t bytes, int64_t) {
  need_machine();
  c10::DataPtr data = device_allocator()->allocate(bytes);
  const auto address = reinterpret_cast<uint64_t>(data.get());
  raw_blocks().emplace(address, std::move(data));
  return address;
}
void raw_delete(uint64_t address) { raw_blocks().erase(address); }

/// The interpreter's own counter of a code object's first starts; only its first value is meant to be compared.
int runs_counted(void* object) noexcept {
#if PY_VERSION_HEX >= 0x030C0000
  (void)object;
  return -1;
#elif PY_VERSION_HEX >= 0x030B0000
  // Counts up to 0 with each start, until the code is specialised; a fresh one is at the lowest value.
  return static_cast<PyCodeObject*>(object)->co_warmup;
#else
  return static_cast<PyCodeObject*>(object)->co_opcache_flag;  // counts the first starts
#endif
}

py::tuple place_tuple(engine::SiteId site) {
  const Place place = place_of(site);
  return py::make_tuple(place.file != nullptr ? place.file : "", place.line,
                        place.function != nullptr ? place.function : "");
}

}  // namespace

PYBIND11_MODULE(_bridge, m) {
  m.doc() = "Locus's C++ side: simulated CUDA devices for PyTorch.";
  m.attr("torch_version") = TORCH_VERSION;
  m.def("set_library_folders", [](const std::vector<std::string>& folders) {
    std::vector<const char*> raw;
    raw.reserve(folders.size());
    for (const auto& folder : folders) raw.push_back(folder.c_str());
    set_library_folders(raw.data(), static_cast<int>(raw.size()));
    check_frame_layout();
  });
  define_dry(m);
  m.def("simulate", &simulate, py::arg("devices"), py::arg("memory_bytes"), py::arg("shared_rng") = false,
        py::arg("watch_host") = true, py::arg("host_bytes") = py::none(), py::arg("card") = "",
        py::arg("dry") = py::none());
  m.def("clear_blas_workspaces", &clear_blas_workspaces);
  define_host_memory_error();
  m.def("install_fault_handler", &install_fault_handler);
  m.def("devices", [] {
    look_at_visible_devices();
    return simulating() ? machine().devices() : -1;
  });
  m.def("get_device", [] { return t_current_device; });
  m.def("set_device", [](int device) {
    if (device < 0) return;
    check_device_index(device);
    t_current_device = device;
  });
  const auto exchange = [](int device) {
    const int old = t_current_device;
    if (device >= 0) {
      check_device_index(device);
      t_current_device = device;
    }
    return old;
  };
  m.def("exchange_device", exchange);
  m.def("maybe_exchange_device", exchange);
  m.def("properties", &properties);
  m.def("memory_stats", &memory_stats);
  m.def("memory_info", [](int device) {
    auto& memory = machine().memory(device_argument(device));
    return py::make_tuple(memory.free_bytes(), memory.capacity());
  });
  m.def("empty_cache", &empty_cache);
  // The most that was reserved: what the program sets back of its own statistics counts here all the same.
  static std::array<std::int64_t, sim::kMaxDevices> reserved_before{};
  m.def("most_reserved", [](int device) {
    const int i = device_argument(device);
    return std::max(reserved_before.at(static_cast<std::size_t>(i)),
                    machine().memory(i).stats().reserved_bytes.all.peak);
  });
  m.def("reset_peak_memory_stats", [](int device) {
    const int i = device_argument(device);
    std::int64_t& most = reserved_before.at(static_cast<std::size_t>(i));
    most = std::max(most, machine().memory(i).stats().reserved_bytes.all.peak);
    machine().memory(i).reset_peak();
  });
  m.def("reset_accumulated_memory_stats",
        [](int device) { machine().memory(device_argument(device)).reset_accumulated(); });
  m.def("host_memory_stats", &host_memory_stats);
  m.def("empty_host_cache", [] { with_pinned_pool(&sim::PinnedPool::empty); });
  m.def("reset_peak_host_memory_stats", [] { with_pinned_pool(&sim::PinnedPool::reset_peak); });
  m.def("reset_accumulated_host_memory_stats", [] { with_pinned_pool(&sim::PinnedPool::reset_accumulated); });
  m.def("set_memory_fraction",
        [](double fraction, int device) { machine().memory(device_argument(device)).set_fraction(fraction); });
  m.def("get_memory_fraction", [](int device) { return machine().memory(device_argument(device)).fraction(); });
  m.def("set_allocator_settings", &set_allocator_settings);
  m.def("read_allocator_environment", &read_allocator_environment);
  m.def("raw_alloc", &raw_alloc, py::arg("nbytes"), py::arg("stream") = 0);
  m.def("raw_delete", &raw_delete);
  m.def("current_stream", [](int device) {
    const int index = device_argument(device);
    return stream_tuple(current_stream(index), index);
  });
  m.def("default_stream", [](int device) { return stream_tuple(0, device_argument(device)); });
  m.def("set_stream", [](int64_t id, int device, int64_t) {
    set_current_stream(device_argument(device), id);
    t_current_device = device;
  });
  m.def("stream_from_pool", [](int device, int priority) {
    const int index = device_argument(device);
    const int64_t id = machine().streams().from_pool(index, priority);
    note_new_stream(index, id);
    return stream_tuple(id, index);
  });
  m.def("priority_of", [](int64_t id) { return machine().streams().priority_of(id); });
  m.def("stream_handle",
        [](int64_t id, int device) { return machine().streams().native_handle(device_argument(device), id); });
  m.def("raw_stream", [](int device) {
    const int index = device_argument(device);
    return machine().streams().native_handle(index, current_stream(index));
  });
  m.def("synchronize", [](int device) {
    const int index = device_argument(device);
    at::detail::getCUDAHooks().deviceSynchronize(static_cast<c10::DeviceIndex>(index));
    static const engine::OperatorId what = operator_number("torch.cuda.synchronize");
    if (watching()) note_synchronization(index, what);
  });
  m.def("new_storage", &new_storage);
  m.def("resize_storage", [](const c10::Storage& storage, size_t bytes) {
    resize_device_storage(*storage.unsafeGetStorageImpl(), bytes);
  });
  m.def("default_generator", [](int device) { return default_generator(device_argument(device)); });
  m.def("new_generator", [](int device) { return new_generator(device_argument(device)); });
  m.def("in_bad_fork", &in_bad_fork);
  m.def("mark_used", &mark_used);
  m.def("op_counts", [] {
    py::dict d;
    d["operators"] = g_operators, d["sites"] = sites().size() - 1, d["origins"] = origins().size() - 1;
    return d;
  });
  m.def("operator_kinds", &operator_kinds);
  define_check(m);
  define_outside(m);
  define_reporting(m);
  define_collectives(m);
  define_graph(m);
  define_graphs(m);
  define_pools(m);
  define_kept_outputs(m);
  define_memory_history(m);
  define_ranks(m);
  define_ledger(m);
  define_report(m);
  m.def("has_run", [](const py::object& code) -> py::object {
    if (!PyCode_Check(code.ptr())) return py::none();
    // What the counter of code that never ran says, read from such code.
    static const int fresh = [] {
      const auto never = py::reinterpret_steal<py::object>(Py_CompileString("0", "<locus>", Py_eval_input));
      return runs_counted(never.ptr());
    }();
    if (PY_VERSION_HEX >= 0x030C0000) return py::none();
    return py::bool_(runs_counted(code.ptr()) != fresh);
  });
  m.def("user_site", [] { return place_tuple(user_site()); });
}

}  // namespace locus::bridge
