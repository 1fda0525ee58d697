// Tests of messages between ranks that run by themselves: what was put is there, and no wait is without an end.
#include <gmock/gmock.h>

#include <thread>

#include "locus/engine/ranks/mailbox.h"
#include "tests/engine/ranks_folder.h"

namespace locus::engine::ranks {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr seconds kLong{60};

TEST(Mailbox, WhatWasPutIsThere) {
  const Folder folder;
  Mailbox(folder.path(), 0, {0, 1}, false).put("a", std::string("x\0y", 3));
  EXPECT_EQ(Mailbox(folder.path(), 1, {0, 1}, false).take("a", 0, false, kLong), std::string("x\0y", 3));
}

TEST(Mailbox, WaitsForARankThatRuns) {
  const Folder folder;
  const Mailbox mine(folder.path(), 1, {0, 1}, false);
  std::thread sender([&] {
    while (Mailbox::waits_for(folder.path(), 1) != 0) std::this_thread::sleep_for(milliseconds(5));
    Mailbox(folder.path(), 0, {0, 1}, false).put("a", "late");
  });
  EXPECT_EQ(mine.take("a", 0, false, kLong), "late");
  sender.join();
  EXPECT_EQ(Mailbox::waits_for(folder.path(), 1), -1);
}

TEST(Mailbox, DoesNotWaitForOneThatDoesNotRunOrHasEnded) {
  const Folder folder;
  const Mailbox mine(folder.path(), 1, {1, 2}, false);
  EXPECT_EQ(mine.take("a", 0, true, kLong), std::nullopt);
  Mailbox::say_ended(folder.path(), 2);
  EXPECT_EQ(mine.take("a", 2, true, kLong), std::nullopt);
}

TEST(Mailbox, RanksThatWaitForEachOtherGiveUp) {
  const Folder folder;
  const Mailbox first(folder.path(), 0, {0, 1}, false), second(folder.path(), 1, {0, 1}, false);
  const auto began = std::chrono::steady_clock::now();
  // Whichever gives up first ends, as whoever started it says; the other one then waits for nobody.
  std::thread other([&] {
    EXPECT_EQ(second.take("b", 0, true, kLong), std::nullopt);
    Mailbox::say_ended(folder.path(), 1);
  });
  EXPECT_EQ(first.take("a", 1, true, kLong), std::nullopt);
  Mailbox::say_ended(folder.path(), 0);
  other.join();
  EXPECT_LT(std::chrono::steady_clock::now() - began, kLong);
}

TEST(Mailbox, AnotherRankStandsForOneThatDoesNotRun) {
  const Folder folder;
  const Mailbox mine(folder.path(), 7, {0, 7}, true);
  Mailbox(folder.path(), 64, {0, 64}, true).put("64 to 0", "shape", "stage 1 to 0");
  EXPECT_EQ(mine.take("71 to 7", 71, true, milliseconds(60), "stage 1 to 0"), std::nullopt);  // nobody has said so yet
  EXPECT_FALSE(mine.is_stood_for(71));
  Mailbox::say_stands_for(folder.path(), 64, 71);
  EXPECT_TRUE(mine.is_stood_for(71));
  EXPECT_EQ(mine.take("71 to 7", 71, true, kLong, "stage 1 to 0"), "shape");
  EXPECT_EQ(mine.take("71 to 7", 71, true, milliseconds(60), "another"), std::nullopt);
  Mailbox::say_ended(folder.path(), 64);  // that is the rank which is waited for
  EXPECT_EQ(mine.take("71 to 7", 71, true, kLong, "another"), std::nullopt);
}

TEST(Mailbox, ARingOfWaitsMayLeadThroughTheOneThatStandsForAnother) {
  const Folder folder;
  const Mailbox first(folder.path(), 0, {0, 1}, true), second(folder.path(), 1, {0, 1}, true);
  Mailbox::say_stands_for(folder.path(), 1, 5);
  const auto began = std::chrono::steady_clock::now();
  std::thread other([&] {
    EXPECT_EQ(second.take("b", 0, true, kLong), std::nullopt);
    Mailbox::say_ended(folder.path(), 1);
  });
  EXPECT_EQ(first.take("a", 5, true, kLong, "like a"), std::nullopt);
  Mailbox::say_ended(folder.path(), 0);
  other.join();
  EXPECT_LT(std::chrono::steady_clock::now() - began, kLong);
}

TEST(Mailbox, ALimitEndsAWait) {
  const Folder folder;
  EXPECT_EQ(Mailbox(folder.path(), 0, {}, true).take("a", 5, true, milliseconds(60)), std::nullopt);
}

}  // namespace
}  // namespace locus::engine::ranks
