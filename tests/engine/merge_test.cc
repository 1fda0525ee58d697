// Tests of reports of several processes made one: ledgers are added up, ranks are united.
#include "locus/engine/merge.h"

#include <gtest/gtest.h>

namespace locus::engine {
namespace {

Report report_of(std::int64_t bytes, std::int64_t peak, int ranks) {
  Report report;
  Transfer& transfer = report.transfers.emplace_back();
  transfer.file = "train.py", transfer.line = 3, transfer.from = "cpu", transfer.to = "cuda:0";
  transfer.count = 1, transfer.bytes = bytes;
  Sync& sync = report.syncs.emplace_back();
  sync.file = "train.py", sync.line = 4, sync.kind = "item", sync.count = 2;
  DeviceMemory& memory = report.memory.emplace_back();
  memory.device = "cuda:0", memory.peak = peak;
  report.program.steps = 5;
  report.program.ops = 10;
  report.program.ranks = ranks;
  report.notes.push_back("once");
  return report;
}

TEST(Merge, AddsWhatOneLineDidInEachProcess) {
  Report whole = report_of(8, 100, 0);
  merge_into(whole, report_of(16, 300, 2));
  merge_into(whole, report_of(4, 200, 2));
  ASSERT_EQ(whole.transfers.size(), 1u);
  EXPECT_EQ(whole.transfers[0].count, 3);
  EXPECT_EQ(whole.transfers[0].bytes, 28);
  ASSERT_EQ(whole.syncs.size(), 1u);
  EXPECT_EQ(whole.syncs[0].count, 6);
  ASSERT_EQ(whole.memory.size(), 1u);
  EXPECT_EQ(whole.memory[0].peak, 300);
  EXPECT_EQ(whole.program.ops, 30);
  EXPECT_EQ(whole.program.steps, 5);
  EXPECT_EQ(whole.program.ranks, 2);
  EXPECT_EQ(whole.notes, std::vector<std::string>{"once"});
}

TEST(Merge, KeepsWhatIsOfOneProcessOnly) {
  Report whole = report_of(8, 100, 0), other = report_of(8, 100, 0);
  other.transfers[0].line = 9;
  other.memory[0].device = "cuda:1";
  other.notes[0] = "another";
  merge_into(whole, other);
  EXPECT_EQ(whole.transfers.size(), 2u);
  EXPECT_EQ(whole.memory.size(), 2u);
  EXPECT_EQ(whole.notes.size(), 2u);
}

TEST(Merge, UnitesTheRanksOfOneFinding) {
  FindingLog log;
  for (const int rank : {2, 0, 2}) {
    Finding finding;
    finding.code = "LOC022";
    finding.cause.file = "train.py";
    finding.cause.line = 7;
    finding.ranks = {rank};
    log.add(finding);
  }
  ASSERT_EQ(log.size(), 1u);
  EXPECT_EQ(log.findings()[0].ranks, (std::vector<int>{0, 2}));
  EXPECT_EQ(log.findings()[0].count, 3);
}

}  // namespace
}  // namespace locus::engine
