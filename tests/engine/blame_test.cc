// Tests of blame() itself: from a case, as Python hands it over, to findings. Cases are written as JSON, the way they
// cross.
#include "locus/engine/blame/blame.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "locus/engine/blame/ranking.h"

namespace locus::engine {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

Json place(int line) { return {{"file", "train.py"}, {"line", line}, {"end_line", line}, {"function", "main"}}; }

Json step(const char* action, const char* device, bool is_explicit, int line) {
  return {{"action", action}, {"op", "op"}, {"device", device}, {"explicit", is_explicit}, {"at", place(line)}};
}

Json candidate(const char* edit, int line, std::vector<std::string> facts = {}, const char* text = "new") {
  Json json = {{"edit", edit}, {"at", place(line)}, {"facts", facts}, {"fix", nullptr}};
  if (*text != '\0') json["fix"] = {{"file", "train.py"}, {"line", line}, {"old", "old"}, {"new", text}};
  return json;
}

/// An operand on a device; `history`: made there by default at line 1, unless it says otherwise.
Json operand(const char* name, const char* device, const char* kind = "variable") {
  const bool on_cpu = std::string(device) == "cpu";
  return {{"argument", name},
          {"name", name},
          {"expression", name},
          {"kind", kind},
          {"device", device},
          {"odd", on_cpu},
          {"rule", "same"},
          {"history", Json::array({step("created", device, !on_cpu, 1)})},
          {"candidates", Json::array()}};
}

Json addition(std::vector<Json> operands) {
  return {{"kind", "operator"}, {"op", "add"}, {"device", "cuda:0"}, {"use", place(9)}, {"operands", operands}};
}

std::vector<Finding> judged(const Json& broken) { return blame(parse_case(broken.dump())); }

TEST(Blame, TheTensorThatMerelyLandedThereIsWrong) {
  const auto found = judged(addition({operand("x", "cuda:0"), operand("mask", "cpu")}));
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].culprit.name, "mask");
  EXPECT_EQ(found[0].culprit.expected_device, "cuda:0");
  EXPECT_EQ(found[0].reason, "default-device");
  EXPECT_EQ(found[0].cause.line, 1) << "where it was made";
  EXPECT_THAT(found[0].why, HasSubstr("without a device"));
}

TEST(Blame, EachCulpritWithACauseOfItsOwnIsAFinding) {
  Json a = operand("a", "cpu"), b = operand("b", "cpu");
  a["history"] = Json::array({step("created", "cpu", false, 2)});
  b["history"] = Json::array({step("created", "cpu", false, 3)});
  EXPECT_THAT(judged(addition({operand("x", "cuda:0"), a, b})), SizeIs(2));
}

TEST(Blame, TwoCulpritsOfOneLineAreOneFinding) {
  EXPECT_THAT(judged(addition({operand("x", "cuda:0"), operand("a", "cpu"), operand("b", "cpu")})), SizeIs(1));
}

TEST(Blame, ATensorOnTheHostOnPurposeIsNotMovedAgainstItsWill) {
  Json kept = operand("kept", "cpu");
  kept["history"] = Json::array({step("moved", "cpu", true, 3)});
  const auto found = judged(addition({operand("x", "cuda:0"), kept}));
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].reason, "handoff-missing");
}

TEST(Blame, ALoadedTensorIsWrongEvenWhereItIsWritten) {
  Json running = operand("stats", "cpu"), x = operand("x", "cuda:0");
  running["history"] = Json::array({step("loaded", "cpu", true, 2)});
  running["written"] = true;
  x["odd"] = false;
  const auto found = judged(addition({running, x}));
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].culprit.name, "stats") << "map_location=\"cpu\" says no more than .to(device)";
  EXPECT_EQ(found[0].reason, "checkpoint");
}

TEST(Blame, BetweenTwoCardsTheModuleSaysWhatIsRight) {
  Json broken = addition({operand("h", "cuda:0"), operand("w", "cuda:1", "parameter")});
  broken["home"] = "cuda:1";
  const auto found = judged(broken);
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].culprit.name, "h");
  EXPECT_EQ(found[0].culprit.expected_device, "cuda:1");
}

TEST(Blame, WhatAnObjectGathersOnTheHostIsBroughtThere) {
  Json table = operand("meter.hits", "cpu", "object-attribute");
  table["written"] = true;
  Json broken = addition({table, operand("hit", "cuda:0")});
  EXPECT_EQ(judged(broken)[0].culprit.name, "meter.hits");
  broken["home"] = "host";
  const auto found = judged(broken);
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].culprit.name, "hit");
  EXPECT_EQ(found[0].culprit.expected_device, "cpu");
}

TEST(Blame, WhatIsPutThereWithTheModuleIsNoCacheWhicheverMethodComputesIt) {
  Json mask = operand("net.mask", "cpu", "plain-attribute");
  mask["history"][0]["at"]["function"] = "Net.make_mask";
  EXPECT_EQ(judged(addition({operand("x", "cuda:0"), mask}))[0].reason, "cache");
  mask["candidates"] = Json::array({candidate("register_buffer", 3, {}, "a buffer")});
  EXPECT_EQ(judged(addition({operand("x", "cuda:0"), mask}))[0].reason, "plain-attribute");
}

TEST(Blame, TheFirstCandidateIsTheCauseAndItsFixIsShown) {
  Json mask = operand("mask", "cpu");
  mask["candidates"] = Json::array(
      {candidate("move_at_use", 9, {}, "at the use"), candidate("factory_device", 1, {}, "where it is made")});
  const auto found = judged(addition({operand("x", "cuda:0"), mask}));
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].cause.line, 1);
  ASSERT_THAT(found[0].fixes, SizeIs(1));
  EXPECT_EQ(found[0].fixes[0].new_text, "where it is made");
  ASSERT_GE(found[0].candidates.size(), 2u);
  EXPECT_EQ(found[0].candidates[0].edit, EditKind::kFactoryDevice);
}

TEST(Blame, WhatTheTextSaysBeatsTheRestForm) {
  Json y = operand("y", "cpu", "batch");
  y["history"] = Json::array({step("received", "cpu", false, 4)});
  y["candidates"] = Json::array({candidate("move_at_use", 9), candidate("move_batch", 4),
                                 candidate("move_on_the_way", 6, {"sibling_is_moved"}, "x.to(device), y.to(device)")});
  const auto found = judged(addition({operand("x", "cuda:0"), y}));
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].reason, "batch-not-moved");
  EXPECT_EQ(found[0].cause.line, 6);
}

TEST(Blame, WhatNeverGetsToTheUseIsNotBlamed) {
  Json mean = operand("model.mean", "cpu", "buffer");
  mean["candidates"] = Json::array({candidate("move_module", 2, {"module_left", "never_reaches"}),
                                    candidate("factory_device", 7, {"replaced_after_move"})});
  const auto found = judged(addition({operand("x", "cuda:0"), mean}));
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].cause.line, 7);
}

TEST(Blame, CauseAndFixAreOneLine) {
  Json mask = operand("mask", "cpu");
  mask["candidates"] = Json::array(
      {candidate("move_on_the_way", 5, {"sibling_is_moved"}, ""), candidate("factory_device", 1, {}, "elsewhere")});
  const auto found = judged(addition({operand("x", "cuda:0"), mask}));
  ASSERT_THAT(found, SizeIs(1));
  for (const Fix& fix : found[0].fixes) EXPECT_EQ(fix.line, found[0].cause.line);
}

TEST(Blame, AThrownAwayMoveHasItsOwnReason) {
  Json x = operand("x", "cpu");
  x["candidates"] = Json::array({candidate("assign_to", 3, {}, "x = x.cuda()")});
  const auto found = judged(addition({operand("w", "cuda:0"), x}));
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].reason, "to-not-assigned");
  EXPECT_THAT(found[0].why, HasSubstr(".cuda() gives a moved copy"));
}

TEST(Blame, ATableThatLandedOnTheHostIsWrongNotItsIndex) {
  Json table = operand("table", "cpu"), index = operand("ids", "cuda:0");
  table["odd"] = false, table["position"] = 0;
  index["odd"] = true, index["rule"] = "index", index["position"] = 1;
  index["history"] = Json::array({step("computed", "cuda:0", false, 5)});
  Json broken = addition({table, index});
  broken["kind"] = "index", broken["device"] = "cpu";
  const auto found = judged(broken);
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].culprit.name, "table");
  EXPECT_EQ(found[0].culprit.expected_device, "cuda:0");
}

TEST(Blame, AnIndexThatWasComputedIsRightWhereItIs) {
  Json table = operand("table", "cpu"), index = operand("index", "cuda:0");
  table["odd"] = false, table["position"] = 0;
  index["odd"] = true, index["rule"] = "index", index["position"] = 1;
  Json broken = addition({table, index});
  broken["kind"] = "index";
  broken["device"] = "cpu";
  EXPECT_EQ(judged(broken)[0].culprit.name, "index") << "made there on purpose: it is to come to the host";
  index["history"].push_back(step("computed", "cuda:0", false, 5));
  broken["operands"][1] = index;
  EXPECT_EQ(judged(broken)[0].culprit.name, "table");
}

TEST(Blame, ACallThatLeavesOutTheDeviceHasItsOwnReason) {
  Json mask = operand("mask", "cpu");
  mask["candidates"] = Json::array({candidate("move_at_use", 9), candidate("factory_device", 1),
                                    candidate("pass_device", 6, {"device_not_passed"}, "make(3, device=device)")});
  const auto found = judged(addition({operand("x", "cuda:0"), mask}));
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].code, "LOC033");
  EXPECT_EQ(found[0].cause.line, 6);
  EXPECT_THAT(found[0].why, HasSubstr("takes the device and was not given it"));
}

TEST(Blame, ALiteralComesBehindAnyLineThatHasAName) {
  Json mask = operand("mask", "cpu");
  mask["candidates"] = Json::array({candidate("factory_device", 1, {"literal_device"}), candidate("move_at_use", 9)});
  EXPECT_EQ(judged(addition({operand("x", "cuda:0"), mask}))[0].cause.line, 9);
}

TEST(Blame, WithoutOperandsItSaysWhatIsKnown) {
  Json broken = {{"kind", "fork"},
                 {"op", "a worker"},
                 {"device", "cuda:0"},
                 {"use", place(3)},
                 {"candidates", Json::array({candidate("stay_on_cpu", 3)})}};
  const auto found = judged(broken);
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].reason, "fork-cuda");
  EXPECT_EQ(found[0].cause.line, 3);
  EXPECT_THAT(found[0].fixes, SizeIs(1));
}

TEST(Blame, ARefusalIsToldInItsOwnWords) {
  Json broken = addition({operand("x", "cuda:0"), operand("mask", "cpu")});
  EXPECT_THAT(judged(broken)[0].message, HasSubstr("add() got cuda:0 and cpu"));
  broken["refused_with"] = "the mask is elsewhere";
  EXPECT_EQ(judged(broken)[0].message, "the mask is elsewhere");
  EXPECT_EQ(judged(broken)[0].culprit.name, "mask");
}

TEST(Blame, RefusesACaseThatIsNone) {
  EXPECT_THROW(parse_case("[]"), FormatError);
  EXPECT_THROW(parse_case(R"({"kind": "weather"})"), FormatError);
  EXPECT_THROW(parse_case(R"({"operands": [{"candidates": [{"edit": "pray"}]}]})"), FormatError);
}

TEST(Ranking, AFactThatSpeaksForACandidateNeverMakesItWorse) {
  for (std::size_t reason = 0; reason < std::size(kCodes); ++reason) {
    for (std::size_t edit = 0; edit < kCount<EditKind>; ++edit) {
      Candidate plain;
      plain.edit = static_cast<EditKind>(edit);
      Candidate told = plain;
      told.facts = {Fact::kSiblingIsMoved};
      EXPECT_GT(score_of(told, static_cast<Code>(reason)), score_of(plain, static_cast<Code>(reason)));
    }
  }
}

TEST(Ranking, WhatNeverReachesComesBehindTheSameLineThatDoes) {
  Candidate reaches, never;
  never.facts = {Fact::kNeverReaches};
  std::vector<Candidate> all{never, reaches};
  rank(all, Code::kDefaultDevice);
  EXPECT_TRUE(all[0].facts.empty());
}

/// Whatever comes in, something comes out, and it is consistent in itself.
TEST(Blame, HoldsForAnyCase) {
  std::mt19937 random(20260731);
  const auto below = [&](std::size_t n) { return static_cast<std::size_t>(random()) % n; };
  const char* const devices[] = {"cpu", "cuda:0", "cuda:1", ""};
  const auto word = [&]<class Enum>(Enum) { return std::string(to_string(static_cast<Enum>(below(kCount<Enum>)))); };
#ifdef __SANITIZE_THREAD__
  constexpr int kRounds = 200;  // it is one thread's work
#else
  constexpr int kRounds = 3000;
#endif
  for (int round = 0; round < kRounds; ++round) {
    Json broken = addition({});
    broken["kind"] = word(CaseKind{});
    broken["device"] = devices[below(3)];
    for (std::size_t n = below(5); n > 0; --n) {
      Json o = operand(fmt::format("t{}", n).c_str(), devices[below(4)]);
      o["kind"] = word(Kind{});
      o["odd"] = below(2) == 0;
      o["written"] = below(5) == 0;
      o["history"] = Json::array();
      for (std::size_t k = below(3); k > 0; --k) {
        o["history"].push_back(step(word(Action{}).c_str(), devices[below(3)], below(2) == 0, static_cast<int>(k)));
      }
      for (std::size_t k = below(4); k > 0; --k) {
        o["candidates"].push_back(candidate(word(EditKind{}).c_str(), static_cast<int>(below(12)), {word(Fact{})},
                                            below(2) == 0 ? "new" : ""));
      }
      broken["operands"].push_back(o);
    }
    const auto found = judged(broken);
    ASSERT_FALSE(found.empty());
    for (const Finding& finding : found) {
      ASSERT_FALSE(finding.candidates.empty());
      EXPECT_EQ(finding.cause, finding.candidates.front().at);
      EXPECT_FALSE(finding.message.empty());
      EXPECT_FALSE(finding.why.empty());
      for (const Fix& fix : finding.fixes) EXPECT_EQ(fix.line, finding.cause.line);
      for (std::size_t i = 1; i < finding.candidates.size(); ++i) {
        EXPECT_GE(finding.candidates[i - 1].score, finding.candidates[i].score);
      }
    }
  }
}

}  // namespace
}  // namespace locus::engine
