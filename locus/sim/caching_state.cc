// What PyTorch's CUDA caching allocator does with blocks and segments: rounding, pools, splits, merges, and what is
// given back before memory runs out. Segments that grow: expandable_segments.cc. See caching_state.h.
#include "locus/sim/caching_state.h"

#include <algorithm>
#include <bit>
#include <iterator>
#include <new>
#include <vector>

namespace locus::sim {

using namespace caching;

/// The free block that is to be taken; the pool's end where there is none.
CachingModel::State::Pool::iterator CachingModel::State::best_fit(Pool& pool, std::size_t size, Lane lane) {
  const auto ours = [&](Pool::iterator at) { return at != pool.end() && at->lane == lane; };
  auto found = pool.lower_bound(FreeBlock{lane, size, 0, nullptr});
  if (!ours(found) || !found->block->expandable()) return ours(found) ? found : pool.end();
  if (!settings.expandable) {  // switched off since: those segments are left alone
    while (ours(found) && found->block->expandable()) ++found;
    return ours(found) ? found : pool.end();
  }
  // A block that can grow counts with what it can grow to: a larger one that can't may be the better fit.
  const auto could_be = [](const Block* b) {
    return b->size + (b->next != nullptr && !b->next->mapped ? b->next->size : 0);
  };
  for (auto next = std::next(found); found->block->expandable() && ours(next); ++next) {
    if (could_be(next->block) >= could_be(found->block)) break;
    found = next;
  }
  return found;
}

CachingModel::Block* CachingModel::State::take_free(std::size_t size, Lane lane) {
  Pool& pool = pool_of(size <= kSmallSize);
  if (size > kSmallSize) ++searches;  // each pool counts its own, and only large blocks are collected
  const auto found = best_fit(pool, size, lane);
  if (found == pool.end()) return nullptr;
  Block* block = found->block;
  if (size < settings.max_split && block->size >= settings.max_split) return nullptr;
  if (size >= settings.max_split && block->size >= size + settings.max_rounding) return nullptr;
  pool.erase(found);
  return block;
}

bool CachingModel::State::is_allowed(std::size_t bytes) const { return !limited || held() + bytes <= limit; }
bool CachingModel::State::card_has(std::size_t bytes) const { return bytes <= capacity && held() <= capacity - bytes; }

CachingModel::Block* CachingModel::State::ask_card(std::size_t size, Lane lane, bool beyond) {
  const std::size_t asked = segment_size(size, settings.large_segment);
  if (!beyond && !is_allowed(asked)) return nullptr;
  if (settings.expandable) return grow(size, lane, beyond);
  return beyond || card_has(asked) ? new_segment(asked, lane, size <= kSmallSize) : nullptr;
}

CachingModel::Block* CachingModel::State::new_segment(std::size_t bytes, Lane lane, bool is_small) {
  auto* segment = new (segment_cells.take()) Segment{addresses.take(bytes), bytes, lane, nullptr};
  segment->first =
      new (blocks.take()) Block{bytes, 0, segment->address, lane, segment, nullptr, nullptr, is_small, false};
  segments.insert(segment);
  count_segment(*segment, 1);
  increase(&MemoryStats::segment, is_small, 1);
  increase(&MemoryStats::reserved_bytes, is_small, static_cast<std::int64_t>(bytes));
  if (bytes >= settings.max_split) stats.oversize_segments.increase(1);
  ++stats.num_device_alloc;
  tell(TraceAction::kSegmentAlloc, segment->address, bytes, lane);
  return segment->first;
}

void CachingModel::State::release_segment(Block* block) {
  decrease(&MemoryStats::segment, block->small, 1);
  decrease(&MemoryStats::reserved_bytes, block->small, static_cast<std::int64_t>(block->size));
  ++stats.num_device_free;
  tell(TraceAction::kSegmentFree, block->address, block->size, block->lane);
  segments.erase(block->segment);
  count_segment(*block->segment, -1);
  addresses.give(block->address, block->size);
  segment_cells.give(block->segment);
  blocks.give(block);
}

/// Everybody's memory, or that of a pool that nobody uses any more; of one pool alone where `of` names it.
bool CachingModel::State::may_release(Lane lane, PoolId of) const {
  const PoolUse& pool = pools[lane.pool];
  const bool asked_for = of == PoolId{} || of == pool.id;
  return asked_for && pool.users == 0;
}

/// Gives back what is wholly free. A segment of which any part is in use stays; an expandable one gives back its pages.
void CachingModel::State::release_free_segments(PoolId of) {
  ++stats.num_sync_all_streams;
  std::vector<Block*> growing;  // giving pages back changes the pool
  for (Pool* pool : {&large, &small}) {
    growing.clear();
    for (auto at = pool->begin(); at != pool->end();) {
      const auto here = at++;
      if (!may_release(here->lane, of)) continue;
      if (here->block->expandable()) {
        growing.push_back(here->block);
      } else if (!here->block->split()) {
        release_free(*pool, here);
      }
    }
    for (Block* block : growing) unmap(block);
  }
}

void CachingModel::State::release_free(Pool& pool, Pool::iterator at) {
  Block* block = at->block;
  pool.erase(at);
  if (block->size >= settings.max_split) stats.oversize_segments.decrease(1);
  release_segment(block);
}

/// Gives back large free blocks, so that one request more fits; whether that is enough.
bool CachingModel::State::release_oversized(std::size_t asked, Lane lane) {
  if (settings.max_split == SIZE_MAX) return false;
  const std::size_t wanted = std::max(asked, settings.max_split);
  const auto enough = large.lower_bound(FreeBlock{lane, wanted, 0, nullptr});
  if (enough != large.end() && enough->lane == lane) {
    if (enough->block->expandable()) return false;
    release_free(large, enough);
    return true;
  }
  // None is large enough by itself: the largest ones first.
  std::size_t released = 0;
  while (released < wanted) {
    auto at = large.lower_bound(FreeBlock{lane, SIZE_MAX, 0, nullptr});
    if (at == large.begin()) return false;
    --at;
    if (at->lane != lane || at->size < settings.max_split || at->block->split() || at->block->expandable()) {
      return false;
    }
    released += at->size;
    release_free(large, at);
  }
  return true;
}

/// Gives back what was free for longest, until the share that is allowed is met.
void CachingModel::State::collect() {
  if (settings.collect_from == 0 || !limit_set) return;
  const auto threshold = static_cast<std::size_t>(settings.collect_from * static_cast<double>(limit));
  if (held() <= threshold) return;
  const std::size_t target = held() - threshold;
  std::size_t reclaimed = 0;
  double total_age = 0;
  int freeable = 0;
  for (const FreeBlock& each : large) {
    if (each.block->split() || each.block->expandable()) continue;
    total_age += static_cast<double>(searches - each.block->freed);
    ++freeable;
  }
  bool freed_one = true;
  while (reclaimed < target && freed_one && freeable > 0) {
    const double average = total_age / freeable;
    freed_one = false;
    for (auto at = large.begin(); at != large.end();) {
      Block* block = at->block;
      const auto age = static_cast<double>(searches - block->freed);
      const auto here = at++;
      if (block->split() || block->expandable() || age < average) continue;
      freed_one = true;
      reclaimed += block->size;
      total_age -= age;
      --freeable;
      release_free(large, here);
    }
  }
}

PoolUse* CachingModel::State::find_pool(PoolId id) {
  const auto found = std::find_if(pools.begin(), pools.end(), [id](const PoolUse& pool) { return pool.id == id; });
  return found != pools.end() ? &*found : nullptr;
}

std::uint32_t CachingModel::State::pool_number(PoolId id) {
  std::size_t place = pools.size();
  for (std::size_t i = 0; i < pools.size(); ++i) {
    if (pools[i].id == id) return static_cast<std::uint32_t>(i);
    if (i > 0 && pools[i].users == 0 && pools[i].segments == 0) place = i;  // of a pool that has gone
  }
  if (place == pools.size()) pools.emplace_back();
  pools[place] = {id, {}, 0, 0};
  return static_cast<std::uint32_t>(place);
}

/// A free block of a pool that may be used where there is nothing else.
CachingModel::Block* CachingModel::State::last_resort(std::size_t size, std::int64_t stream) {
  for (std::uint32_t i = 1; i < pools.size(); ++i) {
    if (!pools[i].options.last_resort || pools[i].users == 0) continue;
    if (Block* block = take_free(size, Lane{i, stream})) return block;
  }
  return nullptr;
}

/// Turns a free block that is no longer in its pool into an allocation; what is left over goes back.
CachingModel::Block* CachingModel::State::hand_out(Block* block, std::size_t size, std::size_t requested) {
  const bool is_small = block->small, was_split = block->split();
  const bool counted_as_split = !block->expandable();  // whose free pages can always be given back
  const std::size_t rest = block->size - size;
  const auto worth_splitting = [&] {
    if (pools[block->lane.pool].options.whole) return false;
    if (is_small || settings.expandable) return rest >= kMinBlock;
    return size < settings.max_split && rest > kSmallSize;
  };
  if (worth_splitting()) {
    Block* remaining = block;
    block = new (blocks.take()) Block{
        size, 0, remaining->address, remaining->lane, remaining->segment, remaining->prev, remaining, is_small, false};
    (block->prev != nullptr ? block->prev->next : block->segment->first) = block;
    remaining->prev = block;
    remaining->address += size;
    remaining->size -= size;
    pool_of(is_small).insert(key_of(remaining));
    if (was_split && counted_as_split) {
      decrease(&MemoryStats::inactive_split_bytes, is_small, static_cast<std::int64_t>(size));
    } else if (counted_as_split) {
      increase(&MemoryStats::inactive_split_bytes, is_small, static_cast<std::int64_t>(remaining->size));
      increase(&MemoryStats::inactive_split, is_small, 1);
    }
  } else if (was_split && counted_as_split) {
    decrease(&MemoryStats::inactive_split_bytes, is_small, static_cast<std::int64_t>(block->size));
    decrease(&MemoryStats::inactive_split, is_small, 1);
  }
  block->allocated = true;
  block->requested = requested;
  const auto counted = static_cast<std::int64_t>(block->size);
  increase(&MemoryStats::allocation, is_small, 1);
  increase(&MemoryStats::allocated_bytes, is_small, counted);
  increase(&MemoryStats::active, is_small, 1);
  increase(&MemoryStats::active_bytes, is_small, counted);
  increase(&MemoryStats::requested_bytes, is_small, static_cast<std::int64_t>(requested));
  if (block->size >= settings.max_split) stats.oversize_allocations.increase(1);
  tell(TraceAction::kAlloc, block->address, block->size, block->lane);
  publish();
  return block;
}

/// Makes a free neighbor part of the block; returns its size, 0 when it is in use or absent.
std::size_t CachingModel::State::merge(Block* block, Block* neighbor) {
  if (neighbor == nullptr || neighbor->allocated || neighbor->mapped != block->mapped) return 0;
  home_of(neighbor).erase(home_key_of(neighbor));
  if (block->prev == neighbor) {
    block->address = neighbor->address;
    block->prev = neighbor->prev;
    (block->prev != nullptr ? block->prev->next : block->segment->first) = block;
  } else {
    block->next = neighbor->next;
    if (block->next != nullptr) block->next->prev = block;
  }
  const std::size_t size = neighbor->size;
  block->size += size;
  blocks.give(neighbor);
  return size;
}

/// With roundup_power2_divisions, to one of so many steps between two powers of two.
std::size_t CachingModel::State::rounded(std::size_t bytes) const {
  const std::size_t power = static_cast<std::size_t>(std::bit_width(std::max(bytes, kMinBlock))) - 1;
  const std::size_t divisions = settings.divisions[std::clamp<std::size_t>(power, 20, 35) - 20];
  if (bytes < kMinBlock || divisions <= 1 || bytes <= kMinBlock * divisions) return rounded_size(bytes);
  const std::size_t floor = std::size_t{1} << power;
  if (bytes == floor) return bytes;
  const std::size_t step = floor / divisions;
  if (step == 0) return floor * 2;
  return (bytes + step - 1) / step * step;
}

}  // namespace locus::sim
