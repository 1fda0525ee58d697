// Pinned host memory as PyTorch's allocator of it would keep it.
#include "locus/sim/pinned_pool.h"

#include <gtest/gtest.h>

namespace locus::sim {
namespace {

TEST(PinnedPool, RoundsRequestsUpToPowersOfTwo) {
  PinnedPool pool;
  pool.take(1);
  pool.take(1000);
  pool.take(1024);
  pool.take(1025);
  EXPECT_EQ(pool.stats().active_bytes.current, 1 + 1024 + 1024 + 2048);
  EXPECT_EQ(pool.stats().allocated_bytes.current, pool.stats().active_bytes.current);
  EXPECT_EQ(pool.stats().allocations.current, 4);
}

TEST(PinnedPool, UsesBlocksOfTheSameSizeAgain) {
  PinnedPool pool;
  for (int round = 0; round < 10; ++round) {
    pool.take(5000);
    pool.give(5000);
  }
  EXPECT_EQ(pool.stats().allocations.allocated, 1);
  EXPECT_EQ(pool.stats().active_requests.allocated, 10);
  EXPECT_EQ(pool.stats().active_requests.current, 0);
  EXPECT_EQ(pool.stats().active_bytes.peak, 8192);
  pool.take(8192);  // the block that is there
  pool.take(4096);  // another size
  EXPECT_EQ(pool.stats().allocations.allocated, 2);
}

TEST(PinnedPool, GivesBackWhatNobodyHas) {
  PinnedPool pool;
  pool.take(300);
  pool.take(300);
  pool.give(300);
  pool.empty();
  EXPECT_EQ(pool.stats().allocations.current, 1);
  EXPECT_EQ(pool.stats().allocations.freed, 1);
  EXPECT_EQ(pool.stats().allocated_bytes.current, 512);
  EXPECT_EQ(pool.stats().allocated_bytes.peak, 1024);
  pool.reset_peak();
  EXPECT_EQ(pool.stats().allocated_bytes.peak, 512);
  pool.reset_accumulated();
  EXPECT_EQ(pool.stats().allocations.freed, 0);
  EXPECT_EQ(pool.stats().allocations.current, 1);
}

}  // namespace
}  // namespace locus::sim
