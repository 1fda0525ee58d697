// The inside of the caching model: blocks, segments, pools, and what is done with them. For caching_model.cc and
// caching_state.cc alone.
#pragma once

#include <atomic>
#include <compare>
#include <mutex>
#include <set>
#include <vector>

#include "locus/sim/address_space.h"
#include "locus/sim/caching_model.h"
#include "locus/sim/memory_trace.h"
#include "locus/sim/recycler.h"

namespace locus::sim {

namespace caching {

inline constexpr std::size_t kMiB = std::size_t{1} << 20;
inline constexpr std::size_t kMinBlock = 512;           // every size is a multiple of this
inline constexpr std::size_t kSmallSize = 1 * kMiB;     // largest request of the small pool
inline constexpr std::size_t kSmallSegment = 2 * kMiB;  // what the small pool asks of the card
inline constexpr std::size_t kMinLarge = 10 * kMiB;     // from here on a request gets a segment of its own size ...
inline constexpr std::size_t kRoundLarge = 2 * kMiB;    // ... rounded up to this
inline constexpr std::size_t kExabyte = std::size_t{1} << 60;

/// What the card is asked for, where a request of this size finds no free block; `large` where it is below kMinLarge.
inline std::size_t segment_size(std::size_t size, std::size_t large) {
  if (size <= kSmallSize) return kSmallSegment;
  if (size < kMinLarge) return large;
  return (size + kRoundLarge - 1) / kRoundLarge * kRoundLarge;
}

/// Free blocks go to requests of their own pool and stream only. A pool is its place in State::pools.
struct Lane {
  std::uint32_t pool = 0;
  std::int64_t stream = 0;
  auto operator<=>(const Lane&) const = default;
};

/// A pool, and who still needs it. The first one is everybody's.
struct PoolUse {
  PoolId id;
  PoolOptions options;
  int users = 0, segments = 0;  // with neither, its place is another's to take
};

struct Segment {
  std::uint64_t address;
  std::size_t total;  // of an expandable segment: of its addresses, most of which have no memory
  Lane lane;
  CachingModel::Block* first;
  std::size_t page = 0;  // of an expandable segment: what it grows by
  bool expandable() const { return page != 0; }
};

}  // namespace caching

struct CachingModel::Block {
  std::size_t size, requested;
  std::uint64_t address;  // of no memory: only for the order of blocks
  caching::Lane lane;
  caching::Segment* segment;
  Block *prev, *next;  // neighbors in the segment
  bool small, allocated;
  bool mapped = true;       // false: addresses of an expandable segment that have no memory yet
  std::uint64_t freed = 0;  // when, in searches of free blocks; for garbage collection

  bool expandable() const { return segment->expandable(); }
  bool split() const { return prev != nullptr || next != nullptr; }
};

struct CachingModel::State {
  /// A free block, in the order in which it is chosen: of the right lane, the smallest, then the lowest.
  struct FreeBlock {
    caching::Lane lane;
    std::size_t size;
    std::uint64_t address;
    Block* block;
    bool operator<(const FreeBlock& other) const {
      if (lane != other.lane) return lane < other.lane;
      if (size != other.size) return size < other.size;
      return address < other.address;
    }
  };
  using Pool = std::set<FreeBlock, std::less<>, detail::NodeAllocator<FreeBlock>>;

  State(int device_index, std::size_t bytes) : device(device_index), capacity(bytes) {}

  Pool& pool_of(bool small_pool) { return small_pool ? small : large; }
  static FreeBlock key_of(Block* b) { return {b->lane, b->size, b->address, b}; }
  /// Where the block is while it is free: addresses without memory are in pools of their own, by address alone.
  Pool& home_of(const Block* b) { return b->mapped ? pool_of(b->small) : b->small ? small_unmapped : large_unmapped; }
  static FreeBlock home_key_of(Block* b) { return {b->lane, b->mapped ? b->size : 0, b->address, b}; }

  template <class F>
  void count(StatArray MemoryStats::* array, bool is_small, F change) {
    change((stats.*array).all);
    change(is_small ? (stats.*array).small_pool : (stats.*array).large_pool);
  }
  void increase(StatArray MemoryStats::* array, bool is_small, std::int64_t amount) {
    count(array, is_small, [amount](Stat& stat) { stat.increase(amount); });
  }
  void decrease(StatArray MemoryStats::* array, bool is_small, std::int64_t amount) {
    count(array, is_small, [amount](Stat& stat) { stat.decrease(amount); });
  }
  void change(StatArray MemoryStats::* array, bool is_small, std::int64_t amount) {
    if (amount > 0) increase(array, is_small, amount);
    if (amount < 0) decrease(array, is_small, -amount);
  }
  /// For the history, where one is kept.
  void tell(TraceAction action, std::uint64_t address, std::size_t bytes, caching::Lane lane, std::int64_t left = 0) {
    if (!trace.on()) return;
    trace.add(action, address, static_cast<std::int64_t>(bytes), pools[lane.pool].id, lane.stream, left);
  }
  void publish() {
    allocated.store(stats.allocated_bytes.all.current, std::memory_order_relaxed);
    peak.store(stats.allocated_bytes.all.peak, std::memory_order_relaxed);
    reserved.store(stats.reserved_bytes.all.current, std::memory_order_relaxed);
  }

  Block* take_free(std::size_t size, caching::Lane lane);
  Pool::iterator best_fit(Pool& pool, std::size_t size, caching::Lane lane);
  /// Memory of the card's own: a new segment, or more of an expandable one.
  Block* ask_card(std::size_t size, caching::Lane lane, bool beyond = false);
  std::size_t held() const { return static_cast<std::size_t>(stats.reserved_bytes.all.current); }
  bool is_allowed(std::size_t bytes) const;  ///< by set_fraction()
  bool card_has(std::size_t bytes) const;
  Block* new_segment(std::size_t bytes, caching::Lane lane, bool is_small);
  // Expandable segments: expandable_segments.cc.
  Block* grow(std::size_t size, caching::Lane lane, bool beyond);
  Block* room_for(std::size_t size, caching::Lane lane, bool is_small);
  bool map(Block* block, std::size_t size, bool beyond);
  void unmap(Block* block);
  void release_segment(Block* block);
  void release_free_segments(PoolId of = {});
  bool may_release(caching::Lane lane, PoolId of) const;
  std::uint32_t pool_number(PoolId id);
  caching::PoolUse* find_pool(PoolId id);
  void count_segment(const caching::Segment& segment, int more) { pools[segment.lane.pool].segments += more; }
  Block* last_resort(std::size_t size, std::int64_t stream);
  void release_free(Pool& pool, Pool::iterator at);
  bool release_oversized(std::size_t asked, caching::Lane lane);
  void collect();
  std::size_t rounded(std::size_t bytes) const;
  Block* hand_out(Block* block, std::size_t size, std::size_t requested);
  std::size_t merge(Block* block, Block* neighbor);

  const int device;
  const std::size_t capacity;
  mutable std::mutex mutex;
  MemoryStats stats;
  Pool small, large, small_unmapped, large_unmapped;
  std::set<caching::Segment*, bool (*)(const caching::Segment*, const caching::Segment*)> segments{
      [](const caching::Segment* a, const caching::Segment* b) { return a->address < b->address; }};
  detail::Recycler<Block> blocks;
  detail::Recycler<caching::Segment> segment_cells;
  detail::AddressSpace addresses;
  std::vector<caching::PoolUse> pools{{}};
  AllocatorSettings settings;
  MemoryTrace trace;
  double fraction = 1.0;
  bool limited = false, limit_set = false;
  std::uint64_t searches = 0;  // of large free blocks, so far
  std::size_t limit = 0;
  std::atomic<std::int64_t> allocated{0}, peak{0}, reserved{0};
};

}  // namespace locus::sim
