// Tests of grouping: what is one mistake and what is two, counting, order, bounds, many threads.
#include "locus/engine/finding_log.h"

#include <gtest/gtest.h>

#include <set>
#include <thread>

namespace locus::engine {
namespace {

Use use_at(int line, std::string op = "add", std::string file = "train.py") {
  Use use;
  use.at.file = std::move(file);
  use.at.line = line;
  use.op = std::move(op);
  return use;
}

Finding make(int cause_line, int use_line, std::string name = "model.cache", std::string code = "LOC003") {
  Finding finding;
  finding.severity = find_code(code)->severity;
  finding.code = std::move(code);
  finding.cause.file = "train.py";
  finding.cause.line = cause_line;
  finding.culprit.name = std::move(name);
  finding.uses = {use_at(use_line)};
  return finding;
}

TEST(FindingLog, MakesOneFindingOfOneCause) {
  FindingLog log;
  log.add(make(12, 41));
  log.add(make(12, 63));
  log.add(make(12, 41));
  const auto findings = log.findings();
  ASSERT_EQ(findings.size(), 1u);
  ASSERT_EQ(findings[0].uses.size(), 2u);
  EXPECT_EQ(findings[0].uses[0].count, 2);
  EXPECT_EQ(findings[0].uses[1].count, 1);
  EXPECT_EQ(findings[0].count, 3);
}

TEST(FindingLog, KeepsDifferentCausesApart) {
  FindingLog log;
  log.add(make(12, 41));
  log.add(make(13, 41));                           // another line
  log.add(make(12, 41, "model.other"));            // another culprit
  log.add(make(12, 41, "model.cache", "LOC004"));  // another code
  auto elsewhere = make(12, 41);
  elsewhere.cause.file = "net.py";
  log.add(elsewhere);
  EXPECT_EQ(log.findings().size(), 5u);
}

TEST(FindingLog, MakesOneFindingOfALineThatHoldsManyTensors) {
  for (const char* code : {"LOC001", "LOC002", "LOC009", "LOC010"}) {
    FindingLog log;
    log.add(make(12, 41, "model.0.weight", code));
    log.add(make(12, 41, "model.0.bias", code));
    log.add(make(13, 41, "other.weight", code));
    EXPECT_EQ(log.findings().size(), 2u) << code;
  }
}

TEST(FindingLog, MakesOneFindingOfWhatOneEditMends) {
  FindingLog log;
  auto first = make(12, 41);
  Fix fix;
  fix.file = "train.py";
  fix.line = 12;
  fix.new_text = "x = x.to(device)";
  first.fixes = {fix};
  auto again = first;
  again.cause.end_column = 9;  // the loop, by its columns and by its name
  log.add(first);
  log.add(again);
  auto other = again;
  other.cause.end_column = 8;
  other.fixes[0].new_text = "y = y.to(device)";
  log.add(other);
  EXPECT_EQ(log.findings().size(), 2u);
}

TEST(FindingLog, MakesOneFindingOfTheOperatorsInsideOneCall) {
  FindingLog log;
  auto first = make(12, 41);
  first.uses[0].library = use_at(3464, "", "functional.py").at;
  auto second = first;
  second.cause.line = 41;
  second.uses[0].op = "mul";
  log.add(first);
  log.add(second);
  ASSERT_EQ(log.findings().size(), 1u);
  EXPECT_EQ(log.findings()[0].uses.size(), 2u);
  second.uses[0].library.reset();  // of the program's own: two lines to fix
  second.uses[0].at.line = 42;
  log.add(second);
  EXPECT_EQ(log.findings().size(), 2u);
}

TEST(FindingLog, TakesTheExpressionWhenThereIsNoName) {
  FindingLog log;
  for (const char* expression : {"x", "y", "x"}) {
    auto finding = make(12, 41, "");
    finding.culprit.expression = expression;
    log.add(finding);
  }
  EXPECT_EQ(log.findings().size(), 2u);
}

TEST(FindingLog, TakesTheUseWhenTheCauseIsUnknown) {
  FindingLog log;
  log.add(make(0, 41));
  log.add(make(0, 42));
  log.add(make(0, 41));
  EXPECT_EQ(log.findings().size(), 2u);
}

TEST(FindingLog, TellsOperatorsOfOneLineApart) {
  FindingLog log;
  auto finding = make(12, 41);
  finding.uses.push_back(use_at(41, "mul"));
  log.add(finding);
  ASSERT_EQ(log.findings()[0].uses.size(), 2u);
  EXPECT_EQ(log.findings()[0].count, 2);
}

TEST(FindingLog, CountsRepeatsByKey) {
  FindingLog log;
  EXPECT_FALSE(log.count_more(7));
  log.add(make(12, 41), 7);
  log.add(make(12, 63), 8);
  EXPECT_TRUE(log.count_more(7));
  EXPECT_TRUE(log.count_more(7, 98));
  EXPECT_TRUE(log.count_more(8));
  EXPECT_FALSE(log.count_more(9));
  const Finding finding = log.findings()[0];
  EXPECT_EQ(finding.count, 102);
  EXPECT_EQ(finding.uses[0].count, 100);
  EXPECT_EQ(finding.uses[1].count, 2);
}

TEST(FindingLog, HasNoKeyZero) {
  FindingLog log;
  log.add(make(12, 41));
  EXPECT_FALSE(log.count_more(0));
}

TEST(FindingLog, RemembersTheFirstStep) {
  FindingLog log;
  auto late = make(12, 41), early = make(12, 41);
  late.first_step = late.uses[0].first_step = 9;
  early.first_step = early.uses[0].first_step = 2;
  log.add(late);
  log.add(early);
  EXPECT_EQ(log.findings()[0].first_step, 2);
  EXPECT_EQ(log.findings()[0].uses[0].first_step, 2);
}

TEST(FindingLog, FillsInWhatTheFirstEventDidNotKnow) {
  FindingLog log;
  log.add(make(12, 41));
  auto second = make(12, 41);
  second.why = "because";
  second.fixes.emplace_back().new_text = "self.x = y";
  second.uses[0].caught_by.emplace().line = 80;
  log.add(second);
  auto third = make(12, 41);
  third.why = "for another reason";
  log.add(third);
  const Finding finding = log.findings()[0];
  EXPECT_EQ(finding.why, "because");
  ASSERT_EQ(finding.fixes.size(), 1u);
  EXPECT_EQ(finding.uses[0].caught_by->line, 80);
}

TEST(FindingLog, SortsBySeverityFileAndLine) {
  FindingLog log;
  log.add(make(1, 1, "w", "LOC027"));  // a warning
  log.add(make(30, 1));
  log.add(make(4, 1));
  auto other_file = make(2, 1);
  other_file.cause.file = "zebra.py";
  log.add(other_file);
  std::vector<int> lines;
  for (const Finding& finding : log.findings()) lines.push_back(finding.cause.line);
  EXPECT_EQ(lines, (std::vector<int>{4, 30, 2, 1}));
}

TEST(FindingLog, ListsAtMostFiftyUses) {
  FindingLog log;
  for (int line = 1; line <= 1000; ++line) log.add(make(12, line), static_cast<std::uint64_t>(line));
  for (int line = 1; line <= 1000; ++line) log.add(make(12, line));  // the same places again
  EXPECT_TRUE(log.count_more(1000));                                 // one that is not listed
  const Finding finding = log.findings()[0];
  EXPECT_EQ(finding.uses.size(), FindingLog::kMaxUses);
  EXPECT_EQ(finding.more_uses, 950);
  EXPECT_EQ(finding.count, 2001);
}

TEST(FindingLog, IsBounded) {
  FindingLog log;
  constexpr int kMany = static_cast<int>(FindingLog::kMaxFindings) + 100;
  for (int line = 1; line <= kMany; ++line) log.add(make(line, line), static_cast<std::uint64_t>(line));
  EXPECT_EQ(log.size(), FindingLog::kMaxFindings);
  EXPECT_EQ(log.dropped(), 100);
  EXPECT_FALSE(log.count_more(kMany));  // had no room
  EXPECT_TRUE(log.count_more(1));
  log.clear();
  EXPECT_TRUE(log.empty());
  EXPECT_EQ(log.dropped(), 0);
  EXPECT_FALSE(log.count_more(1));
}

TEST(FindingLog, CountsAtLeastOne) {
  FindingLog log;
  auto finding = make(12, 41);
  finding.count = 0;
  finding.uses[0].count = -3;
  log.add(finding);
  EXPECT_EQ(log.findings()[0].count, 1);
  EXPECT_EQ(log.findings()[0].uses[0].count, 1);
}

TEST(Fingerprint, SurvivesMovedLinesAndFolders) {
  auto a = make(12, 41), b = make(99, 3);
  a.cause.file = "/home/me/train.py";
  b.cause.file = "/srv/job/train.py";
  EXPECT_EQ(fingerprint(a), fingerprint(b));
  EXPECT_EQ(fingerprint(a).size(), 16u);
  b.cause.function = "forward";
  EXPECT_NE(fingerprint(a), fingerprint(b));
  b = a;
  b.culprit.name = "model.other";
  EXPECT_NE(fingerprint(a), fingerprint(b));
  b = a;
  b.code = "LOC004";
  EXPECT_NE(fingerprint(a), fingerprint(b));
}

TEST(Fingerprint, IsTheSameOnEveryMachine) { EXPECT_EQ(fingerprint(make(12, 41)), "28308b70a3868a4c"); }

TEST(Fingerprint, IsUniqueInALog) {
  FindingLog log;
  for (const int line : {5, 6, 7}) log.add(make(line, 41));
  std::set<std::string> ids;
  for (const Finding& finding : log.findings()) ids.insert(finding.id);
  EXPECT_EQ(ids.size(), 3u);
  EXPECT_TRUE(ids.contains(fingerprint(make(5, 41))));
  EXPECT_TRUE(ids.contains(fingerprint(make(5, 41)) + "-2"));
}

TEST(FindingLog, CountsFromManyThreads) {
  FindingLog log;
  constexpr int kThreads = 8, kRounds = 500;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&log] {
      for (int i = 0; i < kRounds; ++i) {
        const int line = i % 10 + 1;
        const auto key = static_cast<std::uint64_t>(line);
        if (!log.count_more(key)) log.add(make(line % 2 + 1, line), key);
        if (i % 100 == 0) static_cast<void>(log.findings());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const auto findings = log.findings();
  ASSERT_EQ(findings.size(), 2u);
  EXPECT_EQ(findings[0].count + findings[1].count, kThreads * kRounds);
  std::int64_t in_uses = 0;
  for (const Finding& finding : findings) {
    EXPECT_EQ(finding.uses.size(), 5u);
    for (const Use& use : finding.uses) in_uses += use.count;
  }
  EXPECT_EQ(in_uses, kThreads * kRounds);
}

}  // namespace
}  // namespace locus::engine
