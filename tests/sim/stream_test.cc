// Tests of streams and events: identities and time.
#include "locus/sim/stream.h"

#include <gtest/gtest.h>

#include <atomic>
#include <set>
#include <thread>
#include <vector>

namespace locus::sim {
namespace {

TEST(Streams, PoolHandsOutThirtyTwoInTurn) {
  Streams streams(2);
  std::set<std::int64_t> ids;
  const std::int64_t first = streams.from_pool(0, 0);
  EXPECT_EQ(first, 3) << "as PyTorch numbers its first stream";
  ids.insert(first);
  for (int i = 1; i < Streams::kPoolSize; ++i) ids.insert(streams.from_pool(0, 0));
  EXPECT_EQ(ids.size(), 32u);
  EXPECT_FALSE(ids.contains(0));
  for (int round = 0; round < 5; ++round) {
    EXPECT_EQ(streams.from_pool(0, 0), first);
    for (int i = 1; i < Streams::kPoolSize; ++i) EXPECT_TRUE(ids.contains(streams.from_pool(0, 0)));
  }
  EXPECT_EQ(streams.from_pool(1, 0), first) << "each device has its own pool";
}

TEST(Streams, PrioritiesAreClampedAndRemembered) {
  Streams streams(1);
  const std::pair<int, int> cases[] = {{0, 0}, {5, 0}, {-1, -1}, {-2, -2}, {-3, -3}, {-99, -3}};
  for (const auto& [asked, given] : cases) EXPECT_EQ(streams.priority_of(streams.from_pool(0, asked)), given) << asked;
  EXPECT_EQ(streams.priority_of(0), 0);
}

TEST(Streams, ExistenceAndHandles) {
  Streams streams(2);
  EXPECT_TRUE(streams.exists(0, 0));
  EXPECT_FALSE(streams.exists(2, 0));
  EXPECT_FALSE(streams.exists(-1, 0));
  EXPECT_FALSE(streams.exists(0, 3));
  const std::int64_t id = streams.from_pool(0, -1);
  EXPECT_TRUE(streams.exists(0, id));
  EXPECT_FALSE(streams.exists(1, id));
  for (const std::int64_t nonsense :
       {std::int64_t{1}, std::int64_t{2}, std::int64_t{-3}, std::int64_t{1} << 40, std::int64_t{0x1f}}) {
    EXPECT_FALSE(streams.exists(0, nonsense)) << nonsense;
  }
  std::set<std::uint64_t> handles;
  for (int device = 0; device < 2; ++device) {
    EXPECT_EQ(streams.native_handle(device, 0), 0u);
    for (int priority = 0; priority >= -3; --priority) {
      for (int i = 0; i < 32; ++i) handles.insert(streams.native_handle(device, streams.from_pool(device, priority)));
    }
  }
  EXPECT_EQ(handles.size(), 2u * 4 * 32);
  EXPECT_FALSE(handles.contains(0));
  for (int i = 0; i < 100; ++i) streams.from_pool(0, -1);
  EXPECT_TRUE(streams.exists(0, id)) << "also after many rounds";
}

TEST(Streams, ElapsedTime) {
  Event begin, end;
  begin.nanoseconds = 5'000'000;
  end.nanoseconds = 7'500'000;
  EXPECT_DOUBLE_EQ(Streams::elapsed_ms(begin, end), 2.5);
  EXPECT_DOUBLE_EQ(Streams::elapsed_ms(end, begin), -2.5);
  Streams streams(1);
  streams.record(begin, 0, 0);
  streams.record(end, 0, 0);
  EXPECT_GE(Streams::elapsed_ms(begin, end), 0.0);
}

TEST(Streams, ThreadsShareThem) {
  Streams streams(1);
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 2000; ++i) {
        if (!streams.exists(0, streams.from_pool(0, -t))) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace locus::sim
