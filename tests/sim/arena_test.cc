// Tests of the arena on one thread: sizes, addresses, labels, what find() says, and random sequences of calls
// against a simple list of what is live.
#include "locus/sim/arena.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <fstream>
#include <map>
#include <random>
#include <vector>

#include "locus/sim/arena_span.h"
#include "locus/sim/reservation.h"

namespace locus::sim {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20, kGiB = std::size_t{1} << 30;

std::size_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  std::size_t total = 0, resident = 0;
  file >> total >> resident;
  return resident * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

TEST(SizeClasses, CoverEverySizeClosely) {
  for (std::uint32_t granules = 1; granules <= detail::kMaxSmallGranules; ++granules) {
    const std::uint32_t number = detail::class_of(granules), size = detail::granules_of(number);
    ASSERT_LT(number, detail::kClasses);
    ASSERT_GE(size, granules);
    ASSERT_LE(size * 4, granules * 5 + 3) << "at most a quarter too large";
    if (number > 0) {
      ASSERT_LT(detail::granules_of(number - 1), granules);
    }
  }
}

TEST(Arena, HandsOutAlignedMemoryOfAtLeastTheSize) {
  Arena arena(2, kGiB);
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{512}, std::size_t{513}, std::size_t{100'000}, kMiB,
                                  kMiB + 1, 2 * kMiB, 7 * kMiB, 8 * kMiB + 1, 100 * kMiB}) {
    for (int device = 0; device < 2; ++device) {
      auto* chunk = static_cast<char*>(arena.allocate(device, bytes));
      ASSERT_NE(chunk, nullptr);
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(chunk) % Arena::kGranule, 0u);
      if (bytes >= 2 * kMiB) {
        EXPECT_EQ(reinterpret_cast<std::uintptr_t>(chunk) % (2 * kMiB), 0u);
      }
      std::memset(chunk, 0xab, bytes);
      ChunkInfo info;
      ASSERT_TRUE(arena.find(chunk, &info));
      EXPECT_EQ(info.host, chunk);
      EXPECT_EQ(info.device, device);
      EXPECT_GE(info.bytes, bytes);
      EXPECT_EQ(arena.device_of(chunk), device);
      EXPECT_EQ(arena.device_of(arena.device_address(chunk)), device);
      arena.release(chunk);
      EXPECT_FALSE(arena.find(chunk, &info));
    }
  }
}

TEST(Arena, OneConstantBetweenTheTwoAddresses) {
  Arena arena(3, kGiB);
  const void* first = arena.allocate(0, 512);
  const void* last = arena.allocate(2, 10 * kMiB);
  EXPECT_EQ(static_cast<const char*>(arena.device_address(first)) - static_cast<const char*>(first),
            static_cast<const char*>(arena.device_address(last)) - static_cast<const char*>(last));
  for (const void* host : {first, last}) {
    const void* device = arena.device_address(host);
    EXPECT_TRUE(arena.is_host(host));
    EXPECT_FALSE(arena.is_device(host));
    EXPECT_TRUE(arena.is_device(device));
    EXPECT_FALSE(arena.is_host(device));
    EXPECT_EQ(arena.host_address(device), host);
  }
  int elsewhere = 0;
  EXPECT_FALSE(arena.is_host(&elsewhere));
  EXPECT_FALSE(arena.is_device(&elsewhere));
  EXPECT_EQ(arena.device_of(&elsewhere), -1);
  EXPECT_FALSE(arena.find(&elsewhere, nullptr));
  EXPECT_FALSE(arena.find(nullptr, nullptr));
}

TEST(Arena, FindsInteriorAddressesOfBothRanges) {
  Arena arena(2, kGiB);
  for (const std::size_t bytes : {std::size_t{600}, std::size_t{700'000}, 5 * kMiB, 33 * kMiB}) {
    auto* chunk = static_cast<char*>(arena.allocate(1, bytes));
    arena.set_label(chunk, 42);
    for (const std::size_t offset : {std::size_t{0}, std::size_t{1}, std::size_t{599}, bytes / 2, bytes - 1}) {
      for (const void* address :
           {static_cast<const void*>(chunk + offset), static_cast<const void*>(arena.device_address(chunk + offset))}) {
        ChunkInfo info;
        ASSERT_TRUE(arena.find(address, &info));
        EXPECT_EQ(info.host, chunk);
        EXPECT_EQ(info.label, 42u);
        EXPECT_EQ(info.device, 1);
      }
    }
    ChunkInfo info;
    arena.find(chunk, &info);
    if (arena.find(chunk + info.bytes, &info)) {
      EXPECT_NE(info.host, chunk);
    }
    arena.release(chunk);
  }
}

TEST(Arena, LabelsEndWithTheirChunk) {
  Arena arena(1, kGiB);
  for (const std::size_t bytes : {std::size_t{512}, 4 * kMiB}) {
    void* chunk = arena.allocate(0, bytes);
    EXPECT_EQ(arena.label(chunk), 0u);
    arena.set_label(chunk, ~std::uint64_t{0});
    EXPECT_EQ(arena.label(chunk), ~std::uint64_t{0});
    arena.release(chunk);
    EXPECT_EQ(arena.label(chunk), 0u);
    arena.set_label(chunk, 7);  // too late: must not disturb the free list
    void* again = arena.allocate(0, bytes);
    EXPECT_EQ(again, chunk);
    EXPECT_EQ(arena.label(again), 0u);
    void* other = arena.allocate(0, bytes);
    EXPECT_NE(other, again);
    arena.release(again);
    arena.release(other);
  }
}

TEST(Arena, SurvivesWrongReleases) {
  Arena arena(1, kGiB);
  auto* small = static_cast<char*>(arena.allocate(0, 4096));
  auto* large = static_cast<char*>(arena.allocate(0, 6 * kMiB));
  arena.release(small + 512);
  arena.release(small + 1);
  arena.release(large + 2 * kMiB);
  arena.release(nullptr);
  int elsewhere = 0;
  arena.release(&elsewhere);
  EXPECT_TRUE(arena.find(small, nullptr));
  EXPECT_TRUE(arena.find(large, nullptr));
  for (char* chunk : {small, large}) {
    arena.release(chunk);
    arena.release(chunk);  // twice
  }
  void* a = arena.allocate(0, 4096);
  void* b = arena.allocate(0, 4096);
  EXPECT_NE(a, b);
  EXPECT_NE(arena.allocate(0, 6 * kMiB), arena.allocate(0, 6 * kMiB));
}

TEST(Arena, SaysWhenASliceIsFull) {
  Arena arena(2, 64 * kMiB);
  EXPECT_EQ(arena.allocate(0, 65 * kMiB), nullptr);
  EXPECT_EQ(arena.allocate(-1, 512), nullptr);
  EXPECT_EQ(arena.allocate(2, 512), nullptr);
  EXPECT_EQ(arena.allocate(0, ~std::size_t{0}), nullptr);
  std::vector<void*> chunks;
  while (void* chunk = arena.allocate(0, 2 * kMiB)) chunks.push_back(chunk);
  EXPECT_EQ(chunks.size(), 32u) << "both halves of the slice serve any size";
  EXPECT_EQ(arena.allocate(0, 512), nullptr);
  EXPECT_NE(arena.allocate(1, 512), nullptr) << "the other device has room";
  for (void* chunk : chunks) arena.release(chunk);
  EXPECT_NE(arena.allocate(0, 32 * kMiB), nullptr) << "free neighbors become one";
}

TEST(Arena, ImpossibleReservationsThrow) {
  EXPECT_THROW(Arena(64, std::size_t{1} << 45), NoAddressSpace);
  EXPECT_THROW(Arena(1, ~std::size_t{0}), NoAddressSpace);
  EXPECT_THROW(Arena(2, std::size_t{1} << 63), NoAddressSpace);
}

TEST(Arena, KeepsWhatItMayAndGivesBackTheRest) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "the thread sanitizer's own memory hides what is measured here";
#endif
  Arena arena(1, 64 * kGiB);
  const std::size_t before = resident_bytes();
  std::vector<void*> chunks;
  for (int i = 0; i < 4; ++i) {
    chunks.push_back(arena.allocate(0, 32 * kMiB));
    std::memset(chunks.back(), 1, 32 * kMiB);
  }
  void* small = arena.allocate(0, kMiB);
  std::memset(small, 1, kMiB);
  EXPECT_GE(resident_bytes(), before + 128 * kMiB);
  for (void* chunk : chunks) arena.release(chunk);
  arena.release(small);
  EXPECT_GE(resident_bytes(), before + 100 * kMiB) << "cached";
  arena.trim();
  EXPECT_LE(resident_bytes(), before + 16 * kMiB) << "trimmed";
  // More than may be kept, whatever the machine: a page of each chunk is enough to see it.
  for (int i = 0; i < 3; ++i) {
    char* chunk = static_cast<char*>(arena.allocate(0, 5 * kGiB));
    chunk[0] = 1;
    chunk[5 * kGiB - 1] = 1;
    arena.release(chunk);
  }
  EXPECT_LE(resident_bytes(), before + 16 * kMiB) << "beyond the bound nothing is kept";
}

TEST(Arena, RandomCallsAgainstAList) {
  for (unsigned seed = 0; seed < 8; ++seed) {
    std::mt19937 random(seed);
    Arena arena(2, kGiB);
    struct Live {
      std::size_t bytes;
      int device;
      std::uint64_t label;
      unsigned char fill;
    };
    std::map<char*, Live> live;
    const auto check = [&](char* chunk, const Live& what) {
      ASSERT_EQ(static_cast<unsigned char>(chunk[0]), what.fill);
      ASSERT_EQ(static_cast<unsigned char>(chunk[what.bytes / 2]), what.fill);
      ASSERT_EQ(static_cast<unsigned char>(chunk[what.bytes - 1]), what.fill);
      ChunkInfo info;
      const char* somewhere = chunk + random() % what.bytes;
      ASSERT_TRUE(arena.find(random() % 2 ? somewhere : arena.device_address(somewhere), &info));
      ASSERT_EQ(info.host, chunk);
      ASSERT_EQ(info.device, what.device);
      ASSERT_EQ(info.label, what.label);
      ASSERT_GE(info.bytes, what.bytes);
    };
    for (int step = 0; step < 6000; ++step) {
      if (random() % 100 < 52 || live.empty()) {
        const unsigned kind = random() % 100;
        const std::size_t bytes = 1 + random() % (kind < 70 ? 20'000 : kind < 97 ? 2 * kMiB : 40 * kMiB);
        const int device = static_cast<int>(random() % 2);
        char* chunk = static_cast<char*>(arena.allocate(device, bytes));
        if (chunk == nullptr) continue;
        const Live what{bytes, device, random(), static_cast<unsigned char>(random())};
        ChunkInfo info;
        ASSERT_TRUE(arena.find(chunk, &info));
        const auto next = live.lower_bound(chunk);
        ASSERT_TRUE(next == live.end() || chunk + info.bytes <= next->first) << "overlap";
        ASSERT_TRUE(next == live.begin() || std::prev(next)->first + std::prev(next)->second.bytes <= chunk)
            << "overlap";
        chunk[0] = chunk[bytes / 2] = chunk[bytes - 1] = static_cast<char>(what.fill);
        arena.set_label(chunk, what.label);
        live[chunk] = what;
      } else {
        const auto at = std::next(live.begin(), random() % live.size());
        check(at->first, at->second);
        arena.release(at->first);
        ASSERT_FALSE(arena.find(at->first, nullptr));
        ASSERT_FALSE(arena.find(at->first + at->second.bytes - 1, nullptr));
        live.erase(at);
      }
      if (random() % 1000 == 0) arena.trim();
    }
    for (const auto& [chunk, what] : live) check(chunk, what);
    for (const auto& [chunk, what] : live) arena.release(chunk);
    arena.trim();
    for (int device = 0; device < 2; ++device) {
      EXPECT_NE(arena.allocate(device, 512 * kMiB), nullptr) << "all merged again";
      EXPECT_NE(arena.allocate(device, 512 * kMiB), nullptr);
    }
  }
}

using ArenaDeathTest = testing::Test;

TEST(ArenaDeathTest, DeviceAddressesCannotBeTouched) {
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  Arena arena(1, kGiB);
  auto* host = static_cast<volatile char*>(arena.allocate(0, 4096));
  host[0] = 1;
  auto* device = static_cast<volatile char*>(arena.device_address(const_cast<char*>(host)));
  const auto with_plain_signals = [](auto&& touch) {
    std::signal(SIGSEGV, SIG_DFL);  // sanitizers would turn it into a report
    touch();
  };
  EXPECT_EXIT(with_plain_signals([&] { (void)device[0]; }), testing::KilledBySignal(SIGSEGV), "");
  EXPECT_EXIT(with_plain_signals([&] { device[4095] = 1; }), testing::KilledBySignal(SIGSEGV), "");
}

}  // namespace
}  // namespace locus::sim
