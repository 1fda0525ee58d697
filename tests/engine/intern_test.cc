// Tests of the interning table: equal keys equal numbers, from one thread and from many, and an orderly end when full.
// Run under ThreadSanitizer too: the table is lock-free.
#include "locus/engine/intern.h"

#include <gtest/gtest.h>

#include <atomic>
#include <set>
#include <thread>
#include <vector>

namespace locus::engine {
namespace {

struct Key {
  std::uint64_t value = 0;
  bool operator==(const Key&) const = default;
  std::uint64_t hash() const { return mix(value); }
};

/// Every key in one bucket: the worst a hash can do.
struct ClashingKey {
  std::uint64_t value = 0;
  bool operator==(const ClashingKey&) const = default;
  std::uint64_t hash() const { return 7; }
};

TEST(Mix, SpreadsNeighbors) {
  std::set<std::uint64_t> low_bits;
  for (std::uint64_t i = 0; i < 1000; ++i) low_bits.insert(mix(i * 16) & 0xffff);
  EXPECT_GT(low_bits.size(), 950u);  // addresses that differ by 16 must not share buckets
}

TEST(InternTable, GivesEqualKeysEqualNumbers) {
  InternTable<Key> table;
  const auto a = table.intern({1}), b = table.intern({2});
  EXPECT_NE(a, 0u);
  EXPECT_NE(a, b);
  EXPECT_EQ(table.intern({1}), a);
  EXPECT_EQ(table.intern({2}), b);
  EXPECT_EQ(table.at(a).value, 1u);
  EXPECT_EQ(table.at(b).value, 2u);
  EXPECT_EQ(table.size(), 3u);  // one more than the numbers given out
}

TEST(InternTable, HasADefaultKeyForUnknown) {
  const InternTable<Key> table;
  EXPECT_EQ(table.at(0), Key{});
}

TEST(InternTable, TellsApartADefaultKeyThatWasInterned) {
  InternTable<Key> table;
  const auto id = table.intern({});
  EXPECT_NE(id, 0u);
  EXPECT_EQ(table.intern({}), id);
}

TEST(InternTable, GrowsOverManyChunks) {
  InternTable<Key> table;
  std::vector<InternTable<Key>::Id> ids;
  for (std::uint64_t i = 0; i < 20'000; ++i) ids.push_back(table.intern({i * 64}));
  EXPECT_EQ(std::set(ids.begin(), ids.end()).size(), ids.size());
  for (std::uint64_t i = 0; i < 20'000; ++i) {
    ASSERT_EQ(table.at(ids[i]).value, i * 64);
    ASSERT_EQ(table.intern({i * 64}), ids[i]);
  }
}

TEST(InternTable, CopesWithClashingHashes) {
  InternTable<ClashingKey, 1024> table;
  std::vector<InternTable<ClashingKey, 1024>::Id> ids;
  for (std::uint64_t i = 0; i < 400; ++i) ids.push_back(table.intern({i}));
  for (std::uint64_t i = 0; i < 400; ++i) ASSERT_EQ(table.intern({i}), ids[i]);
  EXPECT_EQ(std::set(ids.begin(), ids.end()).size(), ids.size());
}

TEST(InternTable, IsBoundedWhenFull) {
  constexpr std::size_t kBuckets = 64;
  InternTable<Key, kBuckets> table;
  std::vector<std::uint64_t> known;
  for (std::uint64_t i = 0; i < 1000; ++i) {
    if (table.intern({i}) != 0) known.push_back(i);
  }
  EXPECT_EQ(known.size(), kBuckets / 2 - 1);  // half the buckets, less the number 0
  for (const std::uint64_t value : known) EXPECT_EQ(table.at(table.intern({value})).value, value);
  EXPECT_EQ(table.intern({5000}), 0u);
  EXPECT_LE(table.size(), kBuckets / 2);
}

/// Starts `count` threads at one moment and waits for them.
template <class Work>
void race(int count, Work work) {
  std::atomic<int> ready{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < count; ++t) {
    threads.emplace_back([&, t] {
      ++ready;
      while (ready < count) std::this_thread::yield();
      work(t);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(InternTable, AgreesBetweenThreads) {
  constexpr int kThreads = 8, kKeys = 3000;
  InternTable<Key> table;
  std::vector<std::vector<std::uint32_t>> ids(kThreads, std::vector<std::uint32_t>(kKeys));
  race(kThreads, [&](int t) {
    // Each thread in an order of its own, all on the same keys.
    for (int i = 0; i < kKeys; ++i) {
      const int key = (i * 7 + t * 131) % kKeys;
      const auto id = table.intern({static_cast<std::uint64_t>(key)});
      ids[static_cast<std::size_t>(t)][static_cast<std::size_t>(key)] = id;
      ASSERT_EQ(table.at(id).value, static_cast<std::uint64_t>(key));
    }
  });
  for (int t = 1; t < kThreads; ++t) EXPECT_EQ(ids[static_cast<std::size_t>(t)], ids[0]);
  EXPECT_EQ(std::set(ids[0].begin(), ids[0].end()).size(), static_cast<std::size_t>(kKeys));
}

TEST(InternTable, AgreesBetweenThreadsWhenHashesClash) {
  InternTable<ClashingKey, 4096> table;
  std::vector<std::vector<std::uint32_t>> ids(4, std::vector<std::uint32_t>(200));
  race(4, [&](int t) {
    for (std::size_t i = 0; i < 200; ++i) ids[static_cast<std::size_t>(t)][i] = table.intern({i});
  });
  for (std::size_t t = 1; t < 4; ++t) EXPECT_EQ(ids[t], ids[0]);
}

TEST(InternTable, FillsUpUnderManyThreadsWithoutHarm) {
  constexpr std::size_t kBuckets = 256;
  InternTable<Key, kBuckets> table;
  race(8, [&](int t) {
    for (std::uint64_t i = 0; i < 2000; ++i) {
      const std::uint64_t value = (i * 13 + static_cast<std::uint64_t>(t)) % 500;
      const auto id = table.intern({value});
      ASSERT_TRUE(id == 0 || table.at(id).value == value);
    }
  });
  EXPECT_LE(table.size(), kBuckets / 2 + 8);  // a thread may take one number too many
}

}  // namespace
}  // namespace locus::engine
