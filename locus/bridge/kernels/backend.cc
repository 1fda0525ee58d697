// The simulated machine as PyTorch's C++ core sees it: device guard, CUDA hooks, current device and
// streams, fork. No kernels (kernels.cc), no memory (memory.cc).
#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <pthread.h>
#include <torch/csrc/autograd/engine.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <map>
#include <mutex>
#include <new>
#include <numeric>
#include <string_view>

#include "locus/bridge/compat.h"
#include "locus/bridge/door/watch.h"
#include "locus/bridge/kernels/generator.h"
#include "locus/bridge/memory/memory.h"
#include "locus/bridge/state.h"
#include "locus/bridge/streams/gpu_trace.h"
#include "locus/bridge/streams/graphs.h"
#include "locus/bridge/streams/ordering.h"

namespace locus::bridge {

std::atomic<sim::Machine*> g_machine{nullptr};
constinit thread_local int t_current_device = 0;
constinit thread_local int t_kernel_device = -1;

namespace {

using c10::Device;
using c10::DeviceIndex;
using c10::DeviceType;
using c10::Stream;

std::atomic<bool> g_used{false};
std::atomic<bool> g_bad_fork{false};
thread_local std::array<int64_t, sim::kMaxDevices> t_streams{};

Stream make_stream(int device, int64_t id) {
  return Stream(Stream::UNSAFE, Device(c10::kCUDA, static_cast<DeviceIndex>(device)), id);
}

void on_fork_child() {
  if (g_machine.load() == nullptr || !g_used.load()) return;
  g_bad_fork.store(true);
  g_machine.load()->arena().abandon();
}

void wait_for_device(int device) {
  if (capturing()) refuse_to_wait("synchronize", device, -1);
  host_waits_for_device(device);
  trace_gpu([](const auto& listener) { listener.trace_gpu_device_synchronization(c10::kCUDA); });
}

/// PyTorch's idea of the CUDA driver. Order matters to it only through streams and events.
struct SimulatedGuard final : c10::impl::DeviceGuardImplInterface {
  static constexpr DeviceType static_type = DeviceType::CUDA;  // NOLINT(readability-identifier-naming): PyTorch's
  DeviceType type() const override { return DeviceType::CUDA; }
  Device exchangeDevice(Device device) const override {
    const Device old = getDevice();
    if (old != device) setDevice(device);
    return old;
  }
  Device getDevice() const override { return Device(c10::kCUDA, static_cast<DeviceIndex>(t_current_device)); }
  void setDevice(Device device) const override {
    if (!device.has_index()) return;
    check_device_index(device.index());
    t_current_device = device.index();
  }
  void uncheckedSetDevice(Device device) const noexcept override {
    if (device.has_index()) t_current_device = device.index();
  }
  Stream getStream(Device device) const noexcept override {
    const int index = device.has_index() ? device.index() : t_current_device;
    return make_stream(index, current_stream(index));
  }
  Stream getDefaultStream(Device device) const override { return make_stream(resolve_device(device), 0); }
  Stream getStreamFromGlobalPool(Device device, bool high_priority) const override {
    return getNewStream(device, high_priority ? -1 : 0);
  }
  Stream getNewStream(Device device, int priority) const override {
    const int index = resolve_device(device);
    const int64_t id = machine().streams().from_pool(index, priority);
    note_new_stream(index, id);
    return make_stream(index, id);
  }
  Stream exchangeStream(Stream stream) const noexcept override {
    const int index = stream.device_index();
    const Stream old = make_stream(index, current_stream(index));
    set_current_stream(index, stream.id());
    return old;
  }
  virtual void* getStreamNativeHandle(const Stream stream) const {
    return reinterpret_cast<void*>(machine().streams().native_handle(stream.device_index(), stream.id()));
  }
  void record(void** event, const Stream& stream, const DeviceIndex, const c10::EventFlag flag) const override {
    const bool is_new = *event == nullptr;
    if (is_new) *event = new OrderedEvent;
    auto* e = static_cast<OrderedEvent*>(*event);
    e->timing = flag == c10::EventFlag::BACKEND_DEFAULT;
    record_event(e, stream.device_index(), stream.id());
    trace_gpu([&](const auto& listener) {
      const auto number = reinterpret_cast<uintptr_t>(e);
      if (is_new) listener.trace_gpu_event_creation(c10::kCUDA, number);
      listener.trace_gpu_event_record(c10::kCUDA, number, stream_handle(stream.device_index(), stream.id()));
    });
  }
  void block(void* event, const Stream& stream) const override {
    if (event == nullptr) return;
    stream_waits(stream.device_index(), stream.id(), *static_cast<OrderedEvent*>(event));
    trace_gpu([&](const auto& listener) {
      listener.trace_gpu_event_wait(c10::kCUDA, reinterpret_cast<uintptr_t>(event),
                                    stream_handle(stream.device_index(), stream.id()));
    });
  }
  bool queryEvent(void* event) const override {
    if (event == nullptr) return true;
    if (capturing()) refuse_event("query", *static_cast<OrderedEvent*>(event));
    host_waits(*static_cast<OrderedEvent*>(event));  // whoever asks knows now
    return true;
  }
  void destroyEvent(void* event, const DeviceIndex) const noexcept override {
    if (event != nullptr) {
      trace_gpu([&](const auto& listener) {
        listener.trace_gpu_event_deletion(c10::kCUDA, reinterpret_cast<uintptr_t>(event));
      });
    }
    delete static_cast<OrderedEvent*>(event);
  }
  DeviceIndex deviceCount() const noexcept override {
    look_at_visible_devices();
    return static_cast<DeviceIndex>(simulating() ? machine().devices() : 0);
  }
  bool queryStream(const Stream& stream) const override {
    if (capturing()) refuse_to_wait("query", stream.device_index(), stream.id());
    host_knows(stream.device_index(), stream.id());
    return true;
  }
  void synchronizeStream(const Stream& stream) const override {
    if (capturing()) refuse_to_wait("synchronize", stream.device_index(), stream.id());
    host_waits(stream.device_index(), stream.id());
    static const engine::OperatorId what = operator_number("Stream.synchronize");
    if (watching()) note_synchronization(stream.device_index(), what);
  }
  void synchronizeEvent(void* event) const override {
    if (event == nullptr) return;
    const auto* e = static_cast<OrderedEvent*>(event);
    if (capturing()) refuse_event("synchronize", *e);
    host_waits(*e);
    trace_gpu([&](const auto& listener) {
      listener.trace_gpu_event_synchronization(c10::kCUDA, reinterpret_cast<uintptr_t>(event));
    });
    static const engine::OperatorId what = operator_number("Event.synchronize");
    if (watching() && e->device >= 0) note_synchronization(e->device, what);
  }
  void synchronizeDevice(const DeviceIndex device) const override { wait_for_device(device); }
  void recordDataPtrOnStream(const c10::DataPtr& data, const Stream& stream) const override {
    record_on_stream(data, stream.device_index(), stream.id());
  }
  double elapsedTime(void* begin, void* end, const DeviceIndex) const override {
    TORCH_CHECK(begin != nullptr && end != nullptr, "Both events must be recorded before calculating elapsed time.");
    return sim::Streams::elapsed_ms(*static_cast<OrderedEvent*>(begin), *static_cast<OrderedEvent*>(end));
  }
  virtual bool isStreamCapturing(const Stream& stream) const {
    return capturing() && is_captured(stream.device_index(), stream.id());
  }
#if __has_include(<c10/core/DeviceCapability.h>)
  virtual c10::DeviceCapability getDeviceCapability(Device) const { return {}; }  // every type of PyTorch's
#endif
};

/// Stands in for PyTorch's CUDA hooks. No data members: it is laid over the object that PyTorch has
/// made and cached already (see replace_hooks), which has none either.
struct SimulatedHooks final : at::CUDAHooksInterface {
  void init() const override {}
  virtual bool isBuilt() const { return true; }
  virtual bool isAvailable() const { return getNumGPUs() > 0; }
  bool hasCUDA() const override { return getNumGPUs() > 0; }
  bool hasCUDART() const override { return true; }
  bool hasMAGMA() const override { return true; }
  bool hasCuSOLVER() const override { return true; }
  bool hasCuBLASLt() const override { return true; }
  bool hasPrimaryContext(DeviceIndex) const override { return g_used.load(); }
  DeviceIndex deviceCount() const override { return static_cast<DeviceIndex>(getNumGPUs()); }
  int getNumGPUs() const override {
    look_at_visible_devices();
    return machine().devices();
  }
  DeviceIndex current_device() const override { return static_cast<DeviceIndex>(t_current_device); }
  DeviceIndex getCurrentDevice() const override { return static_cast<DeviceIndex>(t_current_device); }
  void setCurrentDevice(DeviceIndex device) const override {
    check_device_index(device);
    t_current_device = device;
  }
  DeviceIndex exchangeDevice(DeviceIndex device) const override {
    const int old = t_current_device;
    setCurrentDevice(device);
    return static_cast<DeviceIndex>(old);
  }
  DeviceIndex maybeExchangeDevice(DeviceIndex device) const override {
    const int old = t_current_device;
    if (device >= 0) setCurrentDevice(device);
    return static_cast<DeviceIndex>(old);
  }
  bool isPinnedPtr(const void* data) const override { return is_pinned(data); }
  c10::Allocator* getPinnedMemoryAllocator() const override { return pinned_allocator(); }
  c10::Allocator* getCUDADeviceAllocator() const override { return device_allocator(); }
  Device getDeviceFromPtr(void* data) const override {
    TORCH_CHECK(machine().arena().is_device(data),
                "The specified pointer resides on host memory and is not registered "
                "with any CUDA device.");
    return Device(c10::kCUDA, static_cast<DeviceIndex>(machine().arena().device_of(data)));
  }
  const at::Generator& getDefaultGenerator(DeviceIndex device) const override {
    return default_generator(device < 0 ? t_current_device : device);
  }
  virtual at::Generator getNewGenerator(DeviceIndex device) const {
    return new_generator(device);  // "cuda" without a number stays so, as on a real card
  }
  // cuDNN is there to those who ask for its version, but no operator is routed to it.
  long versionCuDNN() const override { return 91900; }
  virtual long versionRuntimeCuDNN() const { return 91900; }
  long versionCUDART() const override { return 13000; }
  std::string showConfig() const override { return "  - CUDA devices simulated by Locus\n"; }
  int64_t cuFFTGetPlanCacheMaxSize(DeviceIndex) const override { return 4096; }
  void cuFFTSetPlanCacheMaxSize(DeviceIndex, int64_t) const override {}
  int64_t cuFFTGetPlanCacheSize(DeviceIndex) const override { return 0; }
  void cuFFTClearPlanCache(DeviceIndex) const override {}
  void deviceSynchronize(DeviceIndex device) const override { wait_for_device(device); }
};

/// PyTorch makes its hooks object once and keeps it. Both builds' objects have nothing but a virtual
/// table, so ours can take its place at the same address, before or after the first use.
void replace_hooks() {
  static_assert(sizeof(SimulatedHooks) == sizeof(void*), "laid over an object that is one virtual table pointer");
  const at::CUDAHooksInterface& cached = at::detail::getCUDAHooks();
  new (const_cast<at::CUDAHooksInterface*>(&cached)) SimulatedHooks;
}

/// Autograd starts one thread per device at the first backward(), once. Where that has happened already,
/// with no device there, it is done again; where it has not, nothing is started early (threads forbid fork).
struct EngineFields : torch::autograd::Engine {
  static void add_device_threads(torch::autograd::Engine& engine, int devices) {
    const bool started = (engine.*(&EngineFields::thread_pool_shared_)) != nullptr;
    const size_t queues = (engine.*(&EngineFields::device_ready_queues_)).size();
    if (!started || queues >= static_cast<size_t>(devices)) return;
    TORCH_CHECK(queues == 0, "backward() has already run in this process on ", queues,
                " other device(s), and PyTorch starts its device threads only once. Call locus.simulate() before the "
                "first backward(), or start the program with `locus run`.");
    (engine.*(&EngineFields::start_device_threads))();
  }
};

}  // namespace

void check_device_index(int index) {
  if (index >= 0 && index < machine().devices()) return;
  raise_accelerator_error(101,
                          "CUDA error: invalid device ordinal\nGPU device may be out of range, do you have enough "
                          "GPUs?\nThe simulated machine has " +
                              std::to_string(machine().devices()) + " device(s); cuda:" + std::to_string(index) +
                              " was asked for.\n");
}

int resolve_device(Device device) {
  if (!device.has_index()) return t_current_device;
  check_device_index(device.index());
  return device.index();
}

int64_t current_stream(int device) { return t_streams[device]; }
void set_current_stream(int device, int64_t stream) { t_streams[device] = stream; }

bool in_bad_fork() { return g_bad_fork.load(std::memory_order_relaxed); }
void mark_used() {
  if (!g_used.load()) look_at_visible_devices();
  if (!g_used.exchange(true)) forget_initialization_in_children();
}

void look_at_visible_devices() {
  if (g_used.load(std::memory_order_relaxed) || !simulating()) return;
  // What the variable was when Locus started is about the real machine; what the program makes of it is about this one.
  const char* outside = std::getenv("LOCUS_OUTSIDE_DEVICES");
  const char* now = std::getenv("CUDA_VISIBLE_DEVICES");
  const int all = machine().options().devices;
  std::vector<int> shown(static_cast<size_t>(all));
  std::iota(shown.begin(), shown.end(), 0);
  if (outside != nullptr && now != nullptr && std::string_view(outside) != now) shown = sim::visible_devices(now, all);
  machine().show(std::move(shown));
}

void install_backend(const sim::MachineOptions& options, bool shared) {
  if (sim::Machine* existing = g_machine.load()) {
    TORCH_CHECK(existing->options().devices == options.devices &&
                    existing->options().memory_bytes == options.memory_bytes &&
                    existing->options().card == options.card,
                "this process already simulates ", existing->options().devices, " device(s) with ",
                sim::format_bytes(existing->options().memory_bytes),
                " each; the machine can't be changed once it is there. Start a new process, or call simulate() with "
                "the same values.");
    return;
  }
  auto fresh = std::make_unique<sim::Machine>(options);
  g_machine.store(fresh.release(), std::memory_order_release);
  install_allocators();
  install_generators(options.devices, shared);
  replace_hooks();
  c10::impl::DeviceGuardImplRegistrar(DeviceType::CUDA, new SimulatedGuard);
  EngineFields::add_device_threads(torch::autograd::Engine::get_default_engine(), options.devices);
  pthread_atfork(nullptr, nullptr, &on_fork_child);
}

}  // namespace locus::bridge
