// A timeline keeps the highest and lowest of what it was told, in order and in bounded space, from any thread.
#include "locus/engine/timeline.h"

#include <gtest/gtest.h>

#include <thread>

namespace locus::engine {
namespace {

TEST(Timeline, StartsEmpty) {
  Timeline timeline;
  EXPECT_TRUE(timeline.points(0).empty());
  EXPECT_EQ(timeline.events(), 0);
}

TEST(Timeline, KeepsAShortRunAsItWas) {
  Timeline timeline;
  const std::int64_t totals[] = {512, 1024, 512, 0};
  for (int i = 0; i < 4; ++i) timeline.note(totals[i], i / 2);
  // Between two notes the device went from the one to the other.
  const std::vector<Timeline::Point> expected = {{0, 512, 0}, {512, 1024, 0}, {512, 1024, 1}, {0, 512, 1}};
  EXPECT_EQ(timeline.points(1), expected);
}

TEST(Timeline, MergesNeighborsAndLosesNoPeak) {
  Timeline timeline;
  constexpr std::int64_t kEvents = 1'000'003, kPeakAt = 700'001;
  for (std::int64_t i = 1; i <= kEvents; ++i) {
    timeline.note(i == kPeakAt ? 1'000'000'000 : 1'000 + i % 7, i / 1000);
  }
  const auto points = timeline.points(kEvents / 1000);
  EXPECT_EQ(timeline.events(), kEvents);
  EXPECT_GE(points.size(), Timeline::kPoints / 2);
  EXPECT_LE(points.size(), Timeline::kPoints);
  std::size_t highest = 0;
  for (std::size_t i = 0; i < points.size(); ++i) {
    EXPECT_LE(points[i].low, points[i].high);
    if (i > 0) {
      EXPECT_GE(points[i].step, points[i - 1].step);
    }
    if (points[i].high > points[highest].high) highest = i;
  }
  EXPECT_EQ(points[highest].high, 1'000'000'000);
  EXPECT_NEAR(static_cast<double>(points[highest].step), 700, 10);
}

TEST(Timeline, KnowsWhatItWasForAndKeepsTheFuller) {
  Timeline timeline;
  constexpr std::int64_t kEvents = 5 * Timeline::kPoints;
  for (std::int64_t i = 0; i < kEvents; ++i) {
    // In the middle third gradients come on top.
    const bool full = i > kEvents / 3 && i < 2 * kEvents / 3;
    timeline.note(full ? 300 : 100, 0, [&] { return ByKind{0, 100, full ? 200 : 0}; });
  }
  const auto points = timeline.points(0, {0, 100, 7});
  EXPECT_EQ(points.front().kinds, (ByKind{0, 100, 0}));
  EXPECT_EQ(points[points.size() / 2].kinds, (ByKind{0, 100, 200}));
  for (const auto& point : points) EXPECT_GE(point.kinds[1], 100);
  timeline.note(1, 0, [] { return ByKind{}; });
  EXPECT_EQ(timeline.points(0, {0, 100, 7}).back().kinds, (ByKind{0, 100, 7}));
}

TEST(Timeline, TakesNotesOfSeveralThreads) {
  Timeline timeline;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 20'000; ++i) timeline.note(1 + (i * 31 + t) % 5'000, i);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(timeline.events(), 80'000);
  std::int64_t highest = 0;
  const auto points = timeline.points(0);
  for (const auto& point : points) highest = std::max(highest, point.high);
  EXPECT_EQ(highest, 5'000);
  EXPECT_LE(points.size(), Timeline::kPoints);
}

}  // namespace
}  // namespace locus::engine
