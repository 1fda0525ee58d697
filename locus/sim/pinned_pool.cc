// See pinned_pool.h.
#include "locus/sim/pinned_pool.h"

#include <bit>

namespace locus::sim {
namespace {

std::size_t power_of(std::size_t bytes) { return static_cast<std::size_t>(std::bit_width(bytes - 1)); }
std::int64_t bytes_of(std::size_t power) { return std::int64_t{1} << power; }

}  // namespace

void PinnedPool::take(std::size_t bytes) {
  const std::size_t power = power_of(bytes);
  if (kept_[power] > 0) {
    --kept_[power];
  } else {
    stats_.allocations.increase(1);
    stats_.allocated_bytes.increase(bytes_of(power));
  }
  stats_.active_requests.increase(1);
  stats_.active_bytes.increase(bytes_of(power));
}

void PinnedPool::give(std::size_t bytes) {
  const std::size_t power = power_of(bytes);
  ++kept_[power];
  stats_.active_requests.decrease(1);
  stats_.active_bytes.decrease(bytes_of(power));
}

void PinnedPool::empty() {
  for (std::size_t power = 0; power < kept_.size(); ++power) {
    stats_.allocations.decrease(kept_[power]);
    stats_.allocated_bytes.decrease(kept_[power] * bytes_of(power));
    kept_[power] = 0;
  }
}

void PinnedPool::reset_accumulated() {
  for (Stat* stat : {&stats_.allocations, &stats_.allocated_bytes, &stats_.active_requests, &stats_.active_bytes})
    stat->reset_accumulated();
}

void PinnedPool::reset_peak() {
  for (Stat* stat : {&stats_.allocations, &stats_.allocated_bytes, &stats_.active_requests, &stats_.active_bytes})
    stat->reset_peak();
}

}  // namespace locus::sim
