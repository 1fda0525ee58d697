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

TEST(Mailbox, ALimitEndsAWait) {
  const Folder folder;
  EXPECT_EQ(Mailbox(folder.path(), 0, {}, true).take("a", 5, true, milliseconds(60)), std::nullopt);
}

}  // namespace
}  // namespace locus::engine::ranks
