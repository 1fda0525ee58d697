// Best-fit, coalescing lists of free spans. Dirty and clean runs are kept apart, because a dirty run
// costs no page faults when it is used again. No locks, no system calls here.
#include "locus/sim/span_pool.h"

namespace locus::sim::detail {

void SpanPool::open(Span* spans, std::uint32_t first, std::uint32_t count) {
  spans_ = spans;
  first_ = first;
  end_ = first + count;
  if (count == 0) return;
  free_spans_ = count;
  insert(first, count, RunState::kClean);
}

void SpanPool::insert(std::uint32_t first, std::uint32_t count, RunState state) {
  // Only the two ends of a run are marked: nobody ever looks at a span in the middle of a free run.
  Span& head = spans_[first];
  Span& tail = spans_[first + count - 1];
  head.run_state = tail.run_state = state;
  head.run_count = tail.run_count = count;
  index(state).emplace(count, first);
}

SpanPool::Run SpanPool::take_from(RunState state, std::uint32_t count) {
  Index& runs = index(state);
  const auto best = runs.lower_bound({count, 0});
  if (best == runs.end()) return {};
  const auto [run_count, first] = *best;
  runs.erase(best);
  spans_[first].run_state = spans_[first + count - 1].run_state = RunState::kUsed;
  if (run_count > count) insert(first + count, run_count - count, state);
  free_spans_ -= count;
  return {first, count, state == RunState::kDirty ? count : 0};
}

SpanPool::Run SpanPool::take(std::uint32_t count) {
  const Run run = take_from(RunState::kDirty, count);
  return run.first != kNoSpan ? run : take_from(RunState::kClean, count);
}

void SpanPool::give(std::uint32_t first, std::uint32_t count, bool dirty) {
  const RunState state = dirty ? RunState::kDirty : RunState::kClean;
  free_spans_ += count;
  if (first > first_ && spans_[first - 1].run_state == state) {
    const std::uint32_t before = spans_[first - 1].run_count;
    index(state).erase({before, first - before});
    first -= before;
    count += before;
  }
  if (first + count < end_ && spans_[first + count].run_state == state) {
    const std::uint32_t after = spans_[first + count].run_count;
    index(state).erase({after, first + count});
    count += after;
  }
  insert(first, count, state);
}

std::vector<SpanPool::Run> SpanPool::take_dirty() {
  std::vector<Run> runs;
  runs.reserve(dirty_.size());
  for (const auto& [count, first] : dirty_) {
    spans_[first].run_state = spans_[first + count - 1].run_state = RunState::kUsed;
    free_spans_ -= count;
    runs.push_back({first, count, count});
  }
  dirty_.clear();
  return runs;
}

}  // namespace locus::sim::detail
