// See real.h. Hot path: a look-up for each operand, a note for each result.
#include "locus/bridge/door/real.h"

#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <c10/util/ThreadLocalDebugInfo.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <torch/csrc/profiler/orchestration/observer.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <mutex>

#include "locus/bridge/door/door.h"
#include "locus/bridge/door/watch.h"
#include "locus/bridge/memory/memory.h"
#include "locus/bridge/memory/purpose.h"
#include "locus/bridge/streams/card_calls.h"
#include "locus/bridge/streams/pending.h"
#include "locus/engine/intern.h"

namespace locus::bridge {

std::atomic<bool> g_real{false};

namespace {

using torch::profiler::impl::ActiveProfilerType;
using torch::profiler::impl::ProfilerConfig;
using torch::profiler::impl::ProfilerState;
using torch::profiler::impl::ProfilerStateBase;

/// One address. A writer clears the address first, so that a reader never takes another's origin for its own.
struct Entry {
  std::atomic<std::uintptr_t> address{0};
  std::atomic<engine::OriginId> origin{0};
  std::atomic<order::Time> born{0};
};
constexpr std::size_t kEntries = std::size_t{1} << 19;  // 8 MiB; a training holds some ten thousand tensors
constexpr std::size_t kWays = 4;
std::array<Entry, kEntries> g_by_address;

std::size_t first_way(std::uintptr_t address) { return engine::mix(address >> 4) & (kEntries - 1) & ~(kWays - 1); }

/// Bytes that PyTorch's allocator has given out, by address: who is charged for them.
struct Charge {
  std::atomic<std::uintptr_t> address{0};
  std::atomic<engine::SiteId> site{0};
  std::atomic<std::int64_t> bytes{0};
  std::atomic<engine::MemoryByLine::Mark> mark{};
};
constexpr std::size_t kCharges = std::size_t{1} << 17;
constexpr std::size_t kProbes = 16;
std::array<Charge, kCharges> g_charges;
std::array<std::atomic<std::int64_t>, sim::kMaxDevices> g_allocated{};
std::array<std::atomic<std::int64_t>, sim::kMaxDevices> g_peak{};

void charge(std::uintptr_t address, int device, std::int64_t bytes) {
  const engine::SiteId site = current_site();
  for (std::size_t i = 0; i < kProbes; ++i) {
    Charge& slot = g_charges[(engine::mix(address >> 4) + i) & (kCharges - 1)];
    std::uintptr_t empty = 0;
    if (!slot.address.compare_exchange_strong(empty, address) && empty != address) continue;
    if (empty == address) {  // freed where nobody looked: on a thread that is not followed
      memory_by_line(device).freeing(slot.site.load(), slot.bytes.load(), 0, slot.mark.load());
    }
    slot.site.store(site, std::memory_order_relaxed);
    slot.bytes.store(bytes, std::memory_order_relaxed);
    slot.mark.store(memory_by_line(device).allocated(site, bytes, kind_of_new_memory()), std::memory_order_relaxed);
    return;
  }
}

Charge* charge_at(std::uintptr_t address) {
  for (std::size_t i = 0; i < kProbes; ++i) {
    Charge& slot = g_charges[(engine::mix(address >> 4) + i) & (kCharges - 1)];
    if (slot.address.load(std::memory_order_acquire) == address) return &slot;
  }
  return nullptr;
}

void release(std::uintptr_t address, int device, std::int64_t total_before) {
  Charge* slot = charge_at(address);
  if (slot == nullptr) return;
  memory_by_line(device).freeing(slot->site.load(), slot->bytes.load(), total_before, slot->mark.load());
  slot->address.store(0, std::memory_order_release);
}

/// PyTorch's allocators tell the profiler's state of each allocation. This one is a profiler that is switched off, so
/// that a real profiler can be started and stopped above it.
class MemoryFollower final : public ProfilerStateBase {
 public:
  MemoryFollower() : ProfilerStateBase(ProfilerConfig(ProfilerState::Disabled)) {}
  void reportMemoryUsage(void* pointer, int64_t bytes, size_t total, size_t, c10::Device device) override {
    if (!device.is_cuda() || device.index() < 0 || device.index() >= sim::kMaxDevices) return;
    const int index = device.index();
    const auto now = static_cast<std::int64_t>(total);
    g_allocated[index].store(now, std::memory_order_relaxed);
    note_in_timeline(index, now);
    const auto address = reinterpret_cast<std::uintptr_t>(pointer);
    if (bytes < 0) return release(address, index, now - bytes);
    charge(address, index, bytes);
    std::int64_t peak = g_peak[index].load(std::memory_order_relaxed);
    while (now > peak && !g_peak[index].compare_exchange_weak(peak, now)) {
    }
  }
  bool memoryProfilingEnabled() const override { return true; }
  ActiveProfilerType profilerType() override { return ActiveProfilerType::NONE; }
};

/// What crosses over: of a sparse tensor, its values.
std::int64_t bytes_of(const at::Tensor& t) {
  const std::int64_t numbers = t.is_sparse() ? t._nnz() : t.numel();
  return numbers * static_cast<std::int64_t>(t.itemsize());
}

const c10::impl::DeviceGuardImplInterface* g_guard = nullptr;
c10::Device (*g_exchange_device)(const void*, c10::Device) = nullptr;

c10::Device exchange_device(const void*, c10::Device device) {
  is_unseen();
  return g_exchange_device(g_guard, device);
}

/// Stands in the place of PyTorch's device guard, which every operator's wrapper asks for its device.
void see_guard() {
  auto& place = c10::impl::device_guard_impl_registry[static_cast<size_t>(c10::kCUDA)];
  static Patched<c10::impl::DeviceGuardImplInterface> guard;
  g_guard = place.load();
  if (g_guard == nullptr) return;
  guard.copy(g_guard);
  g_exchange_device = guard.replace(&c10::impl::DeviceGuardImplInterface::exchangeDevice, &exchange_device);
  listen_to_guard(&guard);
  place.store(guard.get());
}

std::mutex g_late_mutex;
std::vector<std::pair<std::string, int>>& late() {
  static auto* threads = new std::vector<std::pair<std::string, int>>;
  return *threads;
}

auto follower_kind() { return c10::DebugInfoKind::PROFILER_STATE; }
thread_local bool t_following = false;

}  // namespace

void use_real_devices() {
  if (g_real.exchange(true)) return;
  install_host_allocator();
  see_guard();
  see_in_place();
  listen_to_card();
}

std::vector<std::pair<std::string, int>> late_threads() {
  const std::lock_guard lock(g_late_mutex);
  return late();
}

void note_late_thread() {
  char name[16] = "";
  pthread_getname_np(pthread_self(), name, sizeof name);
  // Autograd's own tidy up after a pass, when they have given back the state of the thread they worked for.
  if (std::strncmp(name, "pt_autograd", 11) == 0) return;
  const std::lock_guard lock(g_late_mutex);
  constexpr size_t kMost = 100;
  if (late().size() < kMost) late().emplace_back(name, static_cast<int>(syscall(SYS_gettid)));
}

engine::OriginId origin_at(const void* pointer) noexcept {
  const auto address = reinterpret_cast<std::uintptr_t>(pointer);
  const std::size_t first = first_way(address);
  for (std::size_t i = 0; i < kWays; ++i) {
    const Entry& entry = g_by_address[first + i];
    if (entry.address.load(std::memory_order_acquire) != address) continue;
    const engine::OriginId origin = entry.origin.load(std::memory_order_relaxed);
    return entry.address.load(std::memory_order_acquire) == address ? origin : 0;
  }
  return 0;
}

order::Time birth_at(const void* pointer) noexcept {
  const auto address = reinterpret_cast<std::uintptr_t>(pointer);
  const std::size_t first = first_way(address);
  for (std::size_t i = 0; i < kWays; ++i) {
    const Entry& entry = g_by_address[first + i];
    if (entry.address.load(std::memory_order_acquire) == address) return entry.born.load(std::memory_order_relaxed);
  }
  return 0;
}

void set_birth_at(const void* pointer, order::Time time) noexcept {
  const auto address = reinterpret_cast<std::uintptr_t>(pointer);
  const std::size_t first = first_way(address);
  for (std::size_t i = 0; i < kWays; ++i) {
    Entry& entry = g_by_address[first + i];
    if (entry.address.load(std::memory_order_acquire) == address) entry.born.store(time, std::memory_order_relaxed);
  }
}

void set_origin_at(const void* pointer, engine::OriginId origin) noexcept {
  const auto address = reinterpret_cast<std::uintptr_t>(pointer);
  const std::size_t first = first_way(address);
  Entry* place = nullptr;
  for (std::size_t i = 0; i < kWays && place == nullptr; ++i) {
    const std::uintptr_t have = g_by_address[first + i].address.load(std::memory_order_relaxed);
    if (have == address || have == 0) place = &g_by_address[first + i];
  }
  if (place == nullptr) place = &g_by_address[first + (address >> 9) % kWays];
  if (place->address.load(std::memory_order_relaxed) != address) {
    place->address.store(0, std::memory_order_release);
    place->born.store(0, std::memory_order_relaxed);
  }
  place->origin.store(origin, std::memory_order_relaxed);
  place->address.store(address, std::memory_order_release);
}

RealCrossing::RealCrossing(const Call& call) : plan_(call.plan) {
  const at::Tensor& first = call.stack[call.base].toTensor();
  from_ = to_ = first.device();
  if (plan_.copies) {
    const at::Tensor& source = call.stack[call.base + 1].toTensor();
    from_ = source.device();
    bytes_ = bytes_of(source);
    non_blocking_ = call.stack[call.base + 2].toBool();
    if (non_blocking_ && from_ != to_) pinned_ = (from_.is_cpu() ? source : first).is_pinned();
  } else if (plan_.moves) {
    const c10::IValue& device = call.stack[call.base + 3];  // self, dtype, layout, device, pin_memory, non_blocking
    if (device.isDevice()) to_ = device.toDevice();
    bytes_ = bytes_of(first);
    non_blocking_ = call.stack[call.base + 5].toBool();
    if (non_blocking_ && from_.is_cpu()) pinned_ = first.is_pinned();
  }
  if (non_blocking_ && from_.is_cuda() && to_.is_cpu() && (pinned_ || plan_.moves) &&
      g_judging.load(std::memory_order_relaxed)) {
    follows_ = follow_copy(from_.index());
  }
  began_ = std::chrono::steady_clock::now();
}

void RealCrossing::note(const torch::jit::Stack& stack) const {
  const auto time =
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() - began_).count();
  if (follows_) {
    const at::Tensor& host = stack.back().toTensor();
    if (host.device().is_cpu() && host.is_pinned()) note_pending(host, from_.index());
  }
  c10::Device to = to_;
  if (plan_.moves && !stack.empty() && stack.back().isTensor()) to = stack.back().toTensor().device();
  if (plan_.synchronizes) {
    if (from_.is_cuda()) note_synchronization(from_.index(), plan_.number, time);
  } else if (to != from_) {
    note_real_transfer(from_, to, bytes_, non_blocking_, pinned_, time);
    if (from_.is_cpu() && stack.back().isTensor() && stack.back().toTensor().has_storage()) {
      is_for(*stack.back().toTensor().storage().unsafeGetStorageImpl(), engine::MemoryKind::kData);
    }
  }
}

void follow_memory(bool follow) {
  if (follow == t_following) return;
  t_following = follow;
  if (follow) {
    c10::ThreadLocalDebugInfo::_push(follower_kind(), std::make_shared<MemoryFollower>());
  } else if (dynamic_cast<MemoryFollower*>(c10::ThreadLocalDebugInfo::get(follower_kind())) != nullptr) {
    c10::ThreadLocalDebugInfo::_pop(follower_kind());
  }
}

void is_for_at(const void* address, int device, engine::MemoryKind kind) noexcept {
  Charge* slot = charge_at(reinterpret_cast<std::uintptr_t>(address));
  if (slot == nullptr) return;
  engine::MemoryByLine::Mark mark = slot->mark.load();
  if (!may_become(mark.kind, kind)) return;
  memory_by_line(device).change(slot->site.load(), slot->bytes.load(), mark, kind);
  slot->mark.store(mark);
}

std::int64_t real_peak(int device) noexcept { return g_peak[device].load(); }
std::int64_t real_allocated(int device) noexcept { return g_allocated[device].load(); }

}  // namespace locus::bridge
