// Tests of reports of several processes made one: ledgers are added up, ranks are united.
#include "locus/engine/merge.h"

#include <gtest/gtest.h>

#include "locus/engine/finding_log.h"

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

TEST(Merge, ARankSignsItsFindings) {
  Report report;
  report.findings.resize(2);
  report.findings[1].ranks = {0, 3};
  sign(report, 4, 2);
  EXPECT_EQ(report.program.ranks, 4);
  EXPECT_EQ(report.findings[0].ranks, std::vector<int>{2});
  EXPECT_EQ(report.findings[1].ranks, (std::vector<int>{0, 3}));
  Report other;
  other.findings.resize(1);
  sign(other, 0, std::nullopt);
  EXPECT_TRUE(other.findings[0].ranks.empty());
}

TEST(Merge, WhatAProcessLeftUnseenTheWholeHasNotSeen) {
  Report whole = report_of(8, 100, 0), part = report_of(8, 100, 0);
  merge_into(whole, part);
  EXPECT_TRUE(whole.program.all_seen);
  part.program.all_seen = false;
  merge_into(whole, part);
  EXPECT_FALSE(whole.program.all_seen);
}

TEST(Merge, AForkLeavesToItsParentWhatThatHasCounted) {
  Report report = report_of(8, 100, 0);
  report.findings.resize(1);
  leave_to_parent(report);
  EXPECT_TRUE(report.transfers.empty() && report.syncs.empty() && report.memory.empty());
  EXPECT_EQ(report.program.steps, 0);
  EXPECT_EQ(report.program.ops, 10);
  EXPECT_EQ(report.findings.size(), 1u);
}

TEST(News, AreWhatWasNotToldBefore) {
  const auto told = [](std::int64_t a, std::int64_t b) {
    Report report;
    report.findings.resize(2);
    report.findings[0].id = "a", report.findings[0].count = a;
    report.findings[1].id = "b", report.findings[1].count = b;
    return report;
  };
  News news;
  Report report = told(2, 1);
  news.keep_new("7", report);
  EXPECT_EQ(report.findings.size(), 2u);
  report = told(5, 1);
  news.keep_new("7", report);
  ASSERT_EQ(report.findings.size(), 1u);
  EXPECT_EQ(report.findings[0].count, 3);
  report = told(5, 1);
  news.keep_new("8", report);
  EXPECT_EQ(report.findings.size(), 2u);
  news.forget("7");
  report = told(5, 1);
  news.keep_new("7", report);
  EXPECT_EQ(report.findings[0].count, 5);
}

}  // namespace
}  // namespace locus::engine
