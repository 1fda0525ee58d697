// Tests of what a part of a program has added to the ledger.
#include "locus/engine/ledger_rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace locus::engine {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

LedgerRow row(int line, std::int64_t count, std::int64_t bytes = 0, double milliseconds = 0) {
  return {"train.py", line, "step", "cpu", "cuda:0", "", count, bytes, milliseconds};
}

TEST(LedgerMark, WithoutAPartEverythingIsAsItIs) {
  EXPECT_THAT(LedgerMark().since({row(2, 1), row(1, 1), row(1, 2)}), ElementsAre(row(2, 1), row(1, 1), row(1, 2)));
}

TEST(LedgerMark, APartHasWhatWasAdded) {
  const LedgerMark mark({row(9, 3, 30, 1.5), row(1, 1, 10)});
  EXPECT_THAT(mark.since({row(9, 5, 50, 2.0), row(1, 1, 10), row(4, 2, 8)}),
              ElementsAre(row(9, 2, 20, 0.5), row(4, 2, 8)));
  EXPECT_THAT(mark.since({row(9, 3, 30, 1.5), row(1, 1, 10)}), IsEmpty());
}

TEST(LedgerMark, RowsOfOneLineAreAddedUp) {
  const LedgerMark mark({row(1, 1, 10), row(1, 2, 20)});
  EXPECT_THAT(mark.since({row(1, 2, 20), row(1, 3, 30)}), ElementsAre(row(1, 2, 20)));
}

TEST(LedgerMark, OtherDevicesAndKindsAreOtherRows) {
  const LedgerMark mark({row(1, 1)});
  LedgerRow back = row(1, 1), pinned = row(1, 1);
  std::swap(back.from, back.to);
  pinned.kind = "non_blocking";
  EXPECT_THAT(mark.since({row(1, 1), back, pinned}), ElementsAre(back, pinned));
}

}  // namespace
}  // namespace locus::engine
