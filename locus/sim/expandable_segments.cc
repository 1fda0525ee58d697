// Expandable segments: one for each pool and stream, with addresses for more than the card has. Memory is put behind
// them a page at a time, where it is needed, and taken away again. See caching_state.h.
#include <algorithm>

#include "locus/sim/caching_state.h"

namespace locus::sim {

using namespace caching;

namespace {

std::size_t round_up(std::size_t bytes, std::size_t page) { return (bytes + page - 1) / page * page; }

}  // namespace

/// A free block of at least `size`, out of the pools, after the card has given what was missing; nullptr where it
/// can't.
CachingModel::Block* CachingModel::State::grow(std::size_t size, Lane lane, bool beyond) {
  Block* block = room_for(size, lane, size <= kSmallSize);
  if (!block->mapped && !map(block, std::min(block->size, size), beyond)) return nullptr;
  while (block->size < size) {  // free, then addresses without memory; both become one
    Block* next = block->next;
    if (!map(next, std::min(size - block->size, next->size), beyond)) return nullptr;
    block = next;
  }
  pool_of(block->small).erase(key_of(block));
  return block;
}

/// The lowest addresses with room: without memory, or free with some behind them that have none.
CachingModel::Block* CachingModel::State::room_for(std::size_t size, Lane lane, bool is_small) {
  Pool& unmapped = is_small ? small_unmapped : large_unmapped;
  const auto usable = [](const Block* b) { return b != nullptr && !b->allocated; };
  for (auto at = unmapped.lower_bound(FreeBlock{lane, 0, 0, nullptr}); at != unmapped.end() && at->lane == lane; ++at) {
    Block* first = usable(at->block->prev) ? at->block->prev : at->block;
    std::size_t room = 0;
    for (const Block* b = first; room < size && usable(b); b = b->next) room += b->size;
    if (room >= size) return first;
  }
  const std::size_t page = is_small ? kSmallSegment : settings.large_segment;
  // An eighth more than the card has, so that pages can move to the end; what a dry run takes beyond has to fit too.
  const std::size_t bytes = round_up(std::max(capacity + capacity / 8, size), page);
  auto* segment = new (segment_cells.take()) Segment{addresses.take(bytes), bytes, lane, nullptr, page};
  auto* block = new (blocks.take())
      Block{bytes, 0, segment->address, lane, segment, nullptr, nullptr, is_small, false, /*mapped=*/false};
  segment->first = block;
  segments.insert(segment);
  count_segment(*segment, 1);
  unmapped.insert(home_key_of(block));
  return block;
}

/// Puts memory behind the first `size` bytes of a block that has none. It is free then, and one with its neighbors.
bool CachingModel::State::map(Block* block, std::size_t size, bool beyond) {
  const std::size_t page = block->segment->page;
  const std::size_t offset = block->address - block->segment->address;
  const std::size_t bytes = round_up(offset + size, page) - offset;
  if (!beyond && !card_has(bytes)) return false;
  home_of(block).erase(home_key_of(block));
  block->mapped = true;
  if (bytes < block->size) {
    auto* rest = new (blocks.take())
        Block{block->size - bytes, 0,     block->address + bytes, block->lane, block->segment, block, block->next,
              block->small,        false, /*mapped=*/false};
    if (rest->next != nullptr) rest->next->prev = rest;
    block->next = rest;
    block->size = bytes;
    home_of(rest).insert(home_key_of(rest));
  }
  tell(TraceAction::kSegmentMap, block->address, bytes, block->lane);
  merge(block, block->prev);
  merge(block, block->next);
  pool_of(block->small).insert(key_of(block));
  increase(&MemoryStats::reserved_bytes, block->small, static_cast<std::int64_t>(bytes));
  ++stats.num_device_alloc;
  return true;
}

/// Gives back the whole pages of a free block; what is left of it at both ends stays free.
void CachingModel::State::unmap(Block* block) {
  const std::size_t page = block->segment->page;
  const std::uint64_t base = block->segment->address;
  const std::uint64_t from = base + round_up(block->address - base, page);
  const std::uint64_t to = base + (block->address + block->size - base) / page * page;
  if (from >= to) return;
  pool_of(block->small).erase(key_of(block));
  const std::uint64_t end = block->address + block->size;
  if (from > block->address) {
    auto* before = new (blocks.take()) Block{from - block->address, 0,     block->address, block->lane, block->segment,
                                             block->prev,           block, block->small,   false};
    (before->prev != nullptr ? before->prev->next : block->segment->first) = before;
    block->prev = before;
    pool_of(block->small).insert(key_of(before));
  }
  if (end > to) {
    auto* after = new (blocks.take())
        Block{end - to, 0, to, block->lane, block->segment, block, block->next, block->small, false};
    if (after->next != nullptr) after->next->prev = after;
    block->next = after;
    pool_of(block->small).insert(key_of(after));
  }
  block->address = from;
  block->size = to - from;
  block->mapped = false;
  const auto bytes = static_cast<std::int64_t>(block->size);
  tell(TraceAction::kSegmentUnmap, from, block->size, block->lane);
  merge(block, block->prev);
  merge(block, block->next);
  decrease(&MemoryStats::reserved_bytes, block->small, bytes);
  ++stats.num_device_free;
  if (block->split()) {
    home_of(block).insert(home_key_of(block));
    return;
  }
  segments.erase(block->segment);  // nothing is left but addresses
  count_segment(*block->segment, -1);
  addresses.give(block->address, block->segment->total);
  segment_cells.give(block->segment);
  blocks.give(block);
}

}  // namespace locus::sim
