// See pools.h.
#include "locus/bridge/memory/pools.h"

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <atomic>
#include <iterator>
#include <utility>
#include <vector>

#include "locus/bridge/memory/memory.h"
#include "locus/bridge/python/module.h"
#include "locus/bridge/state.h"
#include "locus/bridge/streams/graphs.h"

namespace py = pybind11;

namespace locus::bridge {
namespace {

std::atomic<int64_t> g_handles{0};

/// The pools that this thread's `with torch.cuda.use_mem_pool(…)` name, by device; the innermost last.
thread_local std::vector<std::pair<int, sim::PoolId>> t_used;
constinit thread_local bool t_uses_pools = false;  // asked for each allocation, and cheaper

/// torch.cuda.MemPool. Gone with it, what is free in it goes back to the card.
class MemoryPool {
 public:
  MemoryPool(int device, bool last_resort, bool whole) : device_(device), id_(new_pool()) {
    machine().memory(device).hold_pool(id_, {last_resort, whole});
  }
  MemoryPool(const MemoryPool&) = delete;
  MemoryPool& operator=(const MemoryPool&) = delete;
  ~MemoryPool() {
    if (in_bad_fork()) return;
    machine().memory(device_).release_pool(id_);
    for (int i = 0; i < machine().devices(); ++i) machine().memory(i).empty_cache(id_);
  }

  sim::PoolId id() const { return id_; }
  int users() const { return machine().memory(device_).pool_users(id_); }
  void enter(int device) const {
    machine().memory(device).hold_pool(id_);
    t_used.emplace_back(device, id_);
    t_uses_pools = true;
  }
  void leave(int device) const {
    const auto at = std::find(t_used.rbegin(), t_used.rend(), std::pair(device, id_));
    if (at != t_used.rend()) t_used.erase(std::next(at).base());
    t_uses_pools = !t_used.empty();
    machine().memory(device).release_pool(id_);
  }

 private:
  int device_;
  sim::PoolId id_;
};

}  // namespace

sim::PoolId new_pool() { return {0, ++g_handles}; }

sim::PoolId current_pool(int device, int64_t stream) {
  const sim::PoolId of_graph = capturing() ? capture_memory({}, device, stream) : sim::PoolId{};
  if (of_graph != sim::PoolId{} || !t_uses_pools) return of_graph;
  for (auto at = t_used.rbegin(); at != t_used.rend(); ++at) {
    if (at->first == device) return at->second;
  }
  return {};
}

void define_pools(py::module_& m) {
  m.def("new_pool", &new_pool);
  py::class_<MemoryPool>(m, "MemoryPool")
      .def(py::init<int, bool, bool>())
      .def("id", &MemoryPool::id)
      .def("users", &MemoryPool::users)
      .def("enter", &MemoryPool::enter)
      .def("leave", &MemoryPool::leave);
}

}  // namespace locus::bridge
