// Tests of what all ranks' reports come to: consequences go, and what ranks did differently is said.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "locus/engine/ranks/together.h"

namespace locus::engine::ranks {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Finding finding_of(std::string reason, std::vector<int> ranks, std::string culprit = "w", int line = 5) {
  Finding finding;
  finding.reason = std::move(reason), finding.ranks = std::move(ranks), finding.culprit.name = std::move(culprit);
  finding.cause.file = "net.py", finding.cause.line = line, finding.why = "as it was";
  return finding;
}

RankReport rank_of(int rank, std::vector<std::string> ready, std::vector<std::string> lacking = {}) {
  RankReport each;
  each.has_passes = true;
  each.passes.rank = rank;
  each.passes.modules.push_back({2, std::move(ready)});
  if (!lacking.empty()) {
    each.report.findings.push_back(finding_of("unfinished-reduction", {rank}, lacking[0]));
    Lacking entry;
    entry.pass = 2, entry.culprit = lacking[0], entry.names = std::move(lacking), entry.is_unused = true;
    entry.branch = Branch{{"net.py", 4, 0, 4, 9, "", ""}, "if x", false};
    entry.fixes.emplace_back().line = 8;
    each.passes.lacking.push_back(entry);
  }
  return each;
}

std::vector<std::string> reasons(const std::vector<RankReport>& reports) {
  std::vector<std::string> all;
  for (const RankReport& each : reports) {
    for (const Finding& finding : each.report.findings) all.push_back(finding.reason);
  }
  return all;
}

TEST(Together, ABranchThatSomeRanksTookIsSaid) {
  std::vector<RankReport> reports{rank_of(0, {"w", "b"}), rank_of(1, {}, {"w", "b"})};
  tidy(reports);
  ASSERT_EQ(reports[1].report.findings.size(), 1u);
  const Finding& finding = reports[1].report.findings[0];
  EXPECT_EQ(finding.why,
            "`w`, `b` are used only under the `if x` at net.py:4, a branch that rank 0 took and rank 1 did not");
  EXPECT_THAT(finding.notes, ElementsAre(HasSubstr("find_unused_parameters=True, since ranks take different ways")));
  EXPECT_EQ(finding.fixes.at(0).line, 8);
  EXPECT_THAT(finding.ranks, ElementsAre(1));
}

TEST(Together, AWayOutIsSaidOtherwise) {
  std::vector<RankReport> reports{rank_of(0, {"w"}), rank_of(1, {}, {"w"})};
  reports[1].passes.lacking[0].branch->leaves = true;
  tidy(reports);
  EXPECT_EQ(reports[1].report.findings[0].why,
            "`w` is used only after the `if x` at net.py:4, where rank 1 left early and rank 0 did not");
}

TEST(Together, WithoutABranchTheRanksAreNamed) {
  std::vector<RankReport> reports{rank_of(0, {"w"}), rank_of(1, {}, {"w"}), rank_of(2, {"w"})};
  reports[1].passes.lacking[0].branch.reset();
  tidy(reports);
  EXPECT_EQ(reports[1].report.findings[0].why,
            "`w` took part in what forward() returned on ranks 0 and 2, but not on rank 1");
}

TEST(Together, TwoSidesOfABranchAreOneFinding) {
  std::vector<RankReport> reports{rank_of(0, {"l"}, {"r"}), rank_of(1, {"r"}, {"l"})};
  tidy(reports);
  EXPECT_THAT(reasons(reports), ElementsAre("unfinished-reduction"));
  const Finding& finding = reports[0].report.findings[0];
  EXPECT_EQ(finding.why,
            "ranks took different sides of the `if x` at net.py:4; without a gradient were `r` on rank 0; `l` on rank "
            "1");
  EXPECT_THAT(finding.ranks, ElementsAre(0, 1));
}

TEST(Together, WhatAllRanksLackStaysAsItWas) {
  std::vector<RankReport> reports{rank_of(0, {}, {"w"}), rank_of(1, {}, {"w"})};
  tidy(reports);
  EXPECT_EQ(reports[0].report.findings[0].why, "as it was");
  EXPECT_EQ(reports[1].report.findings[0].why, "as it was");
}

TEST(Together, AnotherPassIsNoComparison) {
  std::vector<RankReport> reports{rank_of(0, {"w"}), rank_of(1, {}, {"w"})};
  reports[0].passes.modules[0].pass = 3;
  tidy(reports);
  EXPECT_EQ(reports[1].report.findings[0].why, "as it was");
}

TEST(Together, WhatIsLackedInALaterPassMayFollow) {
  std::vector<RankReport> reports{rank_of(0, {}, {"w"}), rank_of(1, {}, {"w"})};
  reports[0].passes.lacking[0].pass = reports[0].passes.modules[0].pass = 3;
  reports[0].passes.modules[0].all = {"w"};
  tidy(reports);
  EXPECT_TRUE(reports[0].report.findings.empty());
  EXPECT_THAT(reports[1].report.findings[0].why, HasSubstr("a branch that rank 0 took and rank 1 did not"));
}

TEST(Together, TheErrorThatEndedARankIsSaid) {
  std::vector<RankReport> reports(2);
  Finding finding = finding_of("rank-missing", {0});
  finding.culprit.name = "rank 1";
  reports[0].report.findings = {finding};
  reports[1].passes.rank = 1;
  reports[1].passes.raised = Raised{"KeyError", "'x'", "", false, {"/p/train.py", 7, 0, 7, 9, "", ""}};
  tidy(reports);
  EXPECT_THAT(reports[0].report.findings[0].why, HasSubstr("rank 1 ended with KeyError at train.py:7: 'x'"));
}

TEST(Together, AMissingRankIsAConsequence) {
  for (const char* reason : {"unfinished-reduction", "ready-twice", "ranks-part-ways"}) {
    std::vector<RankReport> reports(2);
    reports[0].report.findings = {finding_of("rank-missing", {0})};
    reports[1].report.findings = {finding_of(reason, {0, 1})};
    tidy(reports);
    EXPECT_THAT(reasons(reports), ElementsAre(reason));
  }
  std::vector<RankReport> alone(1);
  alone[0].report.findings = {finding_of("rank-missing", {0}), finding_of("plain-attribute", {0})};
  tidy(alone);
  EXPECT_EQ(alone[0].report.findings.size(), 2u);
}

TEST(Together, PartingIsAConsequenceWhereOnlyOneOfTheRanksLacksAGradient) {
  std::vector<RankReport> reports(2);
  reports[0].report.findings = {finding_of("ranks-part-ways", {0, 1})};
  reports[1].report.findings = {finding_of("unfinished-reduction", {1})};
  tidy(reports);
  EXPECT_THAT(reasons(reports), ElementsAre("unfinished-reduction"));
  reports[0].report.findings = {finding_of("ranks-part-ways", {0, 1})};
  reports[1].report.findings = {finding_of("unfinished-reduction", {0, 1})};
  tidy(reports);
  EXPECT_THAT(reasons(reports), ElementsAre("ranks-part-ways", "unfinished-reduction"));
}

TEST(Together, WhatExplainsTheRest) {
  EXPECT_TRUE(explains_the_rest({"rank-missing"}));
  EXPECT_TRUE(explains_the_rest({"plain-attribute", "ready-twice"}));
  EXPECT_FALSE(explains_the_rest({"plain-attribute", "shared-device"}));
  EXPECT_FALSE(explains_the_rest({}));
}

TEST(Together, PassesAreReadAsPythonWritesThem) {
  const Passes passes = parse_passes(R"({"rank": 1, "modules": [{"pass": 3, "ready": ["w"]}], "lacking": [{"module": 0,
    "pass": 3, "culprit": "b", "names": ["b"], "is_unused": true, "branch": null, "fixes": []}]})");
  EXPECT_EQ(passes.rank, 1);
  EXPECT_EQ(passes.modules.at(0).pass, 3);
  EXPECT_THAT(passes.modules[0].ready, ElementsAre("w"));
  EXPECT_TRUE(passes.lacking.at(0).is_unused);
  EXPECT_FALSE(passes.lacking[0].branch);
  EXPECT_THROW(parse_passes("[]"), FormatError);
}

}  // namespace
}  // namespace locus::engine::ranks
