// The arena's work: runs of spans, made usable as they are needed; size classes for small chunks on top of them. Counts
// nothing that a card would count.
#include "locus/sim/arena_state.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>

namespace locus::sim {

using namespace detail;
static_assert(Arena::kGranule == kGranuleBytes);

namespace {

/// Free memory that is kept for the next caller, machine-wide.
std::int64_t cache_limit() noexcept {
  const std::int64_t pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
  const std::int64_t share = pages > 0 && page > 0 ? pages / 16 * page : 0;
  return std::clamp(share, std::int64_t{256} << 20, std::int64_t{4} << 30);
}

}  // namespace

Arena::State::State(int devices, std::size_t bytes_per_device)
    : total(devices * bytes_per_device),
      host(total, PROT_NONE),
      device(total, PROT_NONE),
      slot_table(total / kGranuleBytes * sizeof(Slot), PROT_READ),
      span_table(total / kSpanBytes * sizeof(Span), PROT_READ | PROT_WRITE),
      owner_table(total / kSpanBytes * sizeof(std::uint32_t), PROT_READ | PROT_WRITE),
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
    slices[d].usable[kOrdinary] = first;
    slices[d].usable[kHuge] = first + ordinary;
    madvise(host_pointer(first + ordinary), (per_device - ordinary) * kSpanBytes, MADV_HUGEPAGE);
  }
}

// ---- runs of spans ----

bool Arena::State::make_usable(Slice& slice, PoolIndex index, std::uint32_t end) noexcept {
  std::uint32_t& usable = slice.usable[index];  // the caller holds slice.runs
  if (end <= usable) return true;
  const std::uint32_t ahead = (end + kUsableSpans - 1) / kUsableSpans * kUsableSpans;
  for (const std::uint32_t wanted : {std::min(ahead, slice.pools[index].end()), end}) {
    constexpr std::size_t kSlotBytes = kSpanGranules * sizeof(Slot);
    if (!slot_table.make_writable(usable * kSlotBytes, wanted * kSlotBytes) ||
        !host.make_writable(usable * kSpanBytes, wanted * kSpanBytes)) {
      continue;
    }
    usable = wanted;
    return true;
  }
  return false;
}

std::uint32_t Arena::State::take_run(int device, std::uint32_t count, Refusal* why) {
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
    if (run.dirty != 0) {
      dirty_bytes.fetch_sub(run.dirty * kSpanBytes, std::memory_order_relaxed);
    } else if (make_usable(slice, index, run.first + count)) {
      fresh_bytes.fetch_add(count * kSpanBytes, std::memory_order_relaxed);
      held_bytes.fetch_add(static_cast<std::int64_t>(count * kSpanBytes), std::memory_order_relaxed);
    } else {
      pool.give(run.first, count, false);
      *why = Refusal::kSystem;
      continue;
    }
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
    held_bytes.fetch_sub(bytes, std::memory_order_relaxed);
  }
  const std::lock_guard guard(slice.runs);
  pool.give(first, count, keep);
}

void Arena::State::purge(Slice&, SpanPool& pool) noexcept {  // the caller holds slice.runs
  for (const SpanPool::Run& run : pool.take_dirty()) {
    const std::int64_t bytes = run.count * kSpanBytes;
    madvise(host_pointer(run.first), bytes, MADV_DONTNEED);
    dirty_bytes.fetch_sub(bytes, std::memory_order_relaxed);
    held_bytes.fetch_sub(bytes, std::memory_order_relaxed);
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

void* Arena::State::allocate_small(int device, std::uint32_t granules, Refusal* why) {
  const std::uint32_t number = class_of(granules), step = granules_of(number);
  SizeClass& size_class = slices[device].classes[number];
  const std::lock_guard guard(size_class.lock);
  std::uint32_t index = size_class.first;
  if (index == kNoSpan) {
    index = take_run(device, 1, why);
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

void* Arena::State::allocate_large(int device, std::uint32_t count, Refusal* why) {
  const std::uint32_t first = take_run(device, count, why);
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

}  // namespace locus::sim
