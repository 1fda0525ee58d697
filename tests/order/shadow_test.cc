// Parts of a storage: when a record is split, and what is said of accesses that leave bytes out.
#include "locus/order/shadow.h"

#include <gtest/gtest.h>

namespace locus::order {
namespace {

constexpr Lane kMain = 1, kSide = 2;

VectorClock clock_of(Lane lane) {
  VectorClock clock;
  clock.set(lane, 1);
  return clock;
}

std::size_t add(Shadow& shadow, Kind kind, Lane lane, Range range = {}) {
  Conflicts found;
  Access access;
  access.lane = lane, access.time = 1;
  shadow.add(kind, access, range, clock_of(lane), &found);
  return found.size();
}

TEST(Shadow, IsSmall) { EXPECT_LE(sizeof(Shadow), 40U); }

TEST(Shadow, SplitsOnlyForAPart) {
  Shadow shadow;
  add(shadow, Kind::kWrite, kMain);
  EXPECT_FALSE(shadow.is_split());
  add(shadow, Kind::kRead, kMain, {0, 8});
  EXPECT_TRUE(shadow.is_split());
  add(shadow, Kind::kWrite, kMain);
  EXPECT_FALSE(shadow.is_split()) << "one write to all of it makes it one again";
}

TEST(Shadow, KeepsWhatTheCallerHasSaidOfIt) {
  Shadow shadow;
  shadow.record(kSide);
  shadow.record(kSide);
  shadow.attach(std::make_shared<int>(3));
  add(shadow, Kind::kWrite, kMain, {0, 8});
  add(shadow, Kind::kRead, kSide, {8, 16});
  add(shadow, Kind::kWrite, kMain);
  for (std::uint64_t i = 0; i < 4 * Shadow::kMostPieces; i += 2) add(shadow, Kind::kWrite, kMain, {i, i + 1});
  add(shadow, Kind::kWrite, kMain);
  EXPECT_EQ(shadow.recorded(), std::vector<Lane>{kSide});
  EXPECT_EQ(*std::static_pointer_cast<int>(shadow.attachment()), 3);
}

TEST(Shadow, PartsBesideEachOtherDoNotConflict) {
  Shadow shadow;
  EXPECT_EQ(add(shadow, Kind::kWrite, kMain, {0, 8}), 0U);
  EXPECT_EQ(add(shadow, Kind::kWrite, kSide, {8, 16}), 0U);
  EXPECT_EQ(add(shadow, Kind::kRead, kSide, {7, 9}), 1U);
  EXPECT_EQ(add(shadow, Kind::kRead, kMain, {0, 8}), 0U);
}

TEST(Shadow, NothingIsNoAccess) {
  Shadow shadow;
  add(shadow, Kind::kWrite, kMain);
  EXPECT_EQ(add(shadow, Kind::kWrite, kSide, {4, 4}), 0U);
}

TEST(Shadow, EveryOtherColumn) {
  const std::function<bool(std::uint64_t, std::uint64_t)> even = [](std::uint64_t begin, std::uint64_t end) {
    for (std::uint64_t i = begin; i < end && i < 16; ++i) {
      if (i % 2 == 0) return true;
    }
    return false;
  };
  Shadow shadow;
  EXPECT_EQ(add(shadow, Kind::kWrite, kMain, {0, 15, &even}), 0U);
  EXPECT_EQ(add(shadow, Kind::kWrite, kSide, {1, 16, &even}), 0U) << "other bytes, for all that is known";
  Shadow whole;
  add(whole, Kind::kWrite, kMain, {0, 15, &even});
  EXPECT_EQ(add(whole, Kind::kRead, kSide), 1U) << "who reads everything reads these, too";
  Shadow part;
  add(part, Kind::kWrite, kMain, {0, 15, &even});
  EXPECT_EQ(add(part, Kind::kRead, kSide, {1, 2}), 0U);
  Shadow odd;
  add(odd, Kind::kWrite, kMain, {3, 4});
  EXPECT_EQ(add(odd, Kind::kRead, kSide, {0, 15, &even}), 0U) << "between its bytes";
  Shadow wide;
  add(wide, Kind::kWrite, kMain, {3, 5});
  EXPECT_EQ(add(wide, Kind::kRead, kSide, {0, 15, &even}), 1U);
}

TEST(Shadow, ForgetsRatherThanGrow) {
  Shadow shadow;
  for (std::uint64_t i = 0; i < 4 * Shadow::kMostPieces; i += 2) add(shadow, Kind::kWrite, kMain, {i, i + 1});
  std::size_t pieces = 0;
  shadow.each([&](const Cell&, std::uint64_t, std::uint64_t) { pieces += 1; });
  EXPECT_LE(pieces, Shadow::kMostPieces + 2);
}

}  // namespace
}  // namespace locus::order
