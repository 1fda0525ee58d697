// How full a device was over a run, in a bounded number of points: when there is no room for another one, neighbors
// become one and a point stands for twice as much. Constant memory, a few nanoseconds a note, any thread.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "locus/engine/memory_kind.h"

namespace locus::engine {

class Timeline {
 public:
  static constexpr std::size_t kPoints = 256;
  struct Point {
    std::int64_t low = 0, high = 0;  ///< the least and the most that was in use
    std::int64_t step = 0;           ///< optimizer steps done when the point ended
    ByKind kinds{};                  ///< what it was for, at one moment of the point
    bool operator==(const Point&) const = default;
  };

  /// `total` is in use now, after an allocation or a free; `kinds` says what for, and is asked once a point.
  template <class Kinds>
  void note(std::int64_t total, std::int64_t step, const Kinds& kinds) noexcept {
    widen(total);
    const std::int64_t events = events_.fetch_add(1, std::memory_order_relaxed) + 1;
    if (events >= due_.load(std::memory_order_relaxed)) close_point(total, step, events, kinds());
  }
  void note(std::int64_t total, std::int64_t step) noexcept {
    note(total, step, [] { return ByKind{}; });
  }
  /// Notes so far.
  std::int64_t events() const { return events_.load(); }
  /// Oldest first; what is not a whole point yet is the last one.
  std::vector<Point> points(std::int64_t step, const ByKind& kinds = {});

 private:
  void widen(std::int64_t total) noexcept {
    std::int64_t seen = high_.load(std::memory_order_relaxed);
    while (total > seen && !high_.compare_exchange_weak(seen, total, std::memory_order_relaxed)) {
    }
    seen = low_.load(std::memory_order_relaxed);
    while (total < seen && !low_.compare_exchange_weak(seen, total, std::memory_order_relaxed)) {
    }
  }
  void close_point(std::int64_t total, std::int64_t step, std::int64_t events, const ByKind& kinds) noexcept;

  std::atomic<std::int64_t> high_{0}, low_{0}, events_{0}, due_{1};
  std::atomic_flag busy_ = ATOMIC_FLAG_INIT;
  std::int64_t stride_ = 1, noted_ = 0;
  std::size_t count_ = 0;
  std::array<Point, kPoints> points_{};
};

}  // namespace locus::engine
