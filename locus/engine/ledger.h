// Counts by source line: transfers, synchronizations, memory. Lock-free and bounded; read once, at the end.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "locus/engine/intern.h"
#include "locus/engine/site.h"

namespace locus::engine {

/// What is counted separately: a place, two devices (kHost: the CPU) and a kind that the caller chooses.
struct LedgerKey {
  SiteId site = 0;
  std::int8_t from = 0, to = 0;
  std::uint16_t kind = 0;
  bool operator==(const LedgerKey&) const = default;
  std::uint64_t hash() const {
    return mix((std::uint64_t{site} << 32) | (std::uint64_t{kind} << 16) |
               (std::uint64_t{static_cast<std::uint8_t>(from)} << 8) | static_cast<std::uint8_t>(to));
  }
};

/// Adds up counts and bytes per key. A key beyond the table's bound is counted under the unknown key.
class Ledger {
 public:
  struct Entry {
    LedgerKey key;
    std::int64_t count = 0, bytes = 0;
    std::int64_t nanoseconds = 0;  ///< on the host's clock; 0 where it was not measured
  };
  Ledger() : counters_(new Counters[kEntries]()) {}

  void add(const LedgerKey& key, std::int64_t bytes, std::int64_t nanoseconds = 0) {
    Counters& counters = counters_[table_.intern(key)];
    counters.count.fetch_add(1, std::memory_order_relaxed);
    counters.bytes.fetch_add(bytes, std::memory_order_relaxed);
    if (nanoseconds != 0) counters.nanoseconds.fetch_add(nanoseconds, std::memory_order_relaxed);
  }
  std::vector<Entry> entries() const {
    std::vector<Entry> all;
    for (std::size_t id = 0; id < table_.size() && id < kEntries; ++id) {
      const std::int64_t count = counters_[id].count.load(std::memory_order_relaxed);
      if (count == 0) continue;
      all.push_back({table_.at(static_cast<std::uint32_t>(id)), count, counters_[id].bytes.load(),
                     counters_[id].nanoseconds.load()});
    }
    return all;
  }

 private:
  static constexpr std::size_t kEntries = std::size_t{1} << 14;
  struct Counters {
    std::atomic<std::int64_t> count{0}, bytes{0}, nanoseconds{0};
  };
  InternTable<LedgerKey, kEntries * 2> table_;
  std::unique_ptr<Counters[]> counters_;
};

/// Live bytes by the line that allocated them, and what they were when the total was at its highest.
class MemoryByLine {
 public:
  static constexpr std::size_t kSites = std::size_t{1} << 14;  ///< lines beyond share the last one
  struct Line {
    SiteId site = 0;
    std::int64_t bytes = 0, count = 0;
  };
  MemoryByLine() : live_(new Live[kSites]()) {}

  void allocated(SiteId site, std::int64_t bytes) noexcept {
    Live& live = live_[index(site)];
    live.bytes.fetch_add(bytes, std::memory_order_relaxed);
    live.count.fetch_add(1, std::memory_order_relaxed);
    SiteId seen = highest_.load(std::memory_order_relaxed);
    while (index(site) > seen && !highest_.compare_exchange_weak(seen, index(site))) {
    }
  }
  /// `total` is the device's count before this free: a peak is known to be one when the first free follows it.
  void freeing(SiteId site, std::int64_t bytes, std::int64_t total) {
    if (total > peak_.load(std::memory_order_relaxed)) take_snapshot(total);
    if (open_scopes_.load(std::memory_order_relaxed) != 0) note_in_scopes(total);
    Live& live = live_[index(site)];
    live.bytes.fetch_sub(bytes, std::memory_order_relaxed);
    live.count.fetch_sub(1, std::memory_order_relaxed);
  }
  /// The lines that held memory at the peak, largest first. `total` is what is allocated now.
  std::vector<Line> at_peak(std::int64_t total);

  /// The highest total of one scope of the program, and the lines that held it.
  struct Peak {
    std::int64_t total = 0;
    std::vector<Line> lines;
  };
  /// A scope begins; its number. Scopes may overlap.
  std::uint64_t open_scope(std::int64_t total);
  /// What the scope has seen so far. `total` is what is allocated now.
  Peak peak_of(std::uint64_t scope, std::int64_t total);
  void close_scope(std::uint64_t scope);

 private:
  struct Live {
    std::atomic<std::int64_t> bytes{0}, count{0};
  };
  static SiteId index(SiteId site) { return site < kSites ? site : kSites - 1; }
  void take_snapshot(std::int64_t total);
  void note_in_scopes(std::int64_t total);
  std::vector<Line> live_lines() const;

  std::unique_ptr<Live[]> live_;
  std::atomic<SiteId> highest_{0};
  std::atomic<std::int64_t> peak_{0};
  std::atomic_flag busy_ = ATOMIC_FLAG_INIT;
  std::vector<Line> snapshot_;
  std::atomic<int> open_scopes_{0};
  std::mutex scopes_mutex_;
  std::map<std::uint64_t, Peak> scopes_;
  std::uint64_t last_scope_ = 0;
};

}  // namespace locus::engine
