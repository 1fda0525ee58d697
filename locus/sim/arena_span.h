// The side tables of the arena: what is known of every span (2 MiB), of every granule (512 bytes), and
// which sizes small chunks come in. Private to the arena; nothing here takes a lock or maps memory.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <thread>

namespace locus::sim::detail {

inline constexpr std::size_t kGranuleBytes = 512;
inline constexpr std::size_t kSpanBytes = std::size_t{2} << 20;
inline constexpr std::uint32_t kSpanGranules = kSpanBytes / kGranuleBytes;
inline constexpr std::uint32_t kNoSpan = ~std::uint32_t{0};

/// Small chunks: 1 to 4 granules, then four steps for every power of two, up to 1 MiB.
inline constexpr std::uint32_t kMaxSmallGranules = 2048;
inline constexpr std::uint32_t kClasses = 40;

constexpr std::uint32_t class_of(std::uint32_t granules) noexcept {
  if (granules <= 4) return granules - 1;
  const std::uint32_t last = granules - 1;
  const std::uint32_t exponent = std::bit_width(last) - 1;
  return 4 + (exponent - 2) * 4 + ((last - (1u << exponent)) >> (exponent - 2));
}

constexpr std::uint32_t granules_of(std::uint32_t size_class) noexcept {
  if (size_class < 4) return size_class + 1;
  const std::uint32_t exponent = (size_class - 4) / 4 + 2, step = (size_class - 4) % 4;
  // NOLINTNEXTLINE(clang-analyzer-core.BitwiseShift): there are 40 classes; the analyzer can't know
  return (1u << exponent) + (step + 1) * (1u << (exponent - 2));
}

static_assert(class_of(kMaxSmallGranules) == kClasses - 1 && granules_of(kClasses - 1) == kMaxSmallGranules);

/// One per granule; only the one at a chunk's first granule is used. The memory of the chunk itself is never
/// used for bookkeeping, so that a kernel that writes out of bounds can't break the arena.
struct Slot {
  std::atomic<std::uint64_t> word;   ///< live: the label; free: the next free chunk of the span (granule + 1)
  std::atomic<std::uint32_t> state;  ///< odd: a live chunk begins here; moves on with every change
};

/// What a span is in use for.
inline constexpr std::uint32_t kKindNone = 0;    ///< nothing yet
inline constexpr std::uint32_t kKindLarge = 99;  ///< first span of a large chunk; any other value: size class + 1

/// Whether a span is the end of a free run, and whether that run still holds pages.
enum class RunState : std::uint8_t { kUsed = 0, kClean, kDirty };

/// One per span. Fields that find() reads are atomic, the others belong to a lock.
struct alignas(64) Span {
  std::atomic<std::uint32_t> kind;
  std::atomic<std::uint32_t> count;  ///< kKindLarge: spans of the chunk
  // Under the lock of the size class:
  std::uint32_t live;        ///< chunks handed out
  std::uint32_t carved;      ///< chunks that were ever handed out; those beyond have never been touched
  std::uint32_t free_head;   ///< first free chunk (granule + 1), 0: none
  std::uint32_t prev, next;  ///< neighbors in the list of spans with room, kNoSpan at the ends
  bool listed;
  // Under the lock of the slice's runs:
  RunState run_state;
  std::uint32_t run_count;  ///< length of the free run, at its first and its last span
  // Constant while in use:
  std::uint8_t device;
  std::uint8_t pool;  ///< which of the slice's pools it came from
};

/// A lock for a few instructions. Yields when the holder seems to have lost its processor.
class alignas(64) SpinLock {
 public:
  void lock() noexcept {
    while (held_.exchange(true, std::memory_order_acquire)) {
      for (int spins = 0; held_.load(std::memory_order_relaxed); ++spins) {
        if (spins >= 100) std::this_thread::yield();
      }
    }
  }
  void unlock() noexcept { held_.store(false, std::memory_order_release); }

 private:
  std::atomic<bool> held_{false};
};

}  // namespace locus::sim::detail
