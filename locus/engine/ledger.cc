// See ledger.h.
#include "locus/engine/ledger.h"

#include <algorithm>

namespace locus::engine {

void MemoryByLine::take_snapshot(std::int64_t total) {
  if (busy_.test_and_set(std::memory_order_acquire)) return;  // another thread is at it; its picture will do
  if (total > peak_.load()) {
    peak_.store(total);
    snapshot_.clear();
    const SiteId last = highest_.load();
    for (SiteId site = 0; site <= last; ++site) {
      const std::int64_t bytes = live_[site].bytes.load(std::memory_order_relaxed);
      if (bytes > 0) snapshot_.push_back({site, bytes, live_[site].count.load(std::memory_order_relaxed)});
    }
  }
  busy_.clear(std::memory_order_release);
}

std::vector<MemoryByLine::Line> MemoryByLine::at_peak(std::int64_t total) {
  if (total > peak_.load()) take_snapshot(total);
  std::vector<Line> lines = snapshot_;
  std::sort(lines.begin(), lines.end(), [](const Line& a, const Line& b) { return a.bytes > b.bytes; });
  return lines;
}

}  // namespace locus::engine
