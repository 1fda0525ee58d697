// Private to the arena: its ranges and side tables, the free spans and size classes of each device. arena_state.cc
// hands out and takes back; arena.cc is the public face.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>

#include "locus/sim/arena.h"
#include "locus/sim/arena_span.h"
#include "locus/sim/reservation.h"
#include "locus/sim/span_pool.h"

namespace locus::sim {
namespace detail {

/// The spans of one size class on one device that have room.
struct SizeClass {
  SpinLock lock;
  std::uint32_t first = kNoSpan;
};

/// Chunks of so many spans live in a part of the slice that uses huge pages: there the kernel zeroes 2 MiB at
/// once and the processor misses fewer translations. Smaller chunks would waste most of their last huge page.
constexpr std::uint32_t kHugeSpans = 4;
enum PoolIndex : std::uint8_t { kOrdinary = 0, kHuge = 1, kPools = 2 };

/// Spans become writable this many at a time: few system calls, and little that is asked for in vain.
constexpr std::uint32_t kUsableSpans = 32;

struct Slice {
  SizeClass classes[kClasses];
  std::mutex runs;  // guards what follows; taken after a class's lock, never before
  SpanPool pools[kPools];
  std::uint32_t usable[kPools] = {};  // a pool's spans before this one may be written
};

}  // namespace detail

struct Arena::State {
  State(int devices, std::size_t bytes_per_device);

  char* host_pointer(std::uint32_t span) const noexcept {
    return reinterpret_cast<char*>(host.begin() + std::size_t{span} * detail::kSpanBytes);
  }
  detail::Slot& slot_of(std::size_t offset) const noexcept { return slots[offset / detail::kGranuleBytes]; }

  std::uint32_t take_run(int device, std::uint32_t count, Refusal* why);
  bool make_usable(detail::Slice& slice, detail::PoolIndex index, std::uint32_t end) noexcept;
  void give_run(std::uint32_t first, std::uint32_t count) noexcept;
  void purge(detail::Slice& slice, detail::SpanPool& pool) noexcept;

  void* allocate_small(int device, std::uint32_t granules, Refusal* why);
  void* allocate_large(int device, std::uint32_t count, Refusal* why);
  void release_small(std::uint32_t span, detail::Slot& slot, std::uint32_t granule) noexcept;
  void release_large(std::uint32_t span, detail::Slot& slot) noexcept;
  void link(detail::SizeClass& size_class, std::uint32_t index) noexcept;
  void unlink(detail::SizeClass& size_class, std::uint32_t index) noexcept;

  const std::size_t total;
  const detail::Mapping host, device, slot_table, span_table, owner_table;
  detail::Slot* const slots;
  detail::Span* const spans;
  std::atomic<std::uint32_t>* const owners;  // per span: 1 + first span of the chunk that it was last part of
  const std::unique_ptr<detail::Slice[]> slices;
  const std::int64_t dirty_limit;
  std::atomic<std::int64_t> dirty_bytes{0};
  std::atomic<std::uint64_t> fresh_bytes{0};  // of spans that were handed out without pages, ever
  std::atomic<std::int64_t> held_bytes{0};    // of spans that have, or may get, pages
  std::atomic<bool> abandoned{false};
};

}  // namespace locus::sim
