// Tests of what is decided once and counted from then on: exact counts, from one thread and from many (also under
// ThreadSanitizer), together with the log that the counts end in.
#include "locus/engine/decisions.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>

#include "locus/engine/finding_log.h"

namespace locus::engine {
namespace {

TEST(Decisions, AsksOnceAndCountsTheRest) {
  Decisions<std::string> decisions;
  int asked = 0;
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(decisions.decide(7, [&] { return std::to_string(++asked); }), "1");
  }
  EXPECT_EQ(asked, 1);
  ASSERT_EQ(decisions.take_repeats(), (std::vector<std::pair<std::uint64_t, std::int64_t>>{{7, 4}}));
  EXPECT_TRUE(decisions.take_repeats().empty());
  decisions.forget();
  EXPECT_EQ(decisions.decide(7, [] { return "anew"; }), "anew");
}

TEST(Decisions, AsksEachTimeWhereThereIsNoRoom) {
  Decisions<int, 2> decisions;
  int asked = 0;
  for (const std::uint64_t key : {1, 2, 3, 3, 1}) decisions.decide(key, [&] { return ++asked; });
  EXPECT_EQ(asked, 4);
  EXPECT_EQ(decisions.take_repeats(), (std::vector<std::pair<std::uint64_t, std::int64_t>>{{1, 1}}));
}

Finding mistake(std::uint64_t key) {
  Finding finding;
  finding.code = "LOC004";
  finding.cause.file = "train.py";
  finding.cause.line = static_cast<int>(key);
  finding.uses.emplace_back();
  finding.uses.back().at.line = static_cast<int>(key);
  return finding;
}

/// Threads that meet the same new mistakes at once: each asks and adds, and no time is counted twice or lost.
TEST(Decisions, CountExactlyWithManyThreads) {
  constexpr int kThreads = 16, kTimes = 200;
  constexpr std::uint64_t kKeys = 3;
  Decisions<int> decisions;
  FindingLog log;
  const auto count = [&] {
    for (const auto& [key, times] : decisions.take_repeats()) EXPECT_TRUE(log.count_more(key, times));
  };
  std::vector<std::thread> threads;
  threads.reserve(kThreads);
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      for (int time = 0; time < kTimes; ++time) {
        for (std::uint64_t key = 1; key <= kKeys; ++key) {
          decisions.decide(key, [&] {
            std::this_thread::yield();  // long enough for the others to meet it too
            log.add(mistake(key), key);
            return 0;
          });
        }
        if (time % 50 == 0) count();  // a report may be made at any time
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  count();
  const auto findings = log.findings();
  ASSERT_EQ(findings.size(), kKeys);
  for (const Finding& finding : findings) {
    EXPECT_EQ(finding.count, kThreads * kTimes);
    ASSERT_EQ(finding.uses.size(), 1u);
    EXPECT_EQ(finding.uses[0].count, kThreads * kTimes);
  }
}

}  // namespace
}  // namespace locus::engine
