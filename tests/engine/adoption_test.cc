// Baselines: what is new is told apart from what only moved. Findings that are ignored leave the report, counted.
#include "locus/engine/adoption.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace locus::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

Finding finding(const std::string& id, int line = 1) {
  Finding finding;
  finding.id = id, finding.code = "LOC003", finding.cause.file = "train.py", finding.cause.line = line;
  return finding;
}

Transfer transfer(int line, const std::string& text, std::int64_t count) {
  Transfer each;
  each.file = "/home/a/train.py", each.line = line, each.from = "cpu", each.to = "cuda:0";
  each.count = count, each.bytes = 4 * count, each.text = text;
  return each;
}

Report report(std::vector<Transfer> transfers, std::int64_t steps = 10) {
  Report report;
  report.transfers = std::move(transfers);
  report.program.steps = steps;
  return report;
}

TEST(Baseline, TellsNewKnownAndGoneFindingsByTheirIds) {
  Report before, now;
  before.findings = {finding("a", 3), finding("b", 9)};
  now.findings = {finding("a", 30), finding("c", 4)};
  const Comparison comparison = compare(before, now, "before.json");
  EXPECT_THAT(comparison.new_ids, ElementsAre("c"));
  EXPECT_EQ(comparison.known, 1);
  ASSERT_EQ(comparison.gone.size(), 1u);
  EXPECT_EQ(comparison.gone[0].id, "b");
  EXPECT_TRUE(comparison.is_worse());
}

TEST(Baseline, AFindingThatIsIgnoredNowIsNotGone) {
  Report before, now;
  before.findings = {finding("a")};
  now.ignored = {{"a", "LOC003", "train.py", 1, "a comment"}};
  EXPECT_THAT(compare(before, now, "").gone, IsEmpty());
}

TEST(Baseline, LinesThatMovedAreNotNew) {
  const Report before = report({transfer(10, "x = x.cuda()", 10), transfer(20, "y = y.cuda()", 10)});
  const Report now = report({transfer(13, "x = x.cuda()", 10), transfer(23, "y = y.cuda()", 10)});
  EXPECT_FALSE(compare(before, now, "").is_worse());
}

TEST(Baseline, ALineThatWasEditedIsPairedWithWhatItWas) {
  const Report before = report({transfer(10, "x = x.cuda()", 10), transfer(20, "y = y.cuda()", 10)});
  const Report now = report({transfer(10, "x = x.to(device)", 10), transfer(20, "y = y.cuda()", 10)});
  EXPECT_FALSE(compare(before, now, "").is_worse());
}

TEST(Baseline, ANewTransferAndAMoreFrequentOneAreTold) {
  const Report before = report({transfer(10, "x = x.cuda()", 10)});
  const Report now = report({transfer(11, "x = x.cuda()", 20), transfer(30, "z = z.cuda()", 10)});
  const Comparison comparison = compare(before, now, "");
  ASSERT_EQ(comparison.more.size(), 2u);
  EXPECT_EQ(comparison.more[0], (Change{"transfer", "/home/a/train.py", 11, "cpu → cuda:0", 10, 20}));
  EXPECT_EQ(comparison.more[1], (Change{"transfer", "/home/a/train.py", 30, "cpu → cuda:0", 0, 10}));
}

TEST(Baseline, MoreStepsAreNotMoreByTheStep) {
  const Report before = report({transfer(10, "x = x.cuda()", 10)}, 10);
  EXPECT_FALSE(compare(before, report({transfer(10, "x = x.cuda()", 30)}, 30), "").is_worse());
  EXPECT_TRUE(compare(before, report({transfer(10, "x = x.cuda()", 60)}, 30), "").is_worse());
  EXPECT_FALSE(compare(before, report({transfer(10, "x = x.cuda()", 9)}, 3), "").is_worse());
}

TEST(Baseline, MemoryIsToldByLineWhereThePeakHasGrown) {
  Report before, now;
  before.memory = {{.device = "cuda:0", .peak = 1000, .by_line = {{"m.py", 5, 600, 1, "a"}, {"m.py", 6, 400, 1, "b"}}}};
  now.memory = {{.device = "cuda:0", .peak = 1000, .by_line = {{"m.py", 5, 300, 1, "a"}, {"m.py", 6, 700, 1, "b"}}}};
  EXPECT_FALSE(compare(before, now, "").is_worse());
  now.memory[0].peak = 1300;
  now.memory[0].by_line = {{"m.py", 8, 600, 1, "a"}, {"m.py", 9, 700, 1, "b"}};
  const Comparison comparison = compare(before, now, "");
  ASSERT_EQ(comparison.more.size(), 1u);
  EXPECT_EQ(comparison.more[0], (Change{"memory", "m.py", 9, "cuda:0", 400, 700}));
}

}  // namespace
}  // namespace locus::engine
