// Live bytes by line and purpose: peaks, what turns out later, what outlives two steps, and which lines keep growing.
#include "locus/engine/memory_by_line.h"

#include <gtest/gtest.h>

#include <numeric>
#include <thread>

namespace locus::engine {
namespace {

constexpr std::int64_t kMiB = 1 << 20;

std::int64_t of(const ByKind& kinds, MemoryKind kind) { return kinds[static_cast<std::size_t>(kind)]; }

TEST(MemoryByLine, KeepsThePeakByLineAndPurpose) {
  MemoryByLine memory;
  const auto weight = memory.allocated(3, 4 * kMiB, MemoryKind::kParameter);
  const auto result = memory.allocated(5, 2 * kMiB, MemoryKind::kActivation);
  memory.freeing(5, 2 * kMiB, 6 * kMiB, result);
  memory.freeing(3, 4 * kMiB, 4 * kMiB, weight);
  const auto lines = memory.at_peak(0);
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_EQ(lines[0].site, 3U);
  EXPECT_EQ(of(by_kind(lines), MemoryKind::kParameter), 4 * kMiB);
  EXPECT_EQ(of(by_kind(lines), MemoryKind::kActivation), 2 * kMiB);
  EXPECT_TRUE(memory.now_held().empty());
}

TEST(MemoryByLine, WhatTurnsOutLaterCountsFromThenOn) {
  MemoryByLine memory;
  auto mark = memory.allocated(3, kMiB, MemoryKind::kActivation);
  memory.change(3, kMiB, mark, MemoryKind::kParameter);
  EXPECT_EQ(of(by_kind(memory.now_held()), MemoryKind::kParameter), kMiB);
  EXPECT_EQ(of(by_kind(memory.now_held()), MemoryKind::kActivation), 0);
  EXPECT_EQ(memory.totals(), by_kind(memory.now_held()));
  memory.freeing(3, kMiB, kMiB, mark);
  EXPECT_TRUE(memory.now_held().empty());
}

TEST(MemoryByLine, WhatOutlivesTwoStepsIsKept) {
  MemoryByLine memory;
  const auto early = memory.allocated(3, kMiB, MemoryKind::kActivation);
  memory.end_step();
  const auto late = memory.allocated(3, 2 * kMiB, MemoryKind::kActivation);
  EXPECT_EQ(of(by_kind(memory.now_held()), MemoryKind::kActivation), 3 * kMiB);
  memory.end_step();
  EXPECT_EQ(of(by_kind(memory.now_held()), MemoryKind::kKept), kMiB);
  EXPECT_EQ(of(by_kind(memory.now_held()), MemoryKind::kActivation), 2 * kMiB);
  EXPECT_EQ(memory.totals(), by_kind(memory.now_held()));
  memory.freeing(3, kMiB, 3 * kMiB, early);
  EXPECT_EQ(of(by_kind(memory.now_held()), MemoryKind::kKept), 0);
  memory.end_step();
  memory.freeing(3, 2 * kMiB, 2 * kMiB, late);
  const ByKind nothing{};
  EXPECT_EQ(by_kind(memory.now_held()), nothing);
  EXPECT_EQ(memory.totals(), nothing);
}

TEST(MemoryByLine, ALineThatLeavesSomethingInEveryStepIsWorthALook) {
  MemoryByLine memory;
  std::vector<int> looks;
  for (int step = 1; step <= 40; ++step) {
    memory.allocated(7, 512, MemoryKind::kActivation);
    const auto result = memory.allocated(8, kMiB, MemoryKind::kActivation);
    if (memory.end_step()) looks.push_back(step);
    memory.freeing(8, kMiB, kMiB, result);
  }
  EXPECT_EQ(looks, (std::vector<int>{9, 17, 33}));  // grown in 8, 16 and 32 steps; the first is over when it is kept
  ASSERT_EQ(memory.growing(8).size(), 1U);
  EXPECT_EQ(memory.growing(8).front().site, 7U);
  for (int step = 0; step < 4; ++step) memory.end_step();
  EXPECT_TRUE(memory.growing(8).empty());
}

TEST(MemoryByLine, WhatFillsUpAndStopsIsNot) {
  MemoryByLine memory;
  for (int step = 0; step < 40; ++step) {
    if (step % 8 < 6) memory.allocated(7, 512, MemoryKind::kActivation);
    EXPECT_FALSE(memory.end_step()) << step;
  }
}

TEST(MemoryByLine, CountsFromManyThreads) {
  MemoryByLine memory;
  std::vector<std::thread> threads;
  for (SiteId site = 1; site <= 4; ++site) {
    threads.emplace_back([&, site] {
      for (int i = 0; i < 10'000; ++i) {
        const auto mark = memory.allocated(site, 512, MemoryKind::kActivation);
        memory.freeing(site, 512, 512, mark);
      }
    });
  }
  for (int step = 0; step < 100; ++step) memory.end_step();
  for (std::thread& thread : threads) thread.join();
  for (int step = 0; step < 4; ++step) memory.end_step();  // what was moved while it was freed is put right
  const ByKind kinds = by_kind(memory.now_held());
  EXPECT_EQ(std::accumulate(kinds.begin(), kinds.end(), std::int64_t{0}), 0);
}

TEST(MemoryByLine, KnowsWhoseCodeAFunctionIs) {
  EXPECT_EQ(owner_of("Block.forward"), "Block");
  EXPECT_EQ(owner_of("Outer.Inner.forward"), "Outer.Inner");
  EXPECT_EQ(owner_of("Block.forward.<locals>.<lambda>"), "Block");
  EXPECT_EQ(owner_of("train"), "train()");
  EXPECT_EQ(owner_of("main.<locals>.step"), "main()");
  EXPECT_EQ(owner_of("<module>"), "");
  EXPECT_EQ(owner_of(""), "");
}

}  // namespace
}  // namespace locus::engine
