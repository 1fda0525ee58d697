// What a dry run could not know and decided by itself, counted by line: values that reached the host, shapes that hang
// on values, random numbers that were not drawn, memory beyond the card's. The report lists them, so that nobody takes
// a printed loss for real.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "locus/engine/origin.h"

namespace locus::engine {

enum class MadeUpKind : std::uint8_t {
  kValue,   ///< an unknown value was read by the host
  kShape,   ///< a shape hung on unknown values
  kDraw,    ///< random numbers were not drawn: what is drawn later differs from a run with values
  kMemory,  ///< the card would have been out of memory; the run went on
  kReal,    ///< no shape rule: the operator was computed for real, on zeros
};

/// As reports have it.
constexpr const char* to_string(MadeUpKind kind) {
  switch (kind) {
    case MadeUpKind::kValue:
      return "value";
    case MadeUpKind::kShape:
      return "shape";
    case MadeUpKind::kDraw:
      return "draw";
    case MadeUpKind::kMemory:
      return "memory";
    case MadeUpKind::kReal:
      break;
  }
  return "computed";
}

struct MadeUp {
  SiteId site = 0;
  MadeUpKind kind = MadeUpKind::kValue;
  OperatorId operation = 0;
  auto operator<=>(const MadeUp&) const = default;
};

struct MadeUpCount {
  std::int64_t count = 0;
  std::int64_t most = 0;  ///< kMemory: bytes beyond the capacity, at most
  std::size_t order = 0;  ///< which row was the first, the second …
};

/// Bounded: lines past the limit are counted as one unknown line. Thread-safe.
class MadeUpTable {
 public:
  static constexpr std::size_t kMaxRows = 4096;

  /// Returns how often this very row has been added, with this time.
  std::int64_t add(MadeUp what, std::int64_t amount = 0) {
    const std::lock_guard guard(mutex_);
    auto found = rows_.find(what);
    if (found == rows_.end()) {
      if (rows_.size() >= kMaxRows) what.site = 0, what.operation = 0;
      found = rows_.try_emplace(what, MadeUpCount{0, 0, rows_.size()}).first;
    }
    found->second.count += 1;
    if (amount > found->second.most) found->second.most = amount;
    return found->second.count;
  }
  /// In the order in which they came up.
  std::vector<std::pair<MadeUp, MadeUpCount>> rows() const {
    std::unique_lock guard(mutex_);
    std::vector<std::pair<MadeUp, MadeUpCount>> all(rows_.begin(), rows_.end());
    guard.unlock();
    std::ranges::sort(all, {}, [](const auto& row) { return row.second.order; });
    return all;
  }

 private:
  mutable std::mutex mutex_;
  std::map<MadeUp, MadeUpCount> rows_;
};

}  // namespace locus::engine
