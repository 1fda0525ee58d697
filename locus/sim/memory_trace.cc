// See memory_trace.h.
#include "locus/sim/memory_trace.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>

namespace locus::sim {
namespace {

constexpr std::array<std::string_view, kTraceActions> kNames = {
    "alloc", "free_requested", "free_completed", "segment_alloc", "segment_free", "segment_map", "segment_unmap",
    "oom",   "snapshot"};

std::atomic<std::uint32_t (*)() noexcept> g_asker{nullptr};

}  // namespace

std::string_view to_string(TraceAction action) { return kNames[static_cast<std::size_t>(action)]; }

void set_trace_asker(std::uint32_t (*asker)() noexcept) noexcept { g_asker.store(asker); }

void MemoryTrace::record(const TraceOptions& options) {
  options_ = options;
  if (options.clear) {
    entries_.clear();
    oldest_ = 0;
    blocks_.clear();
    segments_.clear();
  }
}

void MemoryTrace::add(TraceAction action, std::uint64_t address, std::int64_t size, PoolId pool, std::int64_t stream,
                      std::int64_t device_free) {
  const auto asker = g_asker.load(std::memory_order_relaxed);
  const std::uint32_t who = asker != nullptr ? asker() : 0;
  switch (action) {
    case TraceAction::kAlloc:
      blocks_[address] = who;
      break;
    case TraceAction::kFreeCompleted:
      blocks_.erase(address);
      break;
    case TraceAction::kSegmentAlloc:
    case TraceAction::kSegmentMap:
      segments_[address] = who;
      break;
    case TraceAction::kSegmentFree:
    case TraceAction::kSegmentUnmap:
      segments_.erase(address);
      break;
    default:
      break;
  }
  if (!options_.events || options_.most == 0 || (options_.skipped >> static_cast<unsigned>(action) & 1U) != 0) return;
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const TraceEntry entry{
      action, address,     size, stream, std::chrono::duration_cast<std::chrono::microseconds>(now).count(),
      who,    device_free, pool};
  if (entries_.size() < options_.most) {
    entries_.push_back(entry);
    return;
  }
  if (oldest_ >= entries_.size()) oldest_ = 0;
  entries_[oldest_++] = entry;
}

std::vector<TraceEntry> MemoryTrace::entries() const {
  std::vector<TraceEntry> all = entries_;
  std::rotate(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(std::min(oldest_, all.size())), all.end());
  return all;
}

std::uint32_t MemoryTrace::maker(std::uint64_t address, bool segment) const {
  const auto& makers = segment ? segments_ : blocks_;
  const auto found = makers.find(address);
  return found != makers.end() ? found->second : 0;
}

}  // namespace locus::sim
