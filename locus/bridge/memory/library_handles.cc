// See library_handles.h.
#include "locus/bridge/memory/library_handles.h"

#include <array>
#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>
#include <vector>

#include "locus/sim/machine.h"

namespace locus::bridge {
namespace {

using sim::Library;

struct Pool {
  std::mutex mutex;
  std::vector<int> free;
  int made = 0;
};

size_t place_of(Library library, int device) {
  return static_cast<size_t>(library) * sim::kMaxDevices + static_cast<size_t>(device);
}
constexpr size_t kPlaces = static_cast<size_t>(sim::kLibraries) * sim::kMaxDevices;

Pool& pool_at(size_t place) {
  static auto* all = new std::array<Pool, kPlaces>;  // never destroyed: threads may end after exit handlers
  return (*all)[place];
}

struct Held {
  std::array<int, kPlaces> handles;
  Held() { handles.fill(-1); }
  ~Held() {
    for (size_t place = 0; place < kPlaces; ++place) {
      if (handles[place] < 0) continue;
      Pool& pool = pool_at(place);
      const std::lock_guard<std::mutex> lock(pool.mutex);
      pool.free.push_back(handles[place]);
    }
  }
};
thread_local Held t_held;

constexpr std::chrono::milliseconds kPatience{500};

/// The plans of Fourier transforms are the process's.
std::array<std::atomic<bool>, sim::kMaxDevices> g_transforms{};

}  // namespace

int library_handle(Library library, int device) {
  if (library == Library::kFourier) {
    g_transforms[static_cast<size_t>(device)].store(true, std::memory_order_relaxed);
    return 0;
  }
  const size_t place = place_of(library, device);
  int& held = t_held.handles[place];
  if (held >= 0) return held;
  Pool& pool = pool_at(place);
  const std::lock_guard<std::mutex> lock(pool.mutex);
  if (pool.free.empty()) return held = pool.made++;
  held = pool.free.back();
  pool.free.pop_back();
  return held;
}

bool has_library_handle(Library library, int device) {
  if (library == Library::kFourier) return g_transforms[static_cast<size_t>(device)].load(std::memory_order_relaxed);
  const size_t place = place_of(library, device);
  if (t_held.handles[place] >= 0) return true;
  Pool& pool = pool_at(place);
  const auto until = std::chrono::steady_clock::now() + kPatience;
  for (;;) {
    {
      const std::lock_guard<std::mutex> lock(pool.mutex);
      if (!pool.free.empty()) return true;
      if (pool.made == 0 || std::chrono::steady_clock::now() > until) return false;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

void set_up_libraries(const sim::LibraryUse& use, int device) {
  for (const Library library : {Library::kBlas, Library::kSolver, Library::kFourier}) {
    if (use.needs(library)) library_handle(library, device);
  }
}

}  // namespace locus::bridge
