// What PyTorch's caching allocator of pinned host memory would hold: blocks of powers of two, kept after they are given
// back, used again for requests of the same size. Bookkeeping only: it hands out no memory. Not thread-safe.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "locus/sim/caching_model.h"

namespace locus::sim {

/// The counters of torch.cuda.host_memory_stats(). What the allocator owns, and what of it callers have.
struct PinnedStats {
  Stat allocations, allocated_bytes, active_requests, active_bytes;
};

class PinnedPool {
 public:
  /// A request of so many bytes, which is not none.
  void take(std::size_t bytes);
  /// What take() was asked for is given back. On a simulated device no copy is still at work on it then.
  void give(std::size_t bytes);
  /// Blocks that nobody has go back to the system.
  void empty();

  const PinnedStats& stats() const noexcept { return stats_; }
  void reset_accumulated();
  void reset_peak();

 private:
  std::array<std::int64_t, 64> kept_{};  ///< free blocks, by the power of two that they have
  PinnedStats stats_;
};

}  // namespace locus::sim
