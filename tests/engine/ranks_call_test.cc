// Tests of whether two ranks' calls can be one.
#include <gtest/gtest.h>

#include <random>
#include <set>

#include "locus/engine/ranks/call.h"

namespace locus::engine::ranks {
namespace {

Call call_of(std::string name, std::int64_t elements = 4, std::string dtype = "Float") {
  Call call;
  call.group = "0", call.number = 1, call.name = std::move(name);
  call.elements = elements, call.shape = {elements}, call.dtype = std::move(dtype);
  return call;
}

Call random_call(std::mt19937& random) {
  const auto pick = [&](auto... options) {
    const std::common_type_t<decltype(options)...> all[] = {options...};
    return all[std::uniform_int_distribution<std::size_t>(0, sizeof...(options) - 1)(random)];
  };
  Call call;
  call.group = pick("0", "1", "0\t0>1#0");
  call.name =
      pick("all_reduce", "broadcast", "all_gather", "all_gather_into_tensor", "reduce_scatter", "reduce_scatter_tensor",
           "all_to_all", "all_to_all_single", "gather", "scatter", "barrier", "send", "recv");
  call.dtype = pick("", "Float", "Half", "Long");
  call.elements = pick(-1, 0, 1, 4, 6);
  call.root = pick(-1, 0, 1);
  call.reduction = pick("", "SUM", "MAX");
  return call;
}

TEST(RankCalls, FitIsReflexiveAndSymmetric) {
  std::mt19937 random(7);
  int fitting = 0;
  for (int i = 0; i < 20'000; ++i) {
    const Call one = random_call(random), other = random_call(random);
    EXPECT_TRUE(fit(one, one));
    EXPECT_EQ(fit(one, other), fit(other, one)) << one.name << " and " << other.name;
    fitting += fit(one, other);
  }
  EXPECT_GT(fitting, 0);
}

TEST(RankCalls, FitDoesNotLookAtWhatMayDiffer) {
  std::mt19937 random(8);
  for (int i = 0; i < 1'000; ++i) {
    const Call one = random_call(random);
    Call other = one;
    other.place.line = i, other.number = 7, other.shape = {i}, other.members = {0, i};
    EXPECT_TRUE(fit(one, other));
  }
}

TEST(RankCalls, VariantsOfOneCollectiveFit) {
  EXPECT_TRUE(fit(call_of("all_gather"), call_of("all_gather_into_tensor")));
  EXPECT_TRUE(fit(call_of("reduce_scatter"), call_of("reduce_scatter_tensor")));
  EXPECT_TRUE(fit(call_of("all_to_all"), call_of("all_to_all_single")));
  EXPECT_FALSE(fit(call_of("all_gather"), call_of("gather")));
}

TEST(RankCalls, EachDifferenceThatMattersIsSeen) {
  const Call one = call_of("all_reduce");
  EXPECT_FALSE(fit(one, call_of("all_reduce", 5)));
  EXPECT_FALSE(fit(one, call_of("all_reduce", 4, "Half")));
  EXPECT_FALSE(fit(one, call_of("broadcast")));
  Call other = one;
  other.reduction = "MAX";
  EXPECT_FALSE(fit(one, other));
  other = one, other.root = 1;
  EXPECT_FALSE(fit(one, other));
}

TEST(RankCalls, UnevenOnesNeedNotAgreeOnTheirSize) {
  EXPECT_TRUE(fit(call_of("gather", 3), call_of("gather", 9)));
  EXPECT_TRUE(fit(call_of("scatter", 3), call_of("scatter", 9)));
  EXPECT_TRUE(fit(call_of("all_to_all", -1), call_of("all_to_all", 9)));
}

TEST(RankCalls, AMessageFitsByTypeAndSizeAlone) {
  Call sent = call_of("send"), received = call_of("recv");
  sent.group = received.group = channel("0", 0, 1, 0);
  sent.root = 1, received.root = 0;
  EXPECT_TRUE(fit(sent, received));
  received.elements = 3;
  EXPECT_FALSE(fit(sent, received));
  received.elements = 4, received.dtype = "Long";
  EXPECT_FALSE(fit(sent, received));
}

TEST(RankCalls, KeysTellGroupsAndChannelsApart) {
  std::set<Key> keys;
  int names = 0;
  for (int group = 0; group < 50; ++group) {
    const std::string name = std::to_string(group);
    keys.insert(key_of(name));
    ++names;
    EXPECT_FALSE(is_channel(key_of(name)));
    for (int peer = 0; peer < 20; ++peer) {
      keys.insert(key_of(channel(name, peer, peer + 1, 0)));
      ++names;
      EXPECT_TRUE(is_channel(key_of(channel(name, peer, peer + 1, 0))));
    }
  }
  EXPECT_EQ(keys.size(), static_cast<std::size_t>(names));
  EXPECT_FALSE(keys.contains(0));
  EXPECT_NE(key_of(channel("0", 1, 2, 0)), key_of(channel("0", 2, 1, 0)));
  EXPECT_NE(key_of(channel("0", 1, 2, 0)), key_of(channel("0", 1, 2, 1)));
}

}  // namespace
}  // namespace locus::engine::ranks
