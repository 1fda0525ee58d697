// Tests of ranks that run by themselves: their calls are compared as if they had run together; what they move is added
// up.
#include <gmock/gmock.h>

#include "locus/engine/ranks/journal.h"

namespace locus::engine::ranks {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

Journal::Kind kind(std::string name, int line, std::vector<std::int64_t> shape = {4}, int group = 0) {
  Journal::Kind made;
  made.group = group;
  made.call.name = std::move(name), made.call.shape = std::move(shape), made.call.dtype = "Float";
  made.call.elements = made.call.shape.front();
  made.call.place.file = "train.py", made.call.place.line = line;
  made.bytes = 4 * made.call.elements;
  return made;
}

Journal rank(int number, std::vector<int> members = {0, 7}) {
  Journal journal;
  journal.rank = number, journal.world = 8;
  journal.groups = {{"0", "tp", std::move(members)}};
  return journal;
}

TEST(Journal, KeepsEachKindOnceAndReadsWhatItHasWritten) {
  Journal journal = rank(3);
  journal.steps = {"train.py:7"};
  for (int step = 0; step < 3; ++step) {
    journal.add(kind("all_reduce", 5), step);
    journal.add(kind("barrier", 6), step);
  }
  EXPECT_THAT(journal.kinds, SizeIs(2));
  EXPECT_THAT(journal.calls, SizeIs(6));
  const Journal read = parse_journal(to_text(journal));
  EXPECT_EQ(read.kinds, journal.kinds);
  EXPECT_EQ(read.calls, journal.calls);
  EXPECT_EQ(read.groups, journal.groups);
  EXPECT_EQ(read.rank, 3);
  EXPECT_EQ(read.steps, journal.steps);
  EXPECT_THROW(parse_journal("{\"calls\": [7, 0]}"), FormatError);
}

TEST(Journal, EqualCallsFit) {
  Journal first = rank(0), second = rank(7);
  for (Journal* each : {&first, &second}) each->add(kind("all_reduce", 5), 0);
  EXPECT_THAT(compare({first, second}, {}), IsEmpty());
}

TEST(Journal, TellsOfTheFirstCallThatDoesNotFit) {
  Journal first = rank(0), second = rank(7);
  for (Journal* each : {&first, &second}) each->add(kind("all_reduce", 5), 0);
  first.add(kind("all_reduce", 6), 0);
  second.add(kind("all_gather", 9), 0);
  const std::vector<Finding> found = compare({first, second}, {});
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_THAT(found[0].message, HasSubstr("ranks 0 and 7 called collectives that do not fit, as number 2"));
  EXPECT_THAT(found[0].ranks, ElementsAre(0, 7));
  EXPECT_EQ(found[0].cause.line, 9);
  EXPECT_EQ(found[0].uses.front().at.line, 6);
}

TEST(Journal, TellsOfARankThatDidNotCome) {
  Journal first = rank(0), second = rank(7);
  first.add(kind("barrier", 5), 0);
  const std::vector<Finding> found = compare({first, second}, {});
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_THAT(found[0].message, HasSubstr("rank 7 did not come to collective 1"));
  second.cut = true;  // it was ended before it could come
  EXPECT_THAT(compare({first, second}, {}), IsEmpty());
}

/// A rank that was ended after two steps, and calls once between them.
Journal cut_rank(int number, bool calls) {
  Journal journal = rank(number);
  journal.cut = true, journal.steps = {"train.py:4", "train.py:4"};
  journal.add(kind("all_reduce", 3), 0);
  if (calls) journal.add(kind("all_reduce", 6), 1);
  return journal;
}

TEST(Journal, RanksThatWereEndedEarlyAreComparedUpToTheSameStep) {
  const std::vector<Finding> found = compare({cut_rank(0, true), cut_rank(7, false)}, {});
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_THAT(found[0].message, HasSubstr("rank 7 did not come to collective 2"));
  EXPECT_THAT(found[0].why, HasSubstr("rank 7 made 2 optimizer steps without it"));
  EXPECT_THAT(found[0].ranks, ElementsAre(0));
  EXPECT_THAT(compare({cut_rank(0, true), cut_rank(7, true)}, {}), IsEmpty());
}

TEST(Journal, RanksThatWereEndedEarlyPartAtAnIfThatAsksForTheRank) {
  Setting setting;
  const Around around = [&](const Call&) { return setting; };
  EXPECT_THAT(compare({cut_rank(0, true), cut_rank(7, false)}, {}, around), IsEmpty())
      << "once an epoch, which may be longer on the other rank";
  setting.by_rank = true;
  EXPECT_THAT(compare({cut_rank(0, true), cut_rank(7, false)}, {}, around), SizeIs(1));
}

TEST(Journal, WhatARankDoesOnItsWayOutIsNotCompared) {
  Journal first = cut_rank(0, false), second = cut_rank(7, false);
  first.add(kind("barrier", 9), 2);
  EXPECT_THAT(compare({first, second}, {}), IsEmpty());
  second.add(kind("all_gather", 8), 2);
  EXPECT_THAT(compare({first, second}, {}), IsEmpty());
}

TEST(Journal, RanksThatStepAtTheirOwnPaceMayStillCome) {
  const Journal ahead = cut_rank(0, true);
  Journal other = cut_rank(7, false);
  other.steps = {"train.py:4", "train.py:5"};  // two optimizers
  EXPECT_THAT(compare({ahead, other}, {}), IsEmpty());
  Journal late = rank(7);
  late.cut = true, late.steps = ahead.steps;
  late.add(kind("all_reduce", 3), 1);  // what both have made, it made a step later
  EXPECT_THAT(compare({ahead, late}, {}), IsEmpty());
  Journal beside = cut_rank(0, false);
  Journal::Kind aside = kind("barrier", 20);
  aside.aside = true;
  beside.add(aside, 1);  // by a thread that saves a checkpoint
  EXPECT_THAT(compare({beside, cut_rank(7, false)}, {}), IsEmpty());
}

TEST(Journal, ARankThatEndedByItselfWillNotComeThoughOthersWereEndedEarly) {
  const std::vector<Finding> found = compare({cut_rank(0, true), rank(7)}, {});
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_THAT(found[0].why, HasSubstr("rank 7 had ended"));
}

TEST(Journal, GroupsOfOtherRanksAreNotCompared) {
  Journal first = rank(0, {0, 1}), second = rank(7, {6, 7});
  first.add(kind("all_reduce", 5), 0);
  second.add(kind("barrier", 5), 0);
  EXPECT_THAT(compare({first, second}, {}), IsEmpty());
}

TEST(Journal, MessagesAreComparedBySenderAndReceiver) {
  Journal first = rank(0), second = rank(7);
  Journal::Kind sent = kind("send", 5, {4}), received = kind("recv", 9, {8});
  sent.call.root = 1, received.call.root = 0;  // places in the group
  first.add(sent, 0);
  second.add(received, 0);
  const std::vector<Finding> found = compare({first, second}, {});
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_THAT(found[0].message, HasSubstr("what rank 0 sends does not fit what rank 7 receives"));
  received.call.shape = {4}, received.call.elements = 4;
  Journal fitting = rank(7);
  fitting.add(received, 0);
  EXPECT_THAT(compare({first, fitting}, {}), IsEmpty());
  EXPECT_THAT(compare({first, rank(7)}, {}), SizeIs(1));  // it did not come
}

TEST(Journal, AddsUpWhatAStepMoves) {
  Journal first = rank(0), second = rank(7);
  for (Journal* each : {&first, &second}) {
    each->cut = true;
    each->add(kind("broadcast", 3, {100}), 0);
    for (int step = 0; step < 2; ++step) {
      each->add(kind("all_reduce", 5, {4}), step);
      each->add(kind("all_reduce", 5, {6}), step);
    }
  }
  const Cluster cluster = traffic_of({first, second});
  EXPECT_EQ(cluster.step, 1);
  ASSERT_THAT(cluster.traffic, SizeIs(1));
  EXPECT_EQ(cluster.traffic[0].count, 2);
  EXPECT_EQ(cluster.traffic[0].bytes, 40);
  EXPECT_EQ(cluster.traffic[0].group, "tp");
  EXPECT_THAT(cluster.traffic[0].ranks, ElementsAre(0, 7));
}

}  // namespace
}  // namespace locus::engine::ranks
