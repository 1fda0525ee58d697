// The bookkeeping of PyTorch's CUDA caching allocator with its default settings: rounding, pools, segments, splits,
// merges, retries. Private pools (graphs), expandable segments and max_split_size are not modeled.
#include "locus/sim/caching_model.h"

#include <algorithm>
#include <atomic>
#include <new>
#include <set>

#include "locus/sim/address_space.h"
#include "locus/sim/recycler.h"

namespace locus::sim {

namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;
constexpr std::size_t kMinBlock = 512;            // every size is a multiple of this
constexpr std::size_t kSmallSize = 1 * kMiB;      // largest request of the small pool
constexpr std::size_t kSmallSegment = 2 * kMiB;   // what the small pool asks of the card
constexpr std::size_t kLargeSegment = 20 * kMiB;  // what requests below kMinLarge ask of the card
constexpr std::size_t kMinLarge = 10 * kMiB;      // from here on a request gets a segment of its own size ...
constexpr std::size_t kRoundLarge = 2 * kMiB;     // ... rounded up to this
constexpr std::size_t kExabyte = std::size_t{1} << 60;

struct Segment {
  std::uint64_t address;
  std::size_t total;
  std::int64_t stream;
  CachingModel::Block* first;
};

std::size_t segment_size(std::size_t size) {
  if (size <= kSmallSize) return kSmallSegment;
  if (size < kMinLarge) return kLargeSegment;
  return (size + kRoundLarge - 1) / kRoundLarge * kRoundLarge;
}

}  // namespace

struct CachingModel::Block {
  std::size_t size, requested;
  std::uint64_t address;  // of no memory: only for the order of blocks
  std::int64_t stream;
  Segment* segment;
  Block *prev, *next;  // neighbors in the segment
  bool small, allocated;

  bool split() const { return prev != nullptr || next != nullptr; }
};

struct CachingModel::State {
  /// A free block, in the order in which it is chosen: of the right stream, the smallest, then the lowest.
  struct FreeBlock {
    std::int64_t stream;
    std::size_t size;
    std::uint64_t address;
    Block* block;
    bool operator<(const FreeBlock& other) const {
      if (stream != other.stream) return stream < other.stream;
      if (size != other.size) return size < other.size;
      return address < other.address;
    }
  };
  using Pool = std::set<FreeBlock, std::less<>, detail::NodeAllocator<FreeBlock>>;

  State(int device_index, std::size_t bytes) : device(device_index), capacity(bytes) {}

  Pool& pool_of(bool small_pool) { return small_pool ? small : large; }
  static FreeBlock key_of(Block* b) { return {b->stream, b->size, b->address, b}; }

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
  void publish() {
    allocated.store(stats.allocated_bytes.all.current, std::memory_order_relaxed);
    peak.store(stats.allocated_bytes.all.peak, std::memory_order_relaxed);
    reserved.store(stats.reserved_bytes.all.current, std::memory_order_relaxed);
  }

  Block* take_free(std::size_t size, std::int64_t stream);
  Block* new_segment(std::size_t bytes, std::int64_t stream, bool is_small, bool beyond = false);
  void release_segment(Block* block);
  void release_free_segments();
  Block* hand_out(Block* block, std::size_t size, std::size_t requested);
  std::size_t merge(Block* block, Block* neighbor);

  const int device;
  const std::size_t capacity;
  mutable std::mutex mutex;
  MemoryStats stats;
  Pool small, large;
  std::set<Segment*, bool (*)(const Segment*, const Segment*)> segments{
      [](const Segment* a, const Segment* b) { return a->address < b->address; }};
  detail::Recycler<Block> blocks;
  detail::Recycler<Segment> segment_cells;
  detail::AddressSpace addresses;
  double fraction = 1.0;
  bool limited = false;
  std::size_t limit = 0;
  std::atomic<std::int64_t> allocated{0}, peak{0}, reserved{0};
};

CachingModel::Block* CachingModel::State::take_free(std::size_t size, std::int64_t stream) {
  Pool& pool = pool_of(size <= kSmallSize);
  const auto found = pool.lower_bound(FreeBlock{stream, size, 0, nullptr});
  if (found == pool.end() || found->stream != stream) return nullptr;
  Block* block = found->block;
  pool.erase(found);
  return block;
}

/// Asks the card for memory; nullptr when it has none, or not for this process.
CachingModel::Block* CachingModel::State::new_segment(std::size_t bytes, std::int64_t stream, bool is_small,
                                                      bool beyond) {
  const auto held = static_cast<std::size_t>(stats.reserved_bytes.all.current);
  if (!beyond && limited && held + bytes > limit) return nullptr;
  if (!beyond && (bytes > capacity || held > capacity - bytes)) return nullptr;
  auto* segment = new (segment_cells.take()) Segment{addresses.take(bytes), bytes, stream, nullptr};
  segment->first =
      new (blocks.take()) Block{bytes, 0, segment->address, stream, segment, nullptr, nullptr, is_small, false};
  segments.insert(segment);
  increase(&MemoryStats::segment, is_small, 1);
  increase(&MemoryStats::reserved_bytes, is_small, static_cast<std::int64_t>(bytes));
  ++stats.num_device_alloc;
  return segment->first;
}

void CachingModel::State::release_segment(Block* block) {
  decrease(&MemoryStats::segment, block->small, 1);
  decrease(&MemoryStats::reserved_bytes, block->small, static_cast<std::int64_t>(block->size));
  ++stats.num_device_free;
  segments.erase(block->segment);
  addresses.give(block->address, block->size);
  segment_cells.give(block->segment);
  blocks.give(block);
}

/// Gives back what is wholly free. A segment of which any part is in use stays.
void CachingModel::State::release_free_segments() {
  ++stats.num_sync_all_streams;
  for (Pool* pool : {&large, &small}) {
    for (auto at = pool->begin(); at != pool->end();) {
      if (at->block->split()) {
        ++at;
      } else {
        release_segment(at->block);
        at = pool->erase(at);
      }
    }
  }
}

/// Turns a free block that is no longer in its pool into an allocation; what is left over goes back.
CachingModel::Block* CachingModel::State::hand_out(Block* block, std::size_t size, std::size_t requested) {
  const bool is_small = block->small, was_split = block->split();
  const std::size_t rest = block->size - size;
  if (is_small ? rest >= kMinBlock : rest > kSmallSize) {
    Block* remaining = block;
    block = new (blocks.take())
        Block{size,     0,    remaining->address, remaining->stream, remaining->segment, remaining->prev, remaining,
              is_small, false};
    (block->prev != nullptr ? block->prev->next : block->segment->first) = block;
    remaining->prev = block;
    remaining->address += size;
    remaining->size -= size;
    pool_of(is_small).insert(key_of(remaining));
    if (was_split) {
      decrease(&MemoryStats::inactive_split_bytes, is_small, static_cast<std::int64_t>(size));
    } else {
      increase(&MemoryStats::inactive_split_bytes, is_small, static_cast<std::int64_t>(remaining->size));
      increase(&MemoryStats::inactive_split, is_small, 1);
    }
  } else if (was_split) {
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
  publish();
  return block;
}

/// Makes a free neighbor part of the block; returns its size, 0 when it is in use or absent.
std::size_t CachingModel::State::merge(Block* block, Block* neighbor) {
  if (neighbor == nullptr || neighbor->allocated) return 0;
  pool_of(block->small).erase(key_of(neighbor));
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

CachingModel::CachingModel(int device, std::size_t capacity_bytes)
    : state_(std::make_unique<State>(device, capacity_bytes)) {}

CachingModel::~CachingModel() = default;

std::size_t CachingModel::rounded_size(std::size_t bytes) {
  return bytes < kMinBlock ? kMinBlock : (bytes + kMinBlock - 1) / kMinBlock * kMinBlock;
}

std::size_t CachingModel::size_of(const Block* block) noexcept { return block->size; }
std::uint64_t CachingModel::address_of(const Block* block) noexcept { return block->address; }

CachingModel::Block* CachingModel::allocate(std::size_t bytes, std::int64_t stream, OutOfMemory* why) {
  State& s = *state_;
  const std::lock_guard guard(s.mutex);
  // Beyond an exabyte PyTorch refuses before it looks (and before it counts); the sums below would overflow.
  const bool absurd = bytes >= kExabyte;
  const std::size_t size = absurd ? bytes : rounded_size(bytes), asked = absurd ? bytes : segment_size(size);
  Block* block = nullptr;
  if (!absurd) {
    block = s.take_free(size, stream);
    if (block == nullptr) block = s.new_segment(asked, stream, size <= kSmallSize);
    if (block == nullptr) {
      s.release_free_segments();
      ++s.stats.num_alloc_retries;
      block = s.new_segment(asked, stream, size <= kSmallSize);
    }
    if (block != nullptr) return s.hand_out(block, size, bytes);
    ++s.stats.num_ooms;
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

CachingModel::Block* CachingModel::allocate_beyond(std::size_t bytes, std::int64_t stream) {
  State& s = *state_;
  const std::lock_guard guard(s.mutex);
  const std::size_t size = rounded_size(bytes);
  Block* block = s.take_free(size, stream);
  if (block == nullptr) block = s.new_segment(segment_size(size), stream, size <= kSmallSize, /*beyond=*/true);
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
  s.change(&MemoryStats::inactive_split, is_small, split_blocks);
  s.change(&MemoryStats::inactive_split_bytes, is_small, split_bytes);
  s.decrease(&MemoryStats::active, is_small, 1);
  s.decrease(&MemoryStats::active_bytes, is_small, counted);
  s.decrease(&MemoryStats::requested_bytes, is_small, requested);
  s.publish();
}

void CachingModel::empty_cache() {
  const std::lock_guard guard(state_->mutex);
  state_->release_free_segments();
  state_->publish();
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

std::vector<CachingModel::SnapshotSegment> CachingModel::snapshot() const {
  const std::lock_guard guard(state_->mutex);
  std::vector<SnapshotSegment> result;
  result.reserve(state_->segments.size());
  for (const Segment* segment : state_->segments) {
    SnapshotSegment entry{segment->address, segment->total, 0, 0, segment->stream, !segment->first->small, {}};
    for (const Block* block = segment->first; block != nullptr; block = block->next) {
      entry.blocks.push_back({block->size, block->allocated ? block->requested : 0, block->address, block->allocated});
      if (block->allocated) entry.allocated += block->size, entry.active += block->size;
    }
    result.push_back(std::move(entry));
  }
  return result;
}

}  // namespace locus::sim
