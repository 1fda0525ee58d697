// Tests of blame: which operand is wrong, which line is to be edited, and what is one cause.
#include "locus/engine/blame.h"

#include <gtest/gtest.h>

namespace locus::engine {
namespace {

Location at(int line, std::string function = "<module>") {
  Location place;
  place.file = "train.py";
  place.line = place.end_line = line;
  place.function = std::move(function);
  return place;
}

Step step(std::string action, std::string device, bool is_explicit, int line) {
  Step one;
  one.action = std::move(action);
  one.op = "op";
  one.device = std::move(device);
  one.is_explicit = is_explicit;
  one.at = at(line);
  return one;
}

Operand operand(std::string name, std::string kind, std::string device, std::vector<Step> history) {
  Operand o;
  o.name = o.expression = std::move(name);
  o.kind = std::move(kind);
  o.device = std::move(device);
  o.history = std::move(history);
  o.rule = "same";
  o.odd = o.device == "cpu";
  return o;
}

Case broken(std::string op, std::vector<Operand> operands, std::string kind = "operator") {
  Case c;
  c.kind = std::move(kind);
  c.op = std::move(op);
  c.device = "cuda:0";
  c.use = at(90);
  c.operands = std::move(operands);
  return c;
}

TEST(Blame, TheTextOfTheProgramSaysWhichLine) {
  Operand y = operand("y", "variable", "cpu", {step("created", "cpu", false, 10)});
  y.cause = at(40);
  const auto findings = blame(broken("mul", {operand("x", "variable", "cuda:0", {step("moved", "cuda:0", true, 40)}), y}));
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].cause.line, 40);
  EXPECT_EQ(findings[0].culprit.name, "y");
}

TEST(Blame, WithoutItTheLineThatMadeTheTensor) {
  const auto findings = blame(broken("mul", {operand("x", "variable", "cuda:0", {step("moved", "cuda:0", true, 40)}),
                                             operand("y", "variable", "cpu", {step("created", "cpu", false, 10)})}));
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].cause.line, 10);
  EXPECT_EQ(findings[0].reason, "default-device");
}

Case indexing(std::vector<Step> index_history) {
  Operand table = operand("table", "global", "cpu", {step("created", "cpu", false, 10)});
  table.position = 0;
  table.odd = false;
  Operand index = operand("index", "variable", "cuda:0", std::move(index_history));
  index.position = 1;
  index.rule = "index";
  index.odd = true;
  Case c = broken("index", {table, index}, "index");
  c.device = "cpu";
  return c;
}

TEST(Blame, ATableThatMerelyLandedOnTheHostIsWrongUnderAComputedIndex) {
  const auto findings = blame(indexing({step("moved", "cuda:0", true, 5), step("computed", "cuda:0", false, 80)}));
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].culprit.name, "table");
  EXPECT_EQ(findings[0].culprit.expected_device, "cuda:0");
  EXPECT_EQ(findings[0].cause.line, 10);
}

TEST(Blame, AnIndexThatWasAskedForOnADeviceIsWrongForMemoryOfTheHost) {
  const auto findings = blame(indexing({step("created", "cuda:0", true, 70)}));
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].culprit.name, "index");
  EXPECT_EQ(findings[0].reason, "index");
}

TEST(Blame, TheParameterSaysWhereItsStateBelongs) {
  Operand state = operand("Adam.state[w]", "optimizer-state", "cpu", {step("loaded", "cpu", true, 20)});
  state.written = true;
  const auto findings =
      blame(broken("lerp_", {state, operand("w.grad", "gradient", "cuda:0", {step("moved", "cuda:0", true, 5)})}));
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].reason, "optimizer-state");
  EXPECT_EQ(findings[0].culprit.expected_device, "cuda:0");
}

TEST(Blame, ANamelessResultOfTheSameSourceIsNoSecondFinding) {
  Operand state = operand("Adam.state[w]", "optimizer-state", "cpu", {step("loaded", "cpu", true, 20)});
  Operand root = operand("", "temporary", "cpu", {step("loaded", "cpu", true, 20), step("computed", "cpu", false, 90)});
  const auto findings =
      blame(broken("addcdiv_", {operand("w", "parameter", "cuda:0", {step("moved", "cuda:0", true, 5)}), state, root}));
  EXPECT_EQ(findings.size(), 1u);
}

TEST(Blame, SamplesAreGatheredOnTheHost) {
  Case c = broken("stack", {operand("a", "temporary", "cpu", {step("moved", "cpu", true, 24)}),
                            operand("b", "variable", "cuda:0", {step("moved", "cuda:0", true, 9)})});
  c.collating = true;
  c.operands[1].cause = at(22);
  const auto findings = blame(c);
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].reason, "inconsistent-source");
  EXPECT_EQ(findings[0].cause.line, 22);
}

TEST(Blame, ALoopOverDevicesIsNoInconsistentSource) {
  Operand b = operand("b", "variable", "cuda:1", {step("moved", "cuda:1", true, 19)});
  b.odd = true;
  b.made_here = {{"cuda:0", 1}, {"cuda:1", 1}};
  b.made_at = at(19);
  const auto findings = blame(broken("stack", {operand("a", "variable", "cuda:0", {step("moved", "cuda:0", true, 19)}), b}));
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].reason, "handoff-missing");
}

TEST(Blame, WhatAContextWasGivenWithoutADeviceIsAMatterOfDefaults) {
  const auto findings =
      blame(broken("mul", {operand("g", "temporary", "cuda:0", {step("moved", "cuda:0", true, 5)}),
                           operand("ctx.damping", "function-context", "cpu", {step("created", "cpu", false, 11)})}));
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].reason, "default-device");
  EXPECT_EQ(findings[0].cause.line, 11);
}

TEST(Blame, AMoveThatAutogradMadeIsNobodysPurpose) {
  const auto findings = blame(broken("addmm", {operand("b", "variable", "cpu", {step("moved", "cpu", true, 0)}),
                                               operand("w", "variable", "cuda:0", {step("created", "cuda:0", true, 10)})}));
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].culprit.name, "b");
}

}  // namespace
}  // namespace locus::engine
