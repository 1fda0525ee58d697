// The findings of a run as they come in, from any thread: those with one root cause become one. Bounded.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "locus/engine/finding.h"

namespace locus::engine {

/// Collects findings from any thread and makes those with one root cause one. Bounded.
class FindingLog {
 public:
  static constexpr std::size_t kMaxUses = 50;          ///< listed per finding; more are only counted
  static constexpr std::size_t kMaxFindings = 10'000;  ///< further root causes are only counted, see dropped()

  FindingLog();
  ~FindingLog();
  FindingLog(const FindingLog&) = delete;
  FindingLog& operator=(const FindingLog&) = delete;

  /// Takes a finding in. One root cause: same code, same line of the cause (of the use, when the cause is unknown)
  /// and same culprit, by name or else by expression; where one line holds many tensors (a model, a list of layers,
  /// an optimizer, a checkpoint), any culprit. `key` is the caller's own for this very event; 0: none.
  void add(Finding finding, std::uint64_t key = 0);

  /// Counts an event that add() has seen under this key; false when it has not, and the finding must be made.
  bool count_more(std::uint64_t key, std::int64_t times = 1);

  /// All findings: errors before warnings, then by file and line of the cause. Ids are unique.
  std::vector<Finding> findings() const;

  std::size_t size() const;
  bool empty() const { return size() == 0; }
  /// How many events had no room any more.
  std::int64_t dropped() const;
  void clear();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace locus::engine
