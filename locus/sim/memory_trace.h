// What a device's allocator did, one event after the other, and who asked: for
// torch.cuda.memory._record_memory_history(). Not thread-safe: the caching model, whose events these are, has a lock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace locus::sim {

/// Memory that is kept apart: a CUDA graph's, or a torch.cuda.MemPool's. {0, 0}: everybody's.
using PoolId = std::pair<std::int64_t, std::int64_t>;

enum class TraceAction : std::uint8_t {
  kAlloc,
  kFreeRequested,
  kFreeCompleted,
  kSegmentAlloc,
  kSegmentFree,
  kSegmentMap,    ///< an expandable segment got more memory
  kSegmentUnmap,  ///< and gave it back
  kOutOfMemory,
  kSnapshot
};
constexpr std::size_t kTraceActions = 9;
/// PyTorch's words: "alloc", "free_requested", …
std::string_view to_string(TraceAction action);

struct TraceEntry {
  TraceAction action = TraceAction::kAlloc;
  std::uint64_t address = 0;  ///< of an event without one: 0
  std::int64_t size = 0;
  std::int64_t stream = 0;
  std::int64_t microseconds = 0;  ///< since 1970
  std::uint32_t who = 0;          ///< as set_trace_asker()'s function says
  std::int64_t device_free = 0;   ///< out of memory: what the card has left
  PoolId pool;
};

/// Says who asks, for all devices: a number that the caller knows the meaning of. Called with the model's lock held.
void set_trace_asker(std::uint32_t (*asker)() noexcept) noexcept;

/// What is to be recorded.
struct TraceOptions {
  bool on = false;      ///< who made what is allocated
  bool events = false;  ///< and all events
  bool clear = false;   ///< forget what was recorded before
  std::size_t most = SIZE_MAX;
  std::uint32_t skipped = 0;  ///< one bit for each action that is not wanted
};

class MemoryTrace {
 public:
  void record(const TraceOptions& options);
  bool on() const noexcept { return options_.on; }
  void add(TraceAction action, std::uint64_t address, std::int64_t size, PoolId pool, std::int64_t stream,
           std::int64_t device_free = 0);
  /// Oldest first.
  std::vector<TraceEntry> entries() const;
  /// Who made the block or segment at an address; 0 when that was not recorded.
  std::uint32_t maker(std::uint64_t address, bool segment) const;

 private:
  TraceOptions options_;
  std::vector<TraceEntry> entries_;
  std::size_t oldest_ = 0;
  std::unordered_map<std::uint64_t, std::uint32_t> blocks_, segments_;
};

}  // namespace locus::sim
