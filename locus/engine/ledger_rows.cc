// See ledger_rows.h.
#include "locus/engine/ledger_rows.h"

#include <algorithm>

namespace locus::engine {

std::map<LedgerMark::Key, LedgerMark::Sum> LedgerMark::sum(const std::vector<LedgerRow>& rows) {
  std::map<Key, Sum> sums;
  for (const LedgerRow& row : rows) {
    const auto [found, is_new] =
        sums.try_emplace({row.file, row.line, row.function, row.from, row.to, row.kind}, Sum{row, sums.size()});
    if (is_new) continue;
    LedgerRow& all = found->second.row;
    all.count += row.count, all.bytes += row.bytes, all.milliseconds += row.milliseconds;
  }
  return sums;
}

std::vector<LedgerRow> LedgerMark::since(std::vector<LedgerRow> rows) const {
  if (sums_.empty()) return rows;
  std::vector<Sum> added;
  for (auto& [key, now] : sum(rows)) {
    if (const auto before = sums_.find(key); before != sums_.end()) {
      now.row.count -= before->second.row.count, now.row.bytes -= before->second.row.bytes;
      now.row.milliseconds = std::max(0.0, now.row.milliseconds - before->second.row.milliseconds);
    }
    if (now.row.count > 0) added.push_back(std::move(now));
  }
  std::sort(added.begin(), added.end(), [](const Sum& a, const Sum& b) { return a.place < b.place; });
  std::vector<LedgerRow> result;
  for (Sum& each : added) result.push_back(std::move(each.row));
  return result;
}

}  // namespace locus::engine
