// Tests of parameters that a plan has left out: what differs between ranks is found, and nothing else.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "locus/engine/ranks/left_out.h"
#include "locus/engine/ranks/together.h"

namespace locus::engine::ranks {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

using Numbers = std::vector<double>;

LeftOut parameter(std::string name, Numbers values, std::vector<Numbers> gradients, std::vector<int> group = {0, 1}) {
  Facts facts;
  facts.use = {"train.py", 20, 0, 20, 9, "", ""}, facts.cause = {"train.py", 8, 0, 8, 9, "", ""};
  facts.subject = "Net";
  return {std::move(name), std::move(group), facts, std::move(values), std::move(gradients)};
}

TEST(LeftOut, OtherValues) {
  const auto found = find_left_out({{0, {parameter("b", {1, 2}, {}), parameter("a", {3, 4}, {})}},
                                    {1, {parameter("b", {2, 1}, {}), parameter("a", {4, 3}, {})}}});
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].code, "LOC043");
  EXPECT_EQ(found[0].message, "`b`, `a` of Net have other values on each rank");
  EXPECT_EQ(found[0].cause.line, 8);
  EXPECT_THAT(found[0].ranks, ElementsAre(0, 1));
}

TEST(LeftOut, OtherGradientsInEveryStep) {
  const auto found =
      find_left_out({{0, {parameter("w", {1, 1}, {{1, 0}, {2, 0}})}}, {1, {parameter("w", {1, 1}, {{0, 1}, {0, 2}})}}});
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].message, "`w` of Net gets another gradient on each rank, and nothing adds them up");
}

TEST(LeftOut, WhatIsAlikeIsNoFinding) {
  const Numbers noise{1 + 1e-6, 2};
  EXPECT_THAT(find_left_out({{0, {parameter("w", {1, 2}, {{1, 2}})}}, {1, {parameter("w", noise, {{1 + 1e-6, 2}})}}}),
              IsEmpty());
  // Once is no pattern: a step may have been left out on one rank.
  EXPECT_THAT(find_left_out({{0, {parameter("w", {1}, {{1}, {3}})}}, {1, {parameter("w", {1}, {{2}, {3}})}}}),
              IsEmpty());
  // The noise of a gradient that is zero, beside one that is not.
  EXPECT_THAT(find_left_out({{0, {parameter("w", {1}, {{1}}), parameter("k", {1}, {{1e-9}})}},
                             {1, {parameter("w", {1}, {{1}}), parameter("k", {1}, {{-1e-9}})}}}),
              IsEmpty());
}

TEST(LeftOut, OnlyRanksOfOneGroupAreCompared) {
  EXPECT_THAT(find_left_out({{0, {parameter("w", {1}, {}, {0, 1})}}, {2, {parameter("w", {5}, {}, {2, 3})}}}),
              IsEmpty());
}

TEST(LeftOut, WhoExchangesByHandHasAWayOfTheirOwn) {
  RankLeftOut one{0, {parameter("w", {1}, {})}}, other{1, {parameter("w", {2}, {})}};
  EXPECT_EQ(find_left_out({one, other}).size(), 1u);
  other.by_hand = {{0, 1, 2, 3}};
  EXPECT_THAT(find_left_out({one, other}), IsEmpty());
  other.by_hand = {{1, 2}};
  EXPECT_EQ(find_left_out({one, other}).size(), 1u);
}

TEST(LeftOut, ComesWithWhatARankLeaves) {
  std::vector<RankReport> reports(2);
  for (int rank = 0; rank < 2; ++rank) {
    RankReport& each = reports[static_cast<std::size_t>(rank)];
    each.has_passes = true;
    each.passes = parse_passes(R"({"rank": )" + std::to_string(rank) +
                               R"(, "left_out": [{"name": "w", "group": [0, 1], "values": [)" + std::to_string(rank) +
                               R"(.5], "gradients": [[1.0]], "facts": {"seen": "other-values", "subject": "Net"}}],
                                   "by_hand": []})");
  }
  tidy(reports);
  ASSERT_EQ(reports[0].report.findings.size(), 1u);
  EXPECT_THAT(reports[0].report.findings[0].message, HasSubstr("`w` of Net has other values"));
  EXPECT_THAT(reports[1].report.findings, IsEmpty());
}

}  // namespace
}  // namespace locus::engine::ranks
