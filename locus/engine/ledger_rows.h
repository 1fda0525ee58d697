// The ledger by the lines of the program, and what a part of the program has added to it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace locus::engine {

/// Copies, or waits, of one line.
struct LedgerRow {
  std::string file;
  int line = 0;
  std::string function;
  std::string from, to;
  std::string kind;  ///< of a copy: how it was made; of a wait: by which operator
  std::int64_t count = 0, bytes = 0;
  double milliseconds = 0;  ///< on the host's clock; 0: not measured
  bool operator==(const LedgerRow&) const = default;
};

/// Where a part of the program began: what the counters, which only grow, said then.
class LedgerMark {
 public:
  LedgerMark() = default;
  explicit LedgerMark(const std::vector<LedgerRow>& rows) : sums_(sum(rows)) {}

  /// What has been added since; without a part, all of it as it is.
  std::vector<LedgerRow> since(std::vector<LedgerRow> rows) const;

 private:
  using Key = std::tuple<std::string, int, std::string, std::string, std::string, std::string>;
  struct Sum {
    LedgerRow row;  ///< with the counts of all rows of that line
    std::size_t place = 0;
  };
  static std::map<Key, Sum> sum(const std::vector<LedgerRow>& rows);

  std::map<Key, Sum> sums_;
};

}  // namespace locus::engine
