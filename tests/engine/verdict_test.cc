// Tests of the verdict: for each way a run can go, what it is called and the exit status of the check.
#include "locus/engine/verdict.h"

#include <gtest/gtest.h>

namespace locus::engine {
namespace {

Report run(std::int64_t ops = 10) {
  Report report;
  report.program.ops = ops;
  return report;
}

Report with_finding(Report report = run()) {
  report.findings.emplace_back().code = "LOC004";
  return report;
}

Report ended(Report report, int exit, std::string by = {}) {
  report.program.exit = exit, report.program.ended_by = std::move(by);
  return report;
}

TEST(Verdict, NothingFoundIsSaidOfWhatRanOnADevice) {
  EXPECT_EQ(judge(run()), Verdict::kNothingFound);
  EXPECT_EQ(exit_status(run()), 0);
  EXPECT_TRUE(is_conclusive(run()));
}

TEST(Verdict, FindingsAreOne) {
  EXPECT_EQ(judge(with_finding()), Verdict::kFindings);
  EXPECT_EQ(exit_status(with_finding()), 1);
  EXPECT_EQ(exit_status(ended(with_finding(), 3)), 1);
  EXPECT_EQ(exit_status(ended(with_finding(), 1, "ValueError")), 1);
  EXPECT_EQ(exit_status(ended(with_finding(), 137, "SIGKILL")), 1);
}

TEST(Verdict, AnUnfinishedProgramIsNeverZero) {
  for (const Report& report : {ended(run(), 3), ended(run(), 1, "ValueError"), ended(run(), 134, "SIGABRT")}) {
    EXPECT_EQ(judge(report), Verdict::kNothingFound);
    EXPECT_FALSE(is_finished(report.program));
    EXPECT_FALSE(is_conclusive(report));
    EXPECT_EQ(exit_status(report), report.program.exit);
  }
  EXPECT_EQ(exit_status(ended(run(), 0, "ValueError")), 1);
}

TEST(Verdict, WhoEndsTheRunHearsOfIt) {
  for (const Report& report : {run(), run(0), with_finding()}) {
    EXPECT_EQ(exit_status(ended(report, 130, "SIGINT")), 130);
    EXPECT_EQ(exit_status(ended(report, 143, "SIGTERM")), 143);
  }
}

TEST(Verdict, WithoutAnOperatorNothingWasChecked) {
  Report report = run(0);
  EXPECT_EQ(judge(report), Verdict::kNothingChecked);
  EXPECT_FALSE(is_conclusive(report));
  EXPECT_EQ(exit_status(report), 2);
  report.program.allow_empty = true;
  EXPECT_EQ(exit_status(report), 0);
  EXPECT_EQ(exit_status(ended(report, 1, "SyntaxError")), 1);
}

TEST(Verdict, OnTheHostAloneIsSaidAndFine) {
  Report report = run();
  report.program.on_device = false;
  EXPECT_EQ(judge(report), Verdict::kNothingOnDevice);
  EXPECT_EQ(exit_status(report), 0);
  EXPECT_EQ(exit_status(ended(report, 4)), 4);
}

TEST(Verdict, AnIncompleteCheckNeverLooksLikeSuccess) {
  Report report = run();
  report.program.incomplete = "a mistake could not be recorded";
  report.program.allow_empty = true;
  EXPECT_EQ(judge(report), Verdict::kIncomplete);
  EXPECT_EQ(exit_status(report), 2);
  EXPECT_EQ(exit_status(with_finding(report)), 1);
  EXPECT_EQ(exit_status(ended(report, 9)), 9);
}

TEST(Verdict, ABaselineForgivesWhatIsKnown) {
  Report report = with_finding();
  report.baseline.emplace().known = 1;
  EXPECT_EQ(judge(report), Verdict::kNothingNew);
  EXPECT_EQ(exit_status(report), 0);
  EXPECT_EQ(exit_status(ended(report, 5)), 5);
  report.baseline->new_ids.push_back("id");
  EXPECT_EQ(judge(report), Verdict::kFindings);
  EXPECT_EQ(exit_status(report), 1);
  Report costs_more = run();
  costs_more.baseline.emplace().more.emplace_back();
  EXPECT_EQ(exit_status(costs_more), 1);
}

TEST(Verdict, FixesThatWereWrittenLeaveTheProgramsOwnStatus) {
  EXPECT_EQ(exit_status(with_finding(), /*all_fixed=*/true), 0);
  EXPECT_EQ(exit_status(ended(with_finding(), 3), /*all_fixed=*/true), 3);
}

}  // namespace
}  // namespace locus::engine
