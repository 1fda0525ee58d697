// See card_calls.h.
#include "locus/bridge/streams/card_calls.h"

#include <c10/core/impl/GPUTrace.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <dlfcn.h>
#include <torch/csrc/PyInterpreter.h>

#include <array>
#include <mutex>
#include <unordered_map>

#include "locus/bridge/door/real.h"
#include "locus/bridge/door/watch.h"
#include "locus/bridge/streams/card_memory.h"
#include "locus/bridge/streams/gpu_trace.h"
#include "locus/bridge/streams/ordering.h"

namespace locus::bridge {

std::atomic<bool> g_card_ordering{false};
constinit thread_local std::uint32_t t_card_waits = 0;

namespace {

using c10::DeviceType;
using c10::impl::DeviceGuardImplInterface;
using c10::impl::PyInterpreterVTable;
using order::Lane;
using Handle = std::uintptr_t;  ///< a stream or an event, as the card's driver calls it

std::atomic<bool> g_listening{false}, g_stopped{false};
std::atomic<const PyInterpreterVTable*> g_next{nullptr};
std::array<std::atomic<order::Time>, sim::kMaxDevices> g_default_time{};

struct Known {
  std::mutex mutex;
  std::unordered_map<Handle, int> streams;  ///< with the device; the default streams have no handle
  std::unordered_map<Handle, order::Stamp> events;
};
Known& known() {
  static auto* all = new Known;  // never destroyed: events may be destroyed after exit handlers ran
  return *all;
}

bool follows() { return g_judging.load(std::memory_order_relaxed) && !g_stopped.load(std::memory_order_relaxed); }

std::optional<Lane> lane_of_handle(Handle stream) {
  if (stream == 0) return lane_of(card_device(), 0);
  int device = -1;
  {
    const std::lock_guard lock(known().mutex);
    const auto found = known().streams.find(stream);
    if (found != known().streams.end()) device = found->second;
  }
  if (device >= 0) return lane_of(device, static_cast<std::int64_t>(stream));
  stop_card_order();
  return std::nullopt;
}

std::optional<order::Stamp> stamp_of(Handle event) {
  {
    const std::lock_guard lock(known().mutex);
    const auto found = known().events.find(event);
    if (found != known().events.end()) return found->second;
  }
  stop_card_order();  // recorded by another process, or before anybody listened
  return std::nullopt;
}

/// The time of a default stream may have moved on.
void follow_default(Lane lane) {
  const LaneInfo info = lane_info(lane);
  if (info.device < 0 || info.stream != 0) return;
  g_default_time[static_cast<size_t>(info.device)].store(stream_order().now(lane), std::memory_order_relaxed);
}

void host_waits_for(Lane lane) {
  t_card_waits += 1;
  stream_order().host_waits(lane);
  follow_default(lane);
}

void host_waits_for(const order::Stamp& stamp) {
  t_card_waits += 1;
  stream_order().host_waits(stamp);
}

void host_waits_for_all_of(int device) {
  t_card_waits += 1;
  lane_of(device, 0);
  for (const Lane lane : lanes_of(device)) host_waits_for(lane);
}

/// A fault in what is told here is no reason to take the program down.
template <class Note>
void note(DeviceType type, Note&& note) noexcept {
  if (type != c10::kCUDA || !follows()) return;
  try {
    note();
  } catch (...) {
    stop_card_order();
  }
}

template <class Tell>
void pass_on(Tell&& tell) {
  if (const PyInterpreterVTable* next = g_next.load(std::memory_order_acquire)) tell(*next);
}

// What PyTorch calls. Each gets the listener first, which is none of ours.

void event_created(const void*, DeviceType type, Handle event) {
  note(type, [&] {
    const std::lock_guard lock(known().mutex);
    known().events.erase(event);
  });
  pass_on([&](const auto& next) { next.trace_gpu_event_creation(type, event); });
}

void event_deleted(const void*, DeviceType type, Handle event) {
  note(type, [&] {
    const std::lock_guard lock(known().mutex);
    known().events.erase(event);
  });
  pass_on([&](const auto& next) { next.trace_gpu_event_deletion(type, event); });
}

void event_recorded(const void*, DeviceType type, Handle event, Handle stream) {
  note(type, [&] {
    const std::optional<Lane> lane = lane_of_handle(stream);
    if (!lane.has_value()) return;
    order::Stamp stamp = stream_order().record(*lane);
    follow_default(*lane);
    const std::lock_guard lock(known().mutex);
    known().events[event] = std::move(stamp);
  });
  pass_on([&](const auto& next) { next.trace_gpu_event_record(type, event, stream); });
}

void event_waited_for(const void*, DeviceType type, Handle event, Handle stream) {
  note(type, [&] {
    const std::optional<Lane> lane = lane_of_handle(stream);
    const std::optional<order::Stamp> stamp = stamp_of(event);
    if (lane.has_value() && stamp.has_value()) stream_order().wait(*lane, *stamp);
  });
  pass_on([&](const auto& next) { next.trace_gpu_event_wait(type, event, stream); });
}

void memory_allocated(const void*, DeviceType type, Handle address) {
  if (card_ordering()) note(type, [&] { card_memory_taken(address); });
  pass_on([&](const auto& next) { next.trace_gpu_memory_allocation(type, address); });
}

void memory_freed(const void*, DeviceType type, Handle address) {
  if (card_ordering()) note(type, [&] { card_memory_freed(address); });
  pass_on([&](const auto& next) { next.trace_gpu_memory_deallocation(type, address); });
}

void stream_created(const void*, DeviceType type, Handle stream) {
  note(type, [&] {
    const int device = card_device();
    {
      const std::lock_guard lock(known().mutex);
      known().streams[stream] = device;
    }
    if (watching()) g_card_ordering.store(true, std::memory_order_relaxed);
  });
  pass_on([&](const auto& next) { next.trace_gpu_stream_creation(type, stream); });
}

void device_synchronized(const void*, DeviceType type) {
  note(type, [] { host_waits_for_all_of(card_device()); });
  pass_on([&](const auto& next) { next.trace_gpu_device_synchronization(type); });
}

void stream_synchronized(const void*, DeviceType type, Handle stream) {
  note(type, [&] {
    if (const std::optional<Lane> lane = lane_of_handle(stream)) host_waits_for(*lane);
  });
  pass_on([&](const auto& next) { next.trace_gpu_stream_synchronization(type, stream); });
}

void event_synchronized(const void*, DeviceType type, Handle event) {
  if (type == c10::kCUDA) card_event_is_done(event);
  pass_on([&](const auto& next) { next.trace_gpu_event_synchronization(type, event); });
}

// What is asked through the device guard, which the trace does not tell.

const DeviceGuardImplInterface* g_asked = nullptr;
bool (*g_query_event)(const void*, void*) = nullptr;
bool (*g_query_stream)(const void*, const c10::Stream&) = nullptr;
void (*g_record_memory)(const void*, const c10::DataPtr&, const c10::Stream&) = nullptr;

bool event_asked(const void*, void* event) {
  const bool done = g_query_event(g_asked, event);
  if (done && event != nullptr) card_event_is_done(reinterpret_cast<Handle>(event));
  return done;
}

bool stream_asked(const void*, const c10::Stream& stream) {
  const bool done = g_query_stream(g_asked, stream);
  if (done) card_is_done(stream);
  return done;
}

void memory_recorded(const void*, const c10::DataPtr& data, const c10::Stream& stream) {
  g_record_memory(g_asked, data, stream);
  if (card_ordering()) note(c10::kCUDA, [&] { card_memory_recorded(data.get(), stream); });
}

/// The handle of a stream, which PyTorch's CUDA library knows.
std::optional<Handle> handle_of(const c10::Stream& stream) {
  if (stream.id() == 0) return 0;
  if (simulating()) return stream_handle(stream.device_index(), stream.id());
  using Ask = void* (*)(const c10::Stream*);  // c10::cuda::CUDAStream::stream(), of a class that is a c10::Stream
  static const auto ask = [] {
    void* library = dlopen("libc10_cuda.so", RTLD_LAZY | RTLD_NOLOAD);
    return library == nullptr ? nullptr : reinterpret_cast<Ask>(dlsym(library, "_ZNK3c104cuda10CUDAStream6streamEv"));
  }();
  if (ask == nullptr) return std::nullopt;
  return reinterpret_cast<Handle>(ask(&stream));
}

c10::impl::VirtualGuardImpl card() { return c10::impl::VirtualGuardImpl(c10::kCUDA); }

std::function<bool()>& doubt() {
  static auto* one = new std::function<bool()>;
  return *one;
}

}  // namespace

void listen_to_card() {
  if (g_listening.exchange(true)) return;
  const PyInterpreterVTable* python = getPyInterpreter()->vtable_;
  static Patched<PyInterpreterVTable> listener;
  listener.copy(python);
  listener.replace(&PyInterpreterVTable::trace_gpu_event_creation, &event_created);
  listener.replace(&PyInterpreterVTable::trace_gpu_event_deletion, &event_deleted);
  listener.replace(&PyInterpreterVTable::trace_gpu_event_record, &event_recorded);
  listener.replace(&PyInterpreterVTable::trace_gpu_event_wait, &event_waited_for);
  listener.replace(&PyInterpreterVTable::trace_gpu_memory_allocation, &memory_allocated);
  listener.replace(&PyInterpreterVTable::trace_gpu_memory_deallocation, &memory_freed);
  listener.replace(&PyInterpreterVTable::trace_gpu_stream_creation, &stream_created);
  listener.replace(&PyInterpreterVTable::trace_gpu_device_synchronization, &device_synchronized);
  listener.replace(&PyInterpreterVTable::trace_gpu_stream_synchronization, &stream_synchronized);
  listener.replace(&PyInterpreterVTable::trace_gpu_event_synchronization, &event_synchronized);
  // PyTorch keeps the first listener for good. Where there is one, we take its place and pass everything on.
  if (c10::impl::GPUTrace::get_trace() != nullptr) pass_trace_on();
  static const c10::impl::PyInterpreter interpreter(listener.get());
  c10::impl::GPUTrace::set_trace(&interpreter);
  c10::impl::GPUTrace::gpuTraceState.store(&interpreter, std::memory_order_release);
}

void pass_trace_on() { g_next.store(getPyInterpreter()->vtable_, std::memory_order_release); }

void listen_to_guard(Patched<DeviceGuardImplInterface>* guard) {
  g_asked = c10::impl::device_guard_impl_registry[static_cast<size_t>(c10::kCUDA)].load();
  g_query_event = guard->replace(&DeviceGuardImplInterface::queryEvent, &event_asked);
  g_query_stream = guard->replace(&DeviceGuardImplInterface::queryStream, &stream_asked);
  g_record_memory = guard->replace(&DeviceGuardImplInterface::recordDataPtrOnStream, &memory_recorded);
}

bool hears_card() noexcept {
  // Before PyTorch 2.14 a listener stays; since then it can be sent away.
  return g_listening.load(std::memory_order_relaxed) && follows() && c10::impl::GPUTrace::get_trace() != nullptr;
}

void stop_card_order() noexcept {
  g_stopped.store(true);
  g_card_ordering.store(false);
}

bool card_order_is_stopped() noexcept { return g_stopped.load(); }

void set_order_doubt(std::function<bool()> one) { doubt() = std::move(one); }

bool order_is_in_doubt() {
  if (!follows()) return true;
  if (!doubt() || !doubt()()) return false;
  stop_card_order();
  return true;
}

int device_here() { return on_real_devices() ? card_device() : t_current_device; }
std::int64_t stream_here(int device) { return on_real_devices() ? card_stream(device).id() : current_stream(device); }

int card_device() { return card().getDevice().index(); }

c10::Stream card_stream(int device) {
  return card().getStream(c10::Device(c10::kCUDA, static_cast<c10::DeviceIndex>(device)));
}

std::optional<Lane> card_lane(const c10::Stream& stream) {
  thread_local struct {
    int device = -1;
    int64_t stream = 0;
    Lane lane = 0;
  } last;
  if (last.device == stream.device_index() && last.stream == stream.id()) return last.lane;
  const std::optional<Handle> handle = handle_of(stream);
  std::optional<Lane> lane;
  if (handle.has_value()) {
    lane = *handle == 0 ? lane_of(stream.device_index(), 0) : lane_of_handle(*handle);
  } else {
    stop_card_order();
  }
  if (!lane.has_value()) return std::nullopt;
  if (*handle != 0) name_lane(*lane, stream.id());
  last = {stream.device_index(), stream.id(), *lane};
  return lane;
}

std::optional<Lane> card_lane(int device) { return card_lane(card_stream(device)); }

void card_is_done(const c10::Stream& stream) {
  note(c10::kCUDA, [&] {
    if (const std::optional<Lane> lane = card_lane(stream)) host_waits_for(*lane);
  });
}

void card_event_is_done(std::uintptr_t event) {
  note(c10::kCUDA, [&] {
    if (const std::optional<order::Stamp> stamp = stamp_of(event)) host_waits_for(*stamp);
  });
}

void host_waits_for_cards() {
  note(c10::kCUDA, [] {
    const int devices = card().deviceCount();
    for (int device = 0; device < devices; ++device) host_waits_for_all_of(device);
  });
}

order::Time card_birth_time(int device) noexcept {
  if (!follows() || card_ordering() || device < 0) return 0;
  const order::Time time = g_default_time[static_cast<size_t>(device)].load(std::memory_order_relaxed);
  return time == 0 ? 1 : time;
}

}  // namespace locus::bridge
