// Several threads of the host at once: for ThreadSanitizer, and that nothing of one stream is lost.
#include <gtest/gtest.h>

#include <thread>

#include "locus/order/order.h"

namespace locus::order {
namespace {

TEST(Threads, EachOnAStreamOfItsOwn) {
  Order order(2);
  std::vector<Lane> lanes;
  for (int i = 0; i < 4; ++i) lanes.push_back(order.add_lane());
  Shadow shared;
  std::vector<Conflicts> found(lanes.size());
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < lanes.size(); ++t) {
    threads.emplace_back([&, t] {
      Shadow own;
      for (int i = 0; i < 500; ++i) {
        const Touch touches[] = {{&shared, Kind::kRead, Range(), Note()}, {&own, Kind::kWrite, Range(), Note()}};
        order.work(lanes[t], touches, 2, &found[t]);
        order.wait_for(lanes[t], lanes[(t + 1) % lanes.size()]);
        order.host_waits(order.record(lanes[t]));
        order.free(1, 4096 * t, 512, own, lanes[t]);
        order.reuse(1, 4096 * t, 512, &own);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Conflicts& each : found) EXPECT_TRUE(each.empty());
}

}  // namespace
}  // namespace locus::order
