// The caching model as others see it: allocations, frees, counters, snapshots. What happens inside: caching_state.h.
#include "locus/sim/caching_model.h"

#include <algorithm>

#include "locus/sim/caching_state.h"

namespace locus::sim {

using namespace caching;

CachingModel::CachingModel(int device, std::size_t capacity_bytes)
    : state_(std::make_unique<State>(device, capacity_bytes)) {}

void CachingModel::configure(const AllocatorSettings& settings) {
  const std::lock_guard guard(state_->mutex);
  state_->settings = settings;
  state_->stats.max_split_size = settings.max_split == SIZE_MAX ? -1 : static_cast<std::int64_t>(settings.max_split);
}

AllocatorSettings CachingModel::settings() const {
  const std::lock_guard guard(state_->mutex);
  return state_->settings;
}

CachingModel::~CachingModel() = default;

std::size_t CachingModel::rounded_size(std::size_t bytes) {
  return bytes < kMinBlock ? kMinBlock : (bytes + kMinBlock - 1) / kMinBlock * kMinBlock;
}

std::size_t CachingModel::size_of(const Block* block) noexcept { return block->size; }
std::uint64_t CachingModel::address_of(const Block* block) noexcept { return block->address; }

CachingModel::Block* CachingModel::allocate(std::size_t bytes, std::int64_t stream, OutOfMemory* why, PoolId pool) {
  State& s = *state_;
  const std::lock_guard guard(s.mutex);
  const Lane lane{pool == PoolId{} ? 0 : s.pool_number(pool), stream};
  // Beyond an exabyte PyTorch refuses before it looks (and before it counts); the sums below would overflow.
  const bool absurd = bytes >= kExabyte;
  const std::size_t size = absurd ? bytes : s.rounded(bytes),
                    asked = absurd ? bytes : segment_size(size, s.settings.large_segment);
  Block* block = nullptr;
  if (!absurd) {
    block = s.take_free(size, lane);
    if (block == nullptr) {
      s.collect();
      block = s.ask_card(size, lane);
    }
    if (block == nullptr && s.release_oversized(asked, lane)) {
      block = s.ask_card(size, lane);
    }
    if (block == nullptr) {
      s.release_free_segments();
      ++s.stats.num_alloc_retries;
      block = s.ask_card(size, lane);
    }
    if (block == nullptr) block = s.last_resort(size, stream);
    if (block != nullptr) return s.hand_out(block, size, bytes);
    ++s.stats.num_ooms;
    const auto left = static_cast<std::int64_t>(s.capacity) - s.stats.reserved_bytes.all.current;
    s.tell(TraceAction::kOutOfMemory, 0, asked, lane, left);
    s.publish();
  }
  if (why != nullptr) {
    const auto reserved = static_cast<std::size_t>(s.stats.reserved_bytes.all.current);
    *why = {asked,
            s.capacity,
            s.capacity - std::min(s.capacity, reserved),
            static_cast<std::size_t>(s.stats.allocated_bytes.all.current),
            reserved,
            s.limited ? s.limit : 0,
            s.device};
  }
  return nullptr;
}

CachingModel::Block* CachingModel::allocate_beyond(std::size_t bytes, std::int64_t stream, PoolId pool) {
  State& s = *state_;
  const std::lock_guard guard(s.mutex);
  const Lane lane{pool == PoolId{} ? 0 : s.pool_number(pool), stream};
  const std::size_t size = s.rounded(bytes);
  Block* block = s.take_free(size, lane);
  if (block == nullptr) block = s.ask_card(size, lane, /*beyond=*/true);
  return s.hand_out(block, size, bytes);
}

void CachingModel::free(Block* block) noexcept {
  if (block == nullptr) return;
  State& s = *state_;
  const std::lock_guard guard(s.mutex);
  const bool is_small = block->small;
  const auto counted = static_cast<std::int64_t>(block->size), requested = static_cast<std::int64_t>(block->requested);
  block->allocated = false;
  s.decrease(&MemoryStats::allocation, is_small, 1);
  s.decrease(&MemoryStats::allocated_bytes, is_small, counted);
  if (block->size >= s.settings.max_split) s.stats.oversize_allocations.decrease(1);
  block->freed = s.searches;
  s.tell(TraceAction::kFreeRequested, block->address, block->size, block->lane);
  s.tell(TraceAction::kFreeCompleted, block->address, block->size, block->lane);  // no stream is waited for
  // The neighbors' share of inactive_split is counted as one net change, as PyTorch does: its peaks depend on it.
  std::int64_t split_blocks = 0, split_bytes = 0;
  for (Block* neighbor : {block->prev, block->next}) {
    const std::size_t merged = s.merge(block, neighbor);
    if (merged == 0) continue;
    split_blocks -= 1;
    split_bytes -= static_cast<std::int64_t>(merged);
  }
  s.pool_of(is_small).insert(State::key_of(block));
  if (block->split()) {
    split_blocks += 1;
    split_bytes += static_cast<std::int64_t>(block->size);
  }
  if (!block->expandable()) {
    s.change(&MemoryStats::inactive_split, is_small, split_blocks);
    s.change(&MemoryStats::inactive_split_bytes, is_small, split_bytes);
  }
  s.decrease(&MemoryStats::active, is_small, 1);
  s.decrease(&MemoryStats::active_bytes, is_small, counted);
  s.decrease(&MemoryStats::requested_bytes, is_small, requested);
  s.publish();
}

void CachingModel::empty_cache(PoolId pool) {
  const std::lock_guard guard(state_->mutex);
  state_->release_free_segments(pool);
  state_->publish();
}

void CachingModel::hold_pool(PoolId pool, PoolOptions options) {
  const std::lock_guard guard(state_->mutex);
  PoolUse& use = state_->pools[state_->pool_number(pool)];
  if (use.users++ == 0) use.options = options;
}

void CachingModel::release_pool(PoolId pool) {
  const std::lock_guard guard(state_->mutex);
  PoolUse* use = state_->find_pool(pool);
  if (use != nullptr && use->users > 0) --use->users;
}

PoolId CachingModel::pool_of(const Block* block) const {
  const std::lock_guard guard(state_->mutex);
  return state_->pools[block->lane.pool].id;
}

int CachingModel::pool_users(PoolId pool) const {
  const std::lock_guard guard(state_->mutex);
  const PoolUse* use = state_->find_pool(pool);
  return use != nullptr ? use->users : 0;
}

namespace {

template <class F>
void for_each_stat(MemoryStats& stats, F visit) {
  for (StatArray* array :
       {&stats.allocation, &stats.segment, &stats.active, &stats.inactive_split, &stats.allocated_bytes,
        &stats.reserved_bytes, &stats.active_bytes, &stats.inactive_split_bytes, &stats.requested_bytes}) {
    visit(array->all), visit(array->small_pool), visit(array->large_pool);
  }
  visit(stats.oversize_allocations), visit(stats.oversize_segments);
}

}  // namespace

void CachingModel::reset_peak() {
  const std::lock_guard guard(state_->mutex);
  for_each_stat(state_->stats, [](Stat& stat) { stat.reset_peak(); });
  state_->publish();
}

void CachingModel::reset_accumulated() {
  const std::lock_guard guard(state_->mutex);
  MemoryStats& stats = state_->stats;
  for_each_stat(stats, [](Stat& stat) { stat.reset_accumulated(); });
  stats.num_alloc_retries = stats.num_ooms = stats.num_sync_all_streams = 0;
  stats.num_device_alloc = stats.num_device_free = 0;
}

void CachingModel::set_fraction(double fraction) {
  const std::lock_guard guard(state_->mutex);
  state_->fraction = fraction;
  state_->limit = static_cast<std::size_t>(fraction * static_cast<double>(state_->capacity));
  state_->limit_set = true;
  state_->limited = fraction < 1.0;  // all of the card is no limit, and PyTorch then says nothing of one
}

double CachingModel::fraction() const {
  const std::lock_guard guard(state_->mutex);
  return state_->fraction;
}

MemoryStats CachingModel::stats() const {
  const std::lock_guard guard(state_->mutex);
  return state_->stats;
}

std::int64_t CachingModel::allocated() const noexcept { return state_->allocated.load(std::memory_order_relaxed); }
std::int64_t CachingModel::peak_allocated() const noexcept { return state_->peak.load(std::memory_order_relaxed); }
std::int64_t CachingModel::reserved() const noexcept { return state_->reserved.load(std::memory_order_relaxed); }
std::size_t CachingModel::capacity() const noexcept { return state_->capacity; }
std::size_t CachingModel::free_bytes() const noexcept {
  return capacity() - std::min(capacity(), static_cast<std::size_t>(reserved()));
}

std::vector<CachingModel::SnapshotSegment> CachingModel::snapshot() {
  const std::lock_guard guard(state_->mutex);
  MemoryTrace& trace = state_->trace;
  std::vector<SnapshotSegment> result;
  result.reserve(state_->segments.size());
  for (const Segment* segment : state_->segments) {
    const Block* block = segment->first;
    while (block != nullptr) {
      if (!block->mapped) {
        block = block->next;
        continue;
      }
      // Of an expandable segment each range that has memory is one.
      SnapshotSegment entry{block->address,
                            0,
                            0,
                            0,
                            state_->pools[segment->lane.pool].id,
                            segment->lane.stream,
                            !block->small,
                            segment->expandable(),
                            trace.maker(block->address, true),
                            {}};
      for (; block != nullptr && block->mapped; block = block->next) {
        entry.blocks.push_back({block->size, block->allocated ? block->requested : 0, block->address, block->allocated,
                                block->allocated ? trace.maker(block->address, false) : 0});
        entry.total += block->size;
        if (block->allocated) entry.allocated += block->size, entry.active += block->size;
      }
      result.push_back(std::move(entry));
    }
  }
  state_->tell(TraceAction::kSnapshot, 0, state_->held(), {});
  return result;
}

void CachingModel::record(const TraceOptions& options) {
  const std::lock_guard guard(state_->mutex);
  state_->trace.record(options);
}

bool CachingModel::recording() const {
  const std::lock_guard guard(state_->mutex);
  return state_->trace.on();
}

std::vector<TraceEntry> CachingModel::trace() const {
  const std::lock_guard guard(state_->mutex);
  return state_->trace.entries();
}

}  // namespace locus::sim
