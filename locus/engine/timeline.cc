// See timeline.h.
#include "locus/engine/timeline.h"

#include <algorithm>
#include <numeric>

namespace locus::engine {
namespace {

/// The fuller one: a peak that lasts must not be lost among what surrounds it.
const ByKind& fuller(const ByKind& one, const ByKind& other) {
  const auto sum = [](const ByKind& kinds) { return std::accumulate(kinds.begin(), kinds.end(), std::int64_t{0}); };
  return sum(one) > sum(other) ? one : other;
}

}  // namespace

void Timeline::close_point(std::int64_t total, std::int64_t step, std::int64_t events, const ByKind& kinds) noexcept {
  if (busy_.test_and_set(std::memory_order_acquire)) return;  // another thread closes it
  if (events >= due_.load(std::memory_order_relaxed)) {
    points_[count_++] = {low_.exchange(total, std::memory_order_relaxed),
                         high_.exchange(total, std::memory_order_relaxed), step, kinds};
    noted_ = events;
    if (count_ == kPoints) {
      for (std::size_t i = 0; i < kPoints / 2; ++i) {
        const Point &first = points_[2 * i], &second = points_[2 * i + 1];
        points_[i] = {std::min(first.low, second.low), std::max(first.high, second.high), second.step,
                      fuller(first.kinds, second.kinds)};
      }
      count_ = kPoints / 2;
      stride_ *= 2;
    }
    due_.store(events + stride_, std::memory_order_relaxed);
  }
  busy_.clear(std::memory_order_release);
}

std::vector<Timeline::Point> Timeline::points(std::int64_t step, const ByKind& kinds) {
  // Held for a few instructions at most; but a process that was forked meanwhile may find it held for ever.
  for (int tries = 0; tries < 1'000'000 && busy_.test_and_set(std::memory_order_acquire); ++tries) {
  }
  std::vector<Point> all(points_.begin(), points_.begin() + static_cast<std::ptrdiff_t>(count_));
  if (events_.load() > noted_) all.push_back({low_.load(), high_.load(), step, kinds});
  busy_.clear(std::memory_order_release);
  return all;
}

}  // namespace locus::engine
