// Tests of streams and events: identities, and what the host may know after it has waited for what.
#include "locus/sim/stream.h"

#include <gtest/gtest.h>

#include <atomic>
#include <set>
#include <thread>

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

TEST(Streams, PositionsGrow) {
  Streams streams(1);
  std::uint64_t last = 0;
  for (int i = 0; i < 100; ++i) {
    const std::uint64_t position = streams.advance(0, 0);
    EXPECT_GT(position, last);
    last = position;
  }
  Event event;
  EXPECT_EQ(event.position, 0u);
  streams.record(event, 0, 0);
  EXPECT_GT(event.position, last);
  EXPECT_EQ(streams.advance(0, 12345), 0u) << "no such stream";
}

TEST(Streams, HostSeesWhatItWaitedFor) {
  Streams streams(2);
  const std::int64_t side = streams.from_pool(0, 0);
  const std::uint64_t a = streams.advance(0, 0), b = streams.advance(0, side), c = streams.advance(1, 0);
  EXPECT_TRUE(streams.host_has_seen(0, 0, 0));
  EXPECT_FALSE(streams.host_has_seen(0, 0, a));
  streams.synchronize(0, 0);
  EXPECT_TRUE(streams.host_has_seen(0, 0, a));
  EXPECT_FALSE(streams.host_has_seen(0, side, b)) << "another stream of the device";
  streams.synchronize(0);
  EXPECT_TRUE(streams.host_has_seen(0, side, b));
  EXPECT_FALSE(streams.host_has_seen(1, 0, c)) << "another device";
  EXPECT_FALSE(streams.host_has_seen(0, 0, streams.advance(0, 0))) << "work queued since";
}

TEST(Streams, EventsCoverWhatCameBeforeThem) {
  Streams streams(1);
  const std::uint64_t before = streams.advance(0, 0);
  Event event;
  streams.synchronize(event);  // never recorded: waits for nothing
  EXPECT_FALSE(streams.host_has_seen(0, 0, before));
  streams.record(event, 0, 0);
  const std::uint64_t after = streams.advance(0, 0);
  streams.synchronize(event);
  EXPECT_TRUE(streams.host_has_seen(0, 0, before));
  EXPECT_FALSE(streams.host_has_seen(0, 0, after));
}

TEST(Streams, WaitingIsPassedOn) {
  Streams streams(2);
  const std::int64_t b = streams.from_pool(0, 0), c = streams.from_pool(1, 0);
  const std::uint64_t on_a = streams.advance(0, 0);
  Event from_a, from_b;
  streams.record(from_a, 0, 0);
  streams.wait(0, b, from_a);
  const std::uint64_t on_b = streams.advance(0, b);
  streams.record(from_b, 0, b);
  streams.wait(1, c, from_b);
  const std::uint64_t later_on_a = streams.advance(0, 0);
  streams.synchronize(1, c);
  EXPECT_TRUE(streams.host_has_seen(0, 0, on_a)) << "c waited for b, which had waited for a";
  EXPECT_TRUE(streams.host_has_seen(0, b, on_b));
  EXPECT_FALSE(streams.host_has_seen(0, 0, later_on_a));
}

TEST(Streams, AnEventDoesNotCoverLaterWaits) {
  Streams streams(1);
  const std::int64_t b = streams.from_pool(0, 0);
  const std::uint64_t on_a = streams.advance(0, 0);
  Event early, from_a;
  streams.record(early, 0, b);
  streams.record(from_a, 0, 0);
  streams.wait(0, b, from_a);
  streams.synchronize(early);
  EXPECT_FALSE(streams.host_has_seen(0, 0, on_a)) << "b waited only after the event";
  streams.synchronize(0, b);
  EXPECT_TRUE(streams.host_has_seen(0, 0, on_a));
}

TEST(Streams, ManyWaitsStayBoundedAndNeverForget) {
  Streams streams(1);
  const std::int64_t b = streams.from_pool(0, 0);
  std::uint64_t last = 0;
  Event old;
  for (int i = 0; i < 10000; ++i) {
    last = streams.advance(0, 0);
    Event event;
    streams.record(event, 0, 0);
    streams.wait(0, b, event);
    if (i == 0) streams.record(old, 0, b);
  }
  streams.synchronize(old);
  EXPECT_FALSE(streams.host_has_seen(0, 0, last)) << "the newest waits are still told apart";
  EXPECT_TRUE(streams.host_has_seen(0, 0, 1)) << "what an old event covered is never forgotten";
  streams.synchronize(0, b);
  EXPECT_TRUE(streams.host_has_seen(0, 0, last));
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
  const std::int64_t b = streams.from_pool(0, 0);
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 2000; ++i) {
        const std::int64_t own = t % 2 == 0 ? 0 : b, other = t % 2 == 0 ? b : 0;
        const std::uint64_t position = streams.advance(0, own);
        Event event;
        streams.record(event, 0, own);
        streams.wait(0, other, event);
        streams.synchronize(event);
        if (!streams.host_has_seen(0, own, position)) ++wrong;
        streams.from_pool(0, -t);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace locus::sim
