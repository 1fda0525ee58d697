// Streams, events and waits as programs use them: what is ordered and what is not.
#include "locus/order/order.h"

#include <gtest/gtest.h>

namespace locus::order {
namespace {

class OrderTest : public testing::Test {
 protected:
  std::size_t read(Lane lane, Shadow& shadow, std::uint32_t site = 1) { return work(lane, shadow, Kind::kRead, site); }
  std::size_t write(Lane lane, Shadow& shadow, std::uint32_t site = 1) {
    return work(lane, shadow, Kind::kWrite, site);
  }
  std::size_t work(Lane lane, Shadow& shadow, Kind kind, std::uint32_t site) {
    found_.clear();
    const Touch touch{&shadow, kind, Range(), Note{site, 7, 1}};
    order_.work(lane, &touch, 1, &found_);
    return found_.size();
  }
  std::size_t host(Shadow& shadow, Kind kind) {
    found_.clear();
    order_.host_access({&shadow, kind, Range(), Note{9}}, &found_);
    return found_.size();
  }

  Order order_;
  Lane main_ = order_.add_lane(), side_ = order_.add_lane(), third_ = order_.add_lane();
  Shadow x_, y_;
  Conflicts found_;
};

TEST_F(OrderTest, OneStreamIsInOrder) {
  EXPECT_EQ(write(main_, x_), 0U);
  EXPECT_EQ(read(main_, x_), 0U);
  EXPECT_EQ(write(main_, x_), 0U);
}

TEST_F(OrderTest, AnotherStreamReadsTooEarly) {
  write(main_, x_, 11);
  ASSERT_EQ(read(side_, x_), 1U);
  EXPECT_EQ(found_[0].first_kind, Kind::kWrite);
  EXPECT_EQ(found_[0].first.lane, main_);
  EXPECT_EQ(found_[0].first.note(), (Note{11, 7, 1}));
  EXPECT_FALSE(found_[0].first.freed);
}

TEST_F(OrderTest, AStreamThatWaitsMayRead) {
  write(main_, x_);
  order_.wait_for(side_, main_);
  EXPECT_EQ(read(side_, x_), 0U);
}

TEST_F(OrderTest, AnEventCoversWhatWasThereWhenItWasRecorded) {
  write(main_, x_);
  const Stamp stamp = order_.record(main_);
  write(main_, y_);
  order_.wait(side_, stamp);
  EXPECT_EQ(read(side_, x_), 0U);
  EXPECT_EQ(read(side_, y_), 1U);
}

TEST_F(OrderTest, WaitsLeadOnFromStreamToStream) {
  write(main_, x_);
  order_.wait_for(side_, main_);
  order_.wait_for(third_, side_);
  EXPECT_EQ(read(third_, x_), 0U);
}

TEST_F(OrderTest, WhatTheHostWaitedForIsBehindAllThatItStartsLater) {
  write(main_, x_);
  order_.host_waits(main_);
  EXPECT_EQ(read(side_, x_), 0U);
  write(main_, y_);
  EXPECT_EQ(read(side_, y_), 1U);
}

TEST_F(OrderTest, AWriteMustComeAfterAllReads) {
  read(main_, x_, 1);
  read(side_, x_, 2);
  read(third_, x_, 3);
  order_.wait_for(main_, side_);
  ASSERT_EQ(write(main_, x_), 1U);
  EXPECT_EQ(found_[0].first.site, 3U);
  EXPECT_EQ(found_[0].first_kind, Kind::kRead);
}

TEST_F(OrderTest, TheHostReadsWhatACopyHasNotBroughtYet) {
  write(main_, x_);
  EXPECT_FALSE(order_.host_may(Kind::kRead, x_));
  EXPECT_EQ(host(x_, Kind::kRead), 1U);
  order_.host_waits(main_);
  EXPECT_TRUE(order_.host_may(Kind::kWrite, x_));
  EXPECT_EQ(host(x_, Kind::kRead), 0U);
}

TEST_F(OrderTest, TheHostOverwritesWhatACopyStillReads) {
  host(x_, Kind::kWrite);
  EXPECT_EQ(read(main_, x_), 0U);  // the copy is started after the write
  EXPECT_TRUE(order_.host_may(Kind::kRead, x_));
  EXPECT_FALSE(order_.host_may(Kind::kWrite, x_));
  EXPECT_EQ(host(x_, Kind::kRead), 0U);
  EXPECT_EQ(host(x_, Kind::kWrite), 1U);
}

TEST_F(OrderTest, WhatIsUnderWayIsKnownByItsBytes) {
  const Touch row{&x_, Kind::kWrite, Range{64, 128, nullptr}, Note()},
      other{&x_, Kind::kRead, Range{0, 64, nullptr}, Note()};
  order_.work(main_, &row, 1, &found_);
  order_.work(side_, &other, 1, &found_);
  const std::vector<Pending> pending = order_.pending(x_);
  ASSERT_EQ(pending.size(), 2U);
  EXPECT_EQ(pending[0].end, 64U);
  EXPECT_EQ(pending[0].kind, Kind::kRead);
  EXPECT_EQ(pending[1].begin, 64U);
  EXPECT_EQ(pending[1].kind, Kind::kWrite);
  order_.host_waits(main_);
  EXPECT_EQ(order_.pending(x_).size(), 1U);
}

TEST_F(OrderTest, MemoryThatIsReusedTooEarly) {
  order_.wait_for(side_, main_);
  write(main_, x_);
  order_.wait_for(side_, main_);
  read(side_, x_, 21);
  order_.free(0, 1000, 500, x_, main_);
  EXPECT_TRUE(order_.any_freed());
  EXPECT_TRUE(order_.reuse(0, 1000, 500, &y_));
  ASSERT_EQ(write(main_, y_), 1U);
  EXPECT_TRUE(found_[0].first.freed);
  EXPECT_EQ(found_[0].first.site, 21U);
  EXPECT_FALSE(order_.any_freed());
}

TEST_F(OrderTest, MemoryThatOnlyItsOwnStreamHasUsed) {
  write(main_, x_);
  read(main_, x_);
  EXPECT_TRUE(x_.is_only_of(main_));
  order_.free(0, 1000, 500, x_, main_);
  EXPECT_FALSE(order_.any_freed());
  order_.free(0, 1000, 500, x_, side_);
  EXPECT_TRUE(order_.any_freed()) << "the pool's stream is another one";
}

TEST_F(OrderTest, MemoryThatTheAllocatorWaitsFor) {
  write(main_, x_);
  order_.wait_for(side_, main_);
  read(side_, x_);
  order_.record_use(&x_, side_);
  order_.free(0, 1000, 500, x_, main_);
  EXPECT_FALSE(order_.reuse(0, 1000, 500, &y_));
}

TEST_F(OrderTest, AWaitBetweenFreeingAndReuseIsEnough) {
  write(main_, x_);
  order_.wait_for(side_, main_);
  read(side_, x_);
  order_.free(0, 1000, 500, x_, main_);
  order_.wait_for(main_, side_);
  order_.reuse(0, 1000, 500, &y_);
  EXPECT_EQ(write(main_, y_), 0U);
}

TEST_F(OrderTest, WhatIsReusedInPartStaysWatchedInTheRest) {
  write(main_, x_);
  order_.wait_for(side_, main_);
  read(side_, x_);
  order_.free(0, 1000, 500, x_, main_);
  EXPECT_TRUE(order_.reuse(0, 1100, 100, &y_));
  EXPECT_EQ(write(main_, y_), 1U);
  Shadow before, after, beside;
  EXPECT_TRUE(order_.reuse(0, 1000, 100, &before));
  EXPECT_TRUE(order_.reuse(0, 1400, 100, &after));
  EXPECT_FALSE(order_.reuse(0, 1500, 100, &beside));
  EXPECT_EQ(write(main_, after), 1U);
}

TEST_F(OrderTest, WhatWasThereBeforeAnybodyKeptTrack) {
  order_.assume_written(&x_, main_, order_.now(main_), Note{5});
  EXPECT_EQ(read(main_, x_), 0U);
  ASSERT_EQ(read(side_, x_), 1U);
  EXPECT_EQ(found_[0].first.site, 5U);
  const Time old = order_.now(main_);
  order_.host_waits(main_);
  order_.assume_written(&y_, main_, old, Note{5});
  EXPECT_EQ(read(side_, y_), 0U);
}

TEST_F(OrderTest, ThreadsThatHandOver) {
  const Lane worker = order_.add_lane();
  write(main_, x_);
  order_.host_waits(main_, worker);
  found_.clear();
  order_.host_access({&x_, Kind::kRead, Range(), Note()}, &found_);
  EXPECT_EQ(found_.size(), 1U) << "the other thread has waited, this one has not";
  order_.hand_over(worker, kHost);
  found_.clear();
  order_.host_access({&x_, Kind::kRead, Range(), Note()}, &found_);
  EXPECT_TRUE(found_.empty());
}

TEST_F(OrderTest, LanesComeToAnEnd) {
  while (order_.lanes() < Order::kMostLanes) order_.add_lane();
  EXPECT_EQ(order_.add_lane(), Order::kMostLanes - 1);
}

}  // namespace
}  // namespace locus::order
