// The free spans of one part of a slice: runs of neighboring spans, best fit, merged when they meet.
// Knows which runs still hold pages (dirty) and prefers them; it neither locks nor calls the kernel.
#pragma once

#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include "locus/sim/arena_span.h"

namespace locus::sim::detail {

class SpanPool {
 public:
  struct Run {
    std::uint32_t first = kNoSpan, count = 0;
    std::uint32_t dirty = 0;  ///< how many of the spans may hold pages
  };

  /// All of [first, first + count) is free and clean. `spans` is the machine's table.
  void open(Span* spans, std::uint32_t first, std::uint32_t count);

  /// A run of exactly `count` spans; first == kNoSpan when there is none.
  Run take(std::uint32_t count);
  /// Takes a run back and merges it with neighbors of its kind.
  void give(std::uint32_t first, std::uint32_t count, bool dirty);
  /// Removes all dirty runs; the caller drops their pages and gives them back clean.
  std::vector<Run> take_dirty();

  std::uint32_t free_spans() const noexcept { return free_spans_; }
  std::uint32_t begin() const noexcept { return first_; }
  std::uint32_t end() const noexcept { return end_; }

 private:
  using Index = std::set<std::pair<std::uint32_t, std::uint32_t>>;  // (count, first): smallest, then lowest
  Index& index(RunState state) noexcept { return state == RunState::kDirty ? dirty_ : clean_; }
  Run take_from(RunState state, std::uint32_t count);
  void insert(std::uint32_t first, std::uint32_t count, RunState state);

  Span* spans_ = nullptr;
  std::uint32_t first_ = 0, end_ = 0, free_spans_ = 0;
  Index dirty_, clean_;
};

}  // namespace locus::sim::detail
