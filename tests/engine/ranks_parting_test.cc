// Tests of what a rank makes of the others' calls: what does not fit, who will not come, who waits for whom.
#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <iterator>
#include <random>

#include "locus/engine/ranks/parting.h"
#include "tests/engine/ranks_folder.h"

namespace locus::engine::ranks {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr double kLater = 1000;

Call message(std::string name, int root, std::int64_t elements = 6) {
  Call call = collective(1, "0", std::move(name));
  call.root = root, call.elements = elements, call.reduction = "";
  return call;
}

/// A process that is there until the test is over.
class Living {
 public:
  Living() : pid_(::fork()) {
    if (pid_ == 0) {
      for (;;) ::pause();
    }
  }
  ~Living() { end(); }
  pid_t pid() const { return pid_; }
  void stop() {
    ::kill(pid_, SIGSTOP);
    ::waitpid(pid_, nullptr, WUNTRACED);
  }
  void end() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }

 private:
  pid_t pid_;
};

/// Rank 0 is this process; rank 1 is played by its file.
struct MeetingTest : testing::Test {
  Folder folder;
  Living process;
  Meeting meeting{folder.path(), "job", 0, 2};
  std::unique_ptr<Flight> other = Flight::create(flight_path(folder.path(), "job", process.pid()), process.pid(), 1, 2);

  Call known(Call call) {
    if (call.name != "send" && call.name != "recv") call.members = {0, 1};
    return call;
  }
  std::optional<Finding> hear(Call call) { return meeting.hear(known(std::move(call)), {0, 1}, 0); }
  /// Rank 1 is held up in a call since the beginning.
  void hold_up(const Call& call) {
    other->write(call);
    other->set_status({Flight::State::kRunning, {1.0, call.key(), call.number}});
  }
  /// Looks twice, the second time after a while.
  std::optional<Stuck> look(const std::vector<std::int64_t>& numbers, bool waited = true, double after = kLater) {
    const std::vector<UnderWay> groups{{"0", {0, 1}, numbers, waited ? numbers : std::vector<std::int64_t>()}};
    EXPECT_FALSE(meeting.look(groups, false, 10));
    return meeting.look(groups, false, 10 + after);
  }
};

TEST_F(MeetingTest, CallsThatFitAreNoFinding) {
  other->write(collective(1));
  EXPECT_FALSE(hear(collective(1)));
  EXPECT_FALSE(hear(collective(2)));
}

TEST_F(MeetingTest, ACallThatDoesNotFitIsFoundWhenItIsMade) {
  Call theirs = collective(1);
  theirs.elements = 7, theirs.shape = {7}, theirs.place.line = 20;
  other->write(theirs);
  const std::optional<Finding> finding = hear(collective(1));
  ASSERT_TRUE(finding);
  EXPECT_EQ(finding->reason, "ranks-part-ways");
  EXPECT_THAT(finding->why, HasSubstr("another number of elements"));
  EXPECT_THAT(finding->ranks, ElementsAre(0, 1));
  EXPECT_EQ(finding->uses.at(0).at.line, 12);
  EXPECT_EQ(finding->cause.line, 20);
}

TEST_F(MeetingTest, CallsOfAnotherHostAreComparedWhenTheyWereBrought) {
  const Folder there;
  const std::string path = flight_path(there.path(), "job", 7);
  const auto far = Flight::create(path, 7, 3, 4);
  far->write(collective(1, "0", "broadcast"));
  far->set_status({Flight::State::kRunning, {100.0, collective(1).key(), 1}});
  const auto bring = [&] {
    std::ifstream file(path, std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(file), {}};
    return Flight::bring(folder.path() + "/job.host-3.calls", bytes, 50);
  };
  ASSERT_TRUE(bring());
  const auto here = Flight::open(folder.path() + "/job.host-3.calls");
  ASSERT_NE(here, nullptr);
  EXPECT_EQ(here->pid(), 0);
  EXPECT_EQ(here->rank(), 3);
  EXPECT_EQ(here->status().waiting.since, 150.0);
  Call mine = collective(1);
  mine.members = {0, 3};
  const std::optional<Finding> finding = meeting.hear(mine, {0, 3}, 0);
  ASSERT_TRUE(finding);
  EXPECT_THAT(finding->ranks, ElementsAre(0, 3));
  // It goes on, and ends: what was brought is brought up to date in its place.
  far->write(collective(2));
  far->set_status({Flight::State::kEnded, {}});
  ASSERT_TRUE(bring());
  EXPECT_TRUE(here->has_come(collective(2).key(), 2));
  EXPECT_EQ(here->status().state, Flight::State::kEnded);
  Call next = collective(3);
  next.members = {0, 3};
  EXPECT_FALSE(meeting.hear(next, {0, 3}, 0));
  const std::vector<UnderWay> groups{{"0", {0, 3}, {3}, {3}}};
  EXPECT_FALSE(meeting.look(groups, false, 10));
  const std::optional<Stuck> stuck = meeting.look(groups, false, 10 + kLater);
  ASSERT_TRUE(stuck);
  EXPECT_THAT(stuck->finding.why, HasSubstr("rank 3 has ended (on another host)"));
}

TEST_F(MeetingTest, WhatIsNoRanksCallsIsNotBrought) {
  EXPECT_FALSE(Flight::bring(folder.path() + "/job.host-3.calls", "words", 0));
  EXPECT_FALSE(Flight::bring(folder.path() + "/job.host-3.calls", std::string(Flight::kFileBytes, 'x'), 0));
  EXPECT_EQ(Flight::open(folder.path() + "/job.host-3.calls"), nullptr);
}

TEST_F(MeetingTest, OtherGroupsAndOtherNumbersAreNotCompared) {
  Call theirs = collective(1, "1", "broadcast");
  other->write(theirs);
  other->write(collective(2, "0", "broadcast"));
  EXPECT_FALSE(hear(collective(1)));
}

TEST_F(MeetingTest, AnotherGroupOfTheSameNameIsNotCompared) {
  Call theirs = collective(1, "0", "broadcast");
  theirs.members = {1, 2};
  other->write(theirs);
  EXPECT_FALSE(hear(collective(1)));
  theirs.members = {1, 0};
  other->write(theirs);
  EXPECT_TRUE(hear(collective(1)));
}

TEST_F(MeetingTest, MessagesAreCountedBetweenTwoRanks) {
  Call theirs = message("recv", 0, 5);
  theirs.group = channel("0", 0, 1, 0);
  theirs.number = 2;
  other->write(theirs);
  EXPECT_FALSE(hear(message("send", 1)));
  Call second = message("send", 1);
  second.number = 2;
  const std::optional<Finding> finding = hear(second);
  ASSERT_TRUE(finding);
  EXPECT_EQ(finding->message, "what rank 0 sends does not fit what rank 1 receives, as message 2 between them");
}

TEST_F(MeetingTest, AMessageWithAnotherTagIsAnotherMessage) {
  Call theirs = message("recv", 0, 5);
  theirs.group = channel("0", 0, 1, 9);
  other->write(theirs);
  EXPECT_FALSE(hear(message("send", 1)));
}

TEST_F(MeetingTest, ARankThatWorksIsWaitedFor) {
  hear(collective(1));
  EXPECT_FALSE(look({1}));
}

TEST_F(MeetingTest, ARankThatHasEndedIsMissing) {
  other->write(collective(1));
  hear(collective(1)), hear(collective(2));
  other->set_status({Flight::State::kEnded, {}});
  const std::optional<Stuck> stuck = look({2});
  ASSERT_TRUE(stuck);
  EXPECT_EQ(stuck->group, "0");
  EXPECT_EQ(stuck->finding.reason, "rank-missing");
  EXPECT_EQ(stuck->finding.message, "rank 1 did not come to collective 2, all_reduce() of float32[2, 3]");
  EXPECT_THAT(stuck->finding.why, HasSubstr("its last call was number 1"));
  EXPECT_THAT(stuck->finding.ranks, ElementsAre(0));
}

TEST_F(MeetingTest, ARankThatWasKilledIsMissing) {
  hear(collective(1));
  process.end();
  const std::optional<Stuck> stuck = look({1});
  ASSERT_TRUE(stuck);
  EXPECT_THAT(stuck->finding.why, HasSubstr("rank 1 has ended"));
}

TEST_F(MeetingTest, ARankThatHasComeAndEndedIsNotMissing) {
  other->write(collective(1));
  hear(collective(1));
  other->set_status({Flight::State::kEnded, {}});
  EXPECT_FALSE(look({1}));
}

TEST_F(MeetingTest, NothingIsBelievedAtOnce) {
  hear(collective(1));
  other->set_status({Flight::State::kEnded, {}});
  EXPECT_FALSE(look({1}, true, kPatience / 2));
}

TEST_F(MeetingTest, AStoppedRankIsNamedWhenItStaysSo) {
  hear(collective(1));
  process.stop();
  const std::vector<UnderWay> groups{{"0", {0, 1}, {1}, {1}}};
  EXPECT_FALSE(meeting.look(groups, false, 10));
  EXPECT_FALSE(meeting.look(groups, false, 20));
  const std::optional<Stuck> stuck = meeting.look(groups, false, 30);
  ASSERT_TRUE(stuck);
  EXPECT_THAT(stuck->finding.why, HasSubstr("is stopped"));
}

TEST_F(MeetingTest, RanksThatWaitForEachOtherAreFound) {
  hear(collective(1));
  hold_up(collective(1, "1"));
  Call theirs = collective(1, "1");
  const std::vector<UnderWay> groups{{"0", {0, 1}, {1}, {1}}};
  EXPECT_FALSE(meeting.look(groups, false, 10));
  EXPECT_FALSE(meeting.look(groups, false, 20));  // of whom group 1 consists is not known here
  theirs.members = {0, 1};
  hold_up(theirs);
  const std::optional<Stuck> stuck = meeting.look(groups, false, 30);
  ASSERT_TRUE(stuck);
  EXPECT_EQ(stuck->finding.message,
            "ranks 0 and 1 wait for each other, each in a collective that the other has not called");
}

TEST_F(MeetingTest, AnAsynchronousCallThatNobodyWaitsForIsNoDeadlock) {
  hear(collective(1));
  Call theirs = collective(1, "1");
  theirs.members = {0, 1};
  hold_up(theirs);
  EXPECT_FALSE(look({1}, false));
}

TEST_F(MeetingTest, ABackwardPassWaitsWithoutAWord) {
  hear(collective(1));
  Call theirs = collective(1, "1");
  theirs.members = {0, 1};
  hold_up(theirs);
  const std::vector<UnderWay> groups{{"0", {0, 1}, {1}, {}}};
  EXPECT_FALSE(meeting.look(groups, true, 10));
  EXPECT_TRUE(meeting.look(groups, true, 20));
}

TEST_F(MeetingTest, BothReceiveFirst) {
  hear(message("recv", 1));
  Call theirs = message("recv", 0);
  theirs.group = channel("0", 0, 1, 0);
  hold_up(theirs);
  const std::optional<Stuck> stuck = look({-1});
  ASSERT_TRUE(stuck);
  EXPECT_THAT(stuck->finding.why, HasSubstr("each receives before it sends"));
}

TEST_F(MeetingTest, ASendThatIsUnderWayIsNotWaitedFor) {
  hear(message("send", 1));
  other->set_status({Flight::State::kEnded, {}});
  EXPECT_FALSE(look({-1}, false));
  EXPECT_TRUE(look({-1}));
}

TEST_F(MeetingTest, TheOthersSeeSinceWhenThisRankWaits) {
  hear(collective(1));
  const auto own = Flight::open(flight_path(folder.path(), "job", ::getpid()));
  ASSERT_NE(own, nullptr);
  const std::vector<UnderWay> waiting{{"0", {0, 1}, {1}, {1}}};
  meeting.look(waiting, false, 10), meeting.look(waiting, false, 10.5);
  EXPECT_EQ(own->status().waiting.since, 10);
  EXPECT_EQ(own->status().waiting.number, 1u);
  meeting.look({}, false, 11);
  EXPECT_EQ(own->status().waiting.since, 0);
  meeting.end();
  EXPECT_EQ(own->status().state, Flight::State::kEnded);
}

TEST_F(MeetingTest, AForkSaysNothing) {
  hear(collective(1));
  const pid_t child = ::fork();
  if (child == 0) {
    hear(collective(9));
    meeting.end();
    ::_exit(0);
  }
  ::waitpid(child, nullptr, 0);
  const auto own = Flight::open(flight_path(folder.path(), "job", ::getpid()));
  EXPECT_FALSE(own->has_come(key_of("0"), 9));
  EXPECT_EQ(own->status().state, Flight::State::kRunning);
}

/// Random graphs of who is held up by whom, against the definition itself.
TEST(Ring, IsFoundExactlyWhereThereIsOne) {
  std::mt19937 random(5);
  int rings = 0, none = 0;
  for (int round = 0; round < 5'000; ++round) {
    const int count = 1 + static_cast<int>(random() % 7);
    std::vector<std::vector<int>> absent(static_cast<std::size_t>(count));
    std::vector<bool> held(static_cast<std::size_t>(count));
    for (int rank = 0; rank < count; ++rank) {
      held[rank] = random() % 4 != 0;
      for (int each = 0; each < count; ++each) {
        if (each != rank && random() % 4 == 0) absent[rank].push_back(each);
      }
    }
    std::vector<bool> reached(static_cast<std::size_t>(count));
    const std::function<void(int)> reach = [&](int rank) {
      if (!held[rank]) return;
      for (const int each : absent[rank]) {
        if (!reached[each]) reached[each] = true, reach(each);
      }
    };
    reach(0);
    const auto ring = find_ring(
        0, [&](int rank) { return held[rank] ? std::optional(collective(Number(rank) + 1)) : std::nullopt; },
        [&](int rank, const Call&) { return absent[rank]; });
    EXPECT_EQ(!ring.empty(), reached[0]);
    (ring.empty() ? none : rings) += 1;
    std::set<int> seen;
    for (std::size_t i = 0; i < ring.size(); ++i) {
      const int rank = ring[i].first, next = ring[(i + 1) % ring.size()].first;
      EXPECT_TRUE(held[rank]);
      EXPECT_TRUE(std::count(absent[rank].begin(), absent[rank].end(), next));
      EXPECT_EQ(ring[i].second.number, Number(rank) + 1);
      EXPECT_TRUE(seen.insert(rank).second);
    }
  }
  EXPECT_GT(rings, 100);
  EXPECT_GT(none, 100);
}

TEST(Ring, IsFoundAtOnceAmongManyWhoWaitForAll) {
  const int count = 200;
  std::vector<int> others;
  for (int rank = 1; rank < count; ++rank) others.push_back(rank);  // all wait for all but the first
  int asked = 0;
  const auto ring = find_ring(
      0, [&](int) { return ++asked, std::optional(collective(1)); }, [&](int, const Call&) { return others; });
  EXPECT_TRUE(ring.empty());
  EXPECT_EQ(asked, count);
}

struct JobsTest : testing::Test {
  Folder folder;
  std::vector<std::unique_ptr<Flight>> ranks;
  void rank_with(Number calls, const std::string& group = "0", const std::string& job = "job") {
    const int rank = static_cast<int>(ranks.size());
    ranks.push_back(Flight::create(flight_path(folder.path(), job, 100 + rank), 100 + rank, rank, 4));
    for (Number number = 1; number <= calls; ++number) ranks.back()->write(collective(number, group));
  }
};

TEST_F(JobsTest, ThoseBehindAreNamedWithTheirFate) {
  rank_with(3), rank_with(2), rank_with(3), rank_with(2);
  ranks[3]->set_status({Flight::State::kEnded, {}});
  const std::vector<Finding> findings = judge_jobs(folder.path(), {{1, {-9, "SIGKILL"}}, {0, {1, ""}}});
  ASSERT_EQ(findings.size(), 2u);
  EXPECT_EQ(findings[0].message, "rank 1 did not come to collective 3, all_reduce() of float32[2, 3]");
  EXPECT_EQ(findings[0].why,
            "ranks 0, 2 wait at train.py:12; rank 1 was killed by SIGKILL; its last call was number 2, all_reduce() of "
            "float32[2, 3] at train.py:12");
  EXPECT_THAT(findings[1].why, HasSubstr("rank 3 had ended;"));
  EXPECT_THAT(findings[1].ranks, ElementsAre(0, 2));
}

TEST_F(JobsTest, RanksThatEndTogetherAreNoFinding) {
  rank_with(3), rank_with(3), rank_with(1, "1");
  EXPECT_TRUE(judge_jobs(folder.path(), {}).empty());
}

TEST_F(JobsTest, JobsAreJudgedEachByItself) {
  rank_with(3), rank_with(2, "0", "later");
  EXPECT_TRUE(judge_jobs(folder.path(), {}).empty());
}

TEST_F(JobsTest, RanksThatAddUpDifferentBatchesAreNamed) {
  const std::int64_t batches[2][4] = {{1, 2, 4, 5}, {1, 3, 4, 5}};
  for (const int rank : {0, 1}) {
    rank_with(0);
    for (Number number = 1; number <= 4; ++number) {
      Call call = collective(number);
      call.feed = Feed{batches[rank][number - 1], 5, 10, "DistributedSampler", {}};
      ranks.back()->write(call);
    }
  }
  EXPECT_THAT(
      find_drifts(folder.path()),
      ElementsAre(HasSubstr("rank 0's all_reduce() number 2 at train.py:12 belongs to batch 2 of its DataLoader, "
                            "rank 1's at train.py:12 to batch 3")));
  EXPECT_TRUE(judge_jobs(folder.path(), {}).empty());
}

TEST_F(JobsTest, CallsThatDoNotFitShowWhenNobodyCouldCompareThem) {
  rank_with(2), rank_with(2);
  ranks[0]->write(collective(3));
  Call theirs = collective(3, "0", "broadcast");
  theirs.place.line = 20;
  ranks[1]->write(theirs);
  const std::vector<Finding> findings = judge_jobs(folder.path(), {});
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].message, "ranks 0 and 1 called collectives that do not fit, as number 3 of their group");
  ranks[1]->write(collective(3));
  EXPECT_TRUE(judge_jobs(folder.path(), {}).empty());
}

TEST_F(JobsTest, AnExitStatusIsSaid) {
  rank_with(2), rank_with(1);
  EXPECT_THAT(judge_jobs(folder.path(), {{1, {3, ""}}}).at(0).why, HasSubstr("had ended with exit status 3"));
  EXPECT_THAT(judge_jobs(folder.path(), {}).at(0).why, HasSubstr("ended without coming to its end"));
}

}  // namespace
}  // namespace locus::engine::ranks
