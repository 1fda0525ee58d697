// Counts by source line: transfers, synchronizations. Lock-free and bounded; read once, at the end.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
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

}  // namespace locus::engine
