// What PyTorch's CUDA caching allocator would have done: sizes rounded, segments taken from
// the card, blocks split, merged and kept. Pure bookkeeping: it hands out no memory (arena.h
// does) and never touches any.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "locus/sim/memory_trace.h"

namespace locus::sim {

/// One counter of torch.cuda.memory_stats().
struct Stat {
  std::int64_t current = 0, peak = 0, allocated = 0, freed = 0;
  void increase(std::int64_t amount);
  void decrease(std::int64_t amount);
  void reset_accumulated();
  void reset_peak();
};

/// torch.cuda.memory_stats() splits most counters into these three.
enum class StatKind { kAll = 0, kSmallPool = 1, kLargePool = 2 };
struct StatArray {
  Stat all, small_pool, large_pool;
};

struct MemoryStats {
  StatArray allocation, segment, active, inactive_split;
  StatArray allocated_bytes, reserved_bytes, active_bytes, inactive_split_bytes, requested_bytes;
  Stat oversize_allocations, oversize_segments;
  std::int64_t num_alloc_retries = 0, num_ooms = 0, num_device_alloc = 0, num_device_free = 0, num_sync_all_streams = 0;
  std::int64_t max_split_size = -1;
};

/// Why an allocation did not fit; the words are made by out_of_memory_message(). `requested` is what was asked of
/// the card: PyTorch asks for whole segments, so this is rarely the size of the tensor.
struct OutOfMemory {
  std::size_t requested = 0, capacity = 0, free = 0, allocated = 0, reserved = 0;
  std::size_t limit = 0;  ///< what set_fraction() allows, 0 when it allows all
  int device = 0;
};
/// PyTorch's own sentence ("CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total capacity of …").
std::string out_of_memory_message(const OutOfMemory& what);
/// As PyTorch writes sizes: "512 bytes", "1.50 KiB", "20.00 MiB", "79.25 GiB".
std::string format_bytes(std::size_t bytes);

/// What PYTORCH_CUDA_ALLOC_CONF (or PYTORCH_ALLOC_CONF) can say about how much is taken.
struct AllocatorSettings {
  std::size_t max_split = SIZE_MAX;         ///< max_split_size_mb: larger blocks are never split
  std::size_t max_rounding = 20ULL << 20;   ///< max_non_split_rounding_mb: what such a block may be too large by
  std::size_t large_segment = 20ULL << 20;  ///< large_segment_size_mb: what requests of 1 to 10 MiB ask of the card
  double collect_from = 0;                  ///< garbage_collection_threshold: share of the limit, 0 for never
  double fraction = 1;                      ///< per_process_memory_fraction, where a process begins with it
  bool expandable = false;                  ///< expandable_segments: one for each pool and stream, which grow
  bool asynchronous = false;                ///< backend:cudaMallocAsync, which is another allocator than this one
  bool releases_lock = false, registers_host = false, records_reuse = false;  ///< nothing here follows from these
  std::size_t register_threads = 1;                                           ///< nor from this
  std::array<std::size_t, 16> divisions{};  ///< roundup_power2_divisions by the power of two; 0: no rounding
  std::string text;
};
/// Why PyTorch refuses such a text, in its words.
struct SettingsRefusal {
  enum class Kind { kValue, kIndex, kRuntime };  ///< ValueError, IndexError or RuntimeError of Python
  Kind kind = Kind::kValue;
  std::string words;
};
/// Where such a text comes from: the environment is read when CUDA is first used.
enum class SettingsFrom { kEnvironment, kProgram };
/// Reads such a text; nullopt where PyTorch refuses it. Words about other things than memory are looked at only.
std::optional<AllocatorSettings> parse_allocator_settings(std::string_view text, SettingsFrom from,
                                                          SettingsRefusal* refusal = nullptr);

struct PoolOptions {
  bool last_resort = false;  ///< what is free in it may be taken by all, before memory runs out
  bool whole = false;        ///< its blocks are never split
};

/// The allocator's state of one device. Thread-safe.
class CachingModel {
 public:
  struct Block;  ///< opaque: one allocation

  CachingModel(int device, std::size_t capacity_bytes);
  /// From here on; what is there already stays as it is.
  void configure(const AllocatorSettings& settings);
  AllocatorSettings settings() const;
  ~CachingModel();

  /// Accounts for an allocation on `stream`. On failure returns nullptr and fills `why`
  /// (after retrying with the cache emptied, as PyTorch does).
  Block* allocate(std::size_t bytes, std::int64_t stream, OutOfMemory* why, PoolId pool = {});
  /// The same past the capacity, for runs that are to tell the peak of a program that does not fit.
  Block* allocate_beyond(std::size_t bytes, std::int64_t stream, PoolId pool = {});
  void free(Block* block) noexcept;
  /// The rounded size that memory_allocated() counts for this block.
  static std::size_t rounded_size(std::size_t bytes);
  static std::size_t size_of(const Block* block) noexcept;
  /// Where the card's allocator has put it: blocks that are alive together have different ones.
  static std::uint64_t address_of(const Block* block) noexcept;

  /// Gives back what is free, of one pool or all; never of pools that somebody holds.
  void empty_cache(PoolId pool = {});
  /// One user of a pool more, or less. The first one decides the options.
  void hold_pool(PoolId pool, PoolOptions options = {});
  void release_pool(PoolId pool);
  int pool_users(PoolId pool) const;
  PoolId pool_of(const Block* block) const;
  void reset_peak();
  void reset_accumulated();
  /// torch.cuda.set_per_process_memory_fraction
  void set_fraction(double fraction);
  double fraction() const;
  MemoryStats stats() const;
  /// Bytes allocated now, and at most so far: cheap (no lock), for the hot path and reports.
  std::int64_t allocated() const noexcept;
  std::int64_t peak_allocated() const noexcept;
  std::int64_t reserved() const noexcept;
  std::size_t capacity() const noexcept;
  /// For torch.cuda.mem_get_info(): capacity less what the cache holds.
  std::size_t free_bytes() const noexcept;

  /// torch.cuda.memory_snapshot(): one entry per segment, each with its blocks in address order.
  struct SnapshotBlock {
    std::size_t size, requested;
    std::uint64_t address;
    bool active;
    std::uint32_t who;  ///< see memory_trace.h; 0: not recorded
  };
  struct SnapshotSegment {
    std::uint64_t address;
    std::size_t total, allocated, active;
    PoolId pool;
    std::int64_t stream;
    bool large, expandable;
    std::uint32_t who;
    std::vector<SnapshotBlock> blocks;
  };
  std::vector<SnapshotSegment> snapshot();

  /// torch.cuda.memory._record_memory_history()
  void record(const TraceOptions& options);
  bool recording() const;
  std::vector<TraceEntry> trace() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace locus::sim
