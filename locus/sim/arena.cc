// The arena: two reservations at a constant distance, side tables for what lies in them, size classes for
// small chunks and runs of spans for large ones. Counts nothing that a card would count.
#include "locus/sim/arena.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <mutex>
#include <string>
#include <system_error>
#include <vector>

#include "locus/sim/arena_span.h"
#include "locus/sim/span_pool.h"

namespace locus::sim {

using namespace detail;
static_assert(Arena::kGranule == kGranuleBytes);

namespace {

/// Address space from the kernel; pages come when they are touched.
class Mapping {
 public:
  Mapping() = default;
  Mapping(std::size_t bytes, int protection, const char* what) : bytes_(bytes + kSpanBytes) {
    base_ = mmap(nullptr, bytes_, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base_ == MAP_FAILED) {
      throw std::system_error(errno, std::generic_category(),
                              std::string("locus: cannot reserve address space for ") + what);
    }
    madvise(base_, bytes_, MADV_DONTDUMP);  // terabytes of nothing don't belong in a core file
  }
  ~Mapping() {
    if (base_ != MAP_FAILED) munmap(base_, bytes_);
  }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  /// The first address, on a span's boundary.
  std::uintptr_t begin() const noexcept {
    return (reinterpret_cast<std::uintptr_t>(base_) + kSpanBytes - 1) & ~(kSpanBytes - 1);
  }

 private:
  void* base_ = MAP_FAILED;
  std::size_t bytes_ = 0;
};

/// Free memory that is kept for the next caller, machine-wide.
std::int64_t cache_limit() noexcept {
  const std::int64_t pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
  const std::int64_t share = pages > 0 && page > 0 ? pages / 16 * page : 0;
  return std::clamp(share, std::int64_t{256} << 20, std::int64_t{4} << 30);
}

/// The spans of one size class on one device that have room.
struct SizeClass {
  SpinLock lock;
  std::uint32_t first = kNoSpan;
};

/// Chunks of so many spans live in a part of the slice that uses huge pages: there the kernel zeroes 2 MiB at
/// once and the processor misses fewer translations. Smaller chunks would waste most of their last huge page.
constexpr std::uint32_t kHugeSpans = 4;
enum PoolIndex : std::uint8_t { kOrdinary = 0, kHuge = 1, kPools = 2 };

struct Slice {
  SizeClass classes[kClasses];
  std::mutex runs;  // guards pools; taken after a class's lock, never before
  SpanPool pools[kPools];
};

}  // namespace

struct Arena::State {
  State(int devices, std::size_t bytes_per_device)
      : total(devices * bytes_per_device),
        host(total, PROT_READ | PROT_WRITE, "device memory"),
        device(total, PROT_NONE, "device addresses"),
        slot_table(total / kGranuleBytes * sizeof(Slot), PROT_READ | PROT_WRITE, "chunks"),
        span_table(total / kSpanBytes * sizeof(Span), PROT_READ | PROT_WRITE, "spans"),
        owner_table(total / kSpanBytes * sizeof(std::uint32_t), PROT_READ | PROT_WRITE, "span owners"),
        slots(reinterpret_cast<Slot*>(slot_table.begin())),
        spans(reinterpret_cast<Span*>(span_table.begin())),
        owners(reinterpret_cast<std::atomic<std::uint32_t>*>(owner_table.begin())),
        slices(new Slice[devices]),
        dirty_limit(cache_limit()) {
    // The tables are used as the kernel gives them: zero is a valid, empty state of every entry.
    const std::uint32_t per_device = bytes_per_device / kSpanBytes;
    for (int d = 0; d < devices; ++d) {
      const std::uint32_t first = d * per_device, ordinary = per_device / 2;
      slices[d].pools[kOrdinary].open(spans, first, ordinary);
      slices[d].pools[kHuge].open(spans, first + ordinary, per_device - ordinary);
      madvise(host_pointer(first + ordinary), (per_device - ordinary) * kSpanBytes, MADV_HUGEPAGE);
    }
  }

  char* host_pointer(std::uint32_t span) const noexcept {
    return reinterpret_cast<char*>(host.begin() + std::size_t{span} * kSpanBytes);
  }
  Slot& slot_of(std::size_t offset) const noexcept { return slots[offset / kGranuleBytes]; }

  std::uint32_t take_run(int device, std::uint32_t count);
  void give_run(std::uint32_t first, std::uint32_t count) noexcept;
  void purge(Slice& slice, SpanPool& pool) noexcept;

  void* allocate_small(int device, std::uint32_t granules);
  void* allocate_large(int device, std::uint32_t count);
  void release_small(std::uint32_t span, Slot& slot, std::uint32_t granule) noexcept;
  void release_large(std::uint32_t span, Slot& slot) noexcept;
  void link(SizeClass& size_class, std::uint32_t index) noexcept;
  void unlink(SizeClass& size_class, std::uint32_t index) noexcept;

  const std::size_t total;
  const Mapping host, device, slot_table, span_table, owner_table;
  Slot* const slots;
  Span* const spans;
  std::atomic<std::uint32_t>* const owners;  // per span: 1 + first span of the chunk that it was last part of
  const std::unique_ptr<Slice[]> slices;
  const std::int64_t dirty_limit;
  std::atomic<std::int64_t> dirty_bytes{0};
  std::atomic<bool> abandoned{false};
};

// ---- runs of spans ----

std::uint32_t Arena::State::take_run(int device, std::uint32_t count) {
  Slice& slice = slices[device];
  const std::lock_guard guard(slice.runs);
  const PoolIndex preferred = count >= kHugeSpans ? kHuge : kOrdinary;
  for (const PoolIndex index : {preferred, preferred == kHuge ? kOrdinary : kHuge}) {
    SpanPool& pool = slice.pools[index];
    SpanPool::Run run = pool.take(count);
    if (run.first == kNoSpan && pool.free_spans() >= count) {  // enough in all: clean runs may meet
      purge(slice, pool);
      run = pool.take(count);
    }
    if (run.first == kNoSpan) continue;
    if (run.dirty != 0) dirty_bytes.fetch_sub(run.dirty * kSpanBytes, std::memory_order_relaxed);
    Span& head = spans[run.first];
    head.device = device;
    head.pool = index;
    return run.first;
  }
  return kNoSpan;
}

void Arena::State::give_run(std::uint32_t first, std::uint32_t count) noexcept {
  const std::int64_t bytes = count * kSpanBytes;
  Slice& slice = slices[spans[first].device];
  SpanPool& pool = slice.pools[spans[first].pool];
  // What doesn't fit under the limit is dropped at once, rather than something older: a training step frees and
  // takes the same chunks in turn, and dropping the oldest would drop what it needs next.
  const bool keep = dirty_bytes.fetch_add(bytes, std::memory_order_relaxed) + bytes <= dirty_limit;
  if (!keep) {
    dirty_bytes.fetch_sub(bytes, std::memory_order_relaxed);
    madvise(host_pointer(first), bytes, MADV_DONTNEED);
  }
  const std::lock_guard guard(slice.runs);
  pool.give(first, count, keep);
}

void Arena::State::purge(Slice&, SpanPool& pool) noexcept {  // the caller holds slice.runs
  for (const SpanPool::Run& run : pool.take_dirty()) {
    const std::int64_t bytes = run.count * kSpanBytes;
    madvise(host_pointer(run.first), bytes, MADV_DONTNEED);
    dirty_bytes.fetch_sub(bytes, std::memory_order_relaxed);
    pool.give(run.first, run.count, false);
  }
}

// ---- small chunks ----

void Arena::State::link(SizeClass& size_class, std::uint32_t index) noexcept {
  Span& span = spans[index];
  span.prev = kNoSpan;
  span.next = size_class.first;
  if (span.next != kNoSpan) spans[span.next].prev = index;
  size_class.first = index;
  span.listed = true;
}

void Arena::State::unlink(SizeClass& size_class, std::uint32_t index) noexcept {
  Span& span = spans[index];
  (span.prev != kNoSpan ? spans[span.prev].next : size_class.first) = span.next;
  if (span.next != kNoSpan) spans[span.next].prev = span.prev;
  span.listed = false;
}

void* Arena::State::allocate_small(int device, std::uint32_t granules) {
  const std::uint32_t number = class_of(granules), step = granules_of(number);
  SizeClass& size_class = slices[device].classes[number];
  const std::lock_guard guard(size_class.lock);
  std::uint32_t index = size_class.first;
  if (index == kNoSpan) {
    index = take_run(device, 1);
    if (index == kNoSpan) return nullptr;
    Span& fresh = spans[index];
    fresh.live = fresh.carved = fresh.free_head = 0;
    fresh.kind.store(number + 1, std::memory_order_release);
    owners[index].store(index + 1, std::memory_order_release);
    link(size_class, index);
  }
  Span& span = spans[index];
  std::uint32_t granule;
  Slot* slot;
  if (span.free_head != 0) {
    granule = span.free_head - 1;
    slot = &slots[std::size_t{index} * kSpanGranules + granule];
    span.free_head = static_cast<std::uint32_t>(slot->word.load(std::memory_order_relaxed));
  } else {
    granule = span.carved++ * step;
    slot = &slots[std::size_t{index} * kSpanGranules + granule];
  }
  ++span.live;
  if (span.free_head == 0 && (span.carved + 1) * step > kSpanGranules) unlink(size_class, index);
  slot->word.store(0, std::memory_order_relaxed);
  slot->state.store(slot->state.load(std::memory_order_relaxed) + 1, std::memory_order_release);
  return host_pointer(index) + granule * kGranuleBytes;
}

void Arena::State::release_small(std::uint32_t index, Slot& slot, std::uint32_t granule) noexcept {
  Span& span = spans[index];
  SizeClass& size_class = slices[span.device].classes[span.kind.load(std::memory_order_relaxed) - 1];
  const std::lock_guard guard(size_class.lock);
  const std::uint32_t state = slot.state.load(std::memory_order_relaxed);
  if (state % 2 == 0) return;  // released twice
  slot.state.store(state + 1, std::memory_order_release);
  slot.word.store(span.free_head, std::memory_order_release);
  span.free_head = granule + 1;
  if (!span.listed) link(size_class, index);
  if (--span.live == 0 && !(size_class.first == index && span.next == kNoSpan)) {
    // Empty, and not the only one with room: some other size may need it more.
    unlink(size_class, index);
    give_run(index, 1);
  }
}

// ---- large chunks ----

void* Arena::State::allocate_large(int device, std::uint32_t count) {
  const std::uint32_t first = take_run(device, count);
  if (first == kNoSpan) return nullptr;
  Span& span = spans[first];
  span.count.store(count, std::memory_order_release);
  span.kind.store(kKindLarge, std::memory_order_release);
  for (std::uint32_t i = 0; i < count; ++i) owners[first + i].store(first + 1, std::memory_order_release);
  Slot& slot = slots[std::size_t{first} * kSpanGranules];
  slot.word.store(0, std::memory_order_relaxed);
  slot.state.fetch_add(1, std::memory_order_release);
  return host_pointer(first);
}

void Arena::State::release_large(std::uint32_t first, Slot& slot) noexcept {
  std::uint32_t state = slot.state.load(std::memory_order_relaxed);
  // The exchange decides between two threads that release the same chunk.
  if (state % 2 == 0 || !slot.state.compare_exchange_strong(state, state + 1, std::memory_order_acq_rel)) return;
  give_run(first, spans[first].count.load(std::memory_order_relaxed));
}

// ---- the public face ----

Arena::Arena(int devices, std::size_t bytes_per_device)
    : devices_(std::max(devices, 0)), bytes_per_device_((bytes_per_device + kSpanBytes - 1) / kSpanBytes * kSpanBytes) {
  std::size_t total = 0;
  // Past 2^47 no mapping can succeed; said here so that the sums below can't overflow.
  if (bytes_per_device_ < bytes_per_device || __builtin_mul_overflow(bytes_per_device_, devices_, &total) ||
      total >= std::size_t{1} << 47) {
    throw std::system_error(ENOMEM, std::generic_category(), "locus: cannot reserve address space for device memory");
  }
  if (total == 0) return;
  state_ = std::make_unique<State>(devices_, bytes_per_device_);
  span_ = total;
  host_begin_ = state_->host.begin();
  delta_ = state_->device.begin() - host_begin_;
}

Arena::~Arena() = default;

void* Arena::allocate(int device, std::size_t bytes) {
  if (device < 0 || device >= devices_ || bytes == 0 || bytes > bytes_per_device_) return nullptr;
  if (state_->abandoned.load(std::memory_order_relaxed)) return nullptr;
  const std::size_t granules = (bytes + kGranuleBytes - 1) / kGranuleBytes;
  if (granules <= kMaxSmallGranules) return state_->allocate_small(device, static_cast<std::uint32_t>(granules));
  return state_->allocate_large(device, static_cast<std::uint32_t>((bytes + kSpanBytes - 1) / kSpanBytes));
}

void Arena::release(void* host) noexcept {
  if (!is_host(host) || state_->abandoned.load(std::memory_order_relaxed)) return;
  const std::size_t offset = reinterpret_cast<std::uintptr_t>(host) - host_begin_;
  Slot& slot = state_->slot_of(offset);
  // Only the first byte of a live chunk can be released; everything else is left alone.
  if (offset % kGranuleBytes != 0 || slot.state.load(std::memory_order_acquire) % 2 == 0) return;
  const auto span = static_cast<std::uint32_t>(offset / kSpanBytes);
  if (state_->spans[span].kind.load(std::memory_order_relaxed) == kKindLarge) {
    state_->release_large(span, slot);
  } else {
    state_->release_small(span, slot, static_cast<std::uint32_t>(offset / kGranuleBytes % kSpanGranules));
  }
}

void Arena::trim() noexcept {
  if (!state_ || state_->abandoned.load(std::memory_order_relaxed)) return;
  for (int d = 0; d < devices_; ++d) {
    Slice& slice = state_->slices[d];
    for (SizeClass& size_class : slice.classes) {
      const std::lock_guard guard(size_class.lock);
      for (std::uint32_t index = size_class.first, next; index != kNoSpan; index = next) {
        next = state_->spans[index].next;
        if (state_->spans[index].live != 0) continue;
        state_->unlink(size_class, index);
        state_->give_run(index, 1);
      }
    }
    const std::lock_guard guard(slice.runs);
    for (SpanPool& pool : slice.pools) state_->purge(slice, pool);
  }
}

void Arena::set_label(void* host, std::uint64_t label) noexcept {
  if (!is_host(host)) return;
  Slot& slot = state_->slot_of(reinterpret_cast<std::uintptr_t>(host) - host_begin_);
  if (slot.state.load(std::memory_order_acquire) % 2 == 1) slot.word.store(label, std::memory_order_release);
}

std::uint64_t Arena::label(const void* host) const noexcept {
  if (!is_host(host)) return 0;
  const Slot& slot = state_->slot_of(reinterpret_cast<std::uintptr_t>(host) - host_begin_);
  return slot.state.load(std::memory_order_acquire) % 2 == 1 ? slot.word.load(std::memory_order_acquire) : 0;
}

bool Arena::find(const void* any_address, ChunkInfo* info) const noexcept {
  std::size_t offset = reinterpret_cast<std::uintptr_t>(any_address) - host_begin_;
  if (offset >= span_) offset -= delta_;
  if (offset >= span_) return false;
  const auto index = static_cast<std::uint32_t>(offset / kSpanBytes);
  const std::uint32_t owner = state_->owners[index].load(std::memory_order_acquire);
  if (owner == 0) return false;
  // Entries outlive their chunks, so what they say is only believed if a live chunk begins where they point to.
  const Span& span = state_->spans[owner - 1];
  const std::uint32_t kind = span.kind.load(std::memory_order_acquire);
  std::size_t begin = std::size_t{owner - 1} * kSpanBytes, bytes = 0;
  if (kind == kKindLarge) {
    bytes = span.count.load(std::memory_order_acquire) * kSpanBytes;
  } else if (kind != kKindNone && owner - 1 == index) {
    const std::uint32_t step = granules_of(kind - 1);
    bytes = step * kGranuleBytes;
    begin += (offset - begin) / bytes * bytes;
  }
  if (offset - begin >= bytes) return false;
  const Slot& slot = state_->slot_of(begin);
  const std::uint32_t state = slot.state.load(std::memory_order_acquire);
  if (state % 2 == 0) return false;
  const std::uint64_t word = slot.word.load(std::memory_order_acquire);
  // Nothing may have changed since: otherwise the chunk was released while we looked, and is not live.
  if (slot.state.load(std::memory_order_acquire) != state || span.kind.load(std::memory_order_acquire) != kind)
    return false;
  if (info != nullptr) {
    info->device = static_cast<int>(begin / bytes_per_device_);
    info->host = reinterpret_cast<void*>(host_begin_ + begin);
    info->bytes = bytes;
    info->label = word;
  }
  return true;
}

int Arena::device_of(const void* p) const noexcept {
  std::size_t offset = reinterpret_cast<std::uintptr_t>(p) - host_begin_;
  if (offset >= span_) offset -= delta_;
  return offset < span_ ? static_cast<int>(offset / bytes_per_device_) : -1;
}

void Arena::abandon() noexcept {
  if (state_) state_->abandoned.store(true, std::memory_order_relaxed);
}

}  // namespace locus::sim
