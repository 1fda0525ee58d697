// Whether the machine that Locus runs on can carry what the simulated devices are asked to hold. Says so in time: once
// there is no memory for a page, the kernel ends the process without a word. Not about the cards' own capacity
// (caching_model.h), which is usually larger.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>

#include "locus/sim/arena.h"
#include "locus/sim/host_memory.h"

namespace locus::sim {

/// How much of the host's memory the devices may fill.
struct HostBudget {
  bool watched = true;               ///< false: let the kernel decide
  std::optional<std::size_t> bytes;  ///< at most so much, whatever the machine has
};

struct HostShortage {
  std::size_t asked = 0;  ///< bytes that a kernel would write to for the first time
  HostRoom room;
  std::uint64_t reserve = 0;  ///< what of it is kept for the rest of the process
  bool own_limit = false;     ///< the budget's bytes, not the machine's memory
};

/// Memory that nobody has written to costs nothing, so a tensor may be larger than the host's memory as long as no
/// kernel fills it. Thread-safe.
class HostGuard {
 public:
  HostGuard(Arena& arena, HostBudget budget, HostMemory memory = HostMemory());

  /// Whether a chunk that was just handed out can be filled; `written`: a kernel is about to. Looks at the machine only
  /// after some growth.
  std::optional<HostShortage> admit(const void* host, std::size_t bytes, bool written) {
    if (!budget_.watched) return std::nullopt;
    if (!tight() &&
        arena_.fresh_bytes() - looked_at_.load(std::memory_order_relaxed) < step_.load(std::memory_order_relaxed)) {
      return std::nullopt;
    }
    return look(host, bytes, written);
  }
  /// Whether more has been handed out than the host could hold: then kernels must ask before they write.
  bool tight() const noexcept { return tight_.load(std::memory_order_relaxed); }
  /// Whether a kernel may write to all of these bytes.
  std::optional<HostShortage> may_fill(const void* host, std::size_t bytes);

 private:
  struct Room {
    HostRoom room;
    std::uint64_t reserve;  ///< kept for the rest of the process
    std::uint64_t left;     ///< without the reserve
    bool own_limit;
  };
  Room room() const;
  std::optional<HostShortage> look(const void* host, std::size_t bytes, bool written);

  Arena& arena_;
  const HostBudget budget_;
  const HostMemory memory_;
  std::mutex mutex_;
  std::uint64_t promised_ = 0;  ///< bytes that may be without pages still, at most
  std::atomic<std::uint64_t> looked_at_{0}, step_{0};
  std::atomic<bool> tight_{false};
};

/// "This machine, not the simulated card, …": what is short, and the way out.
std::string host_shortage_message(int device, const HostShortage& shortage);
/// The same for a chunk that the arena could not hand out although the card has room for it.
std::string no_chunk_message(int device, std::size_t asked, const Arena& arena, Arena::Refusal why);

}  // namespace locus::sim
