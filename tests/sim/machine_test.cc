// Tests of the machine: what it says of its cards, sizes in words, and reservations of address space.
#include "locus/sim/machine.h"

#include <gtest/gtest.h>

#include <cstring>
#include <set>
#include <stdexcept>

namespace locus::sim {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20, kGiB = std::size_t{1} << 30;

TEST(ParseBytes, AcceptsWhatPeopleWrite) {
  const std::pair<const char*, std::size_t> cases[] = {
      {"1000000", 1000000},
      {"80GiB", 80 * kGiB},
      {"80gib", 80 * kGiB},
      {"80Gi", 80 * kGiB},
      {"24 GB", 24'000'000'000},
      {"512MiB", 512 * kMiB},
      {"1.5g", kGiB + kGiB / 2},
      {" 2 T ", 2048 * kGiB},
      {"3kb", 3000},
      {"3k", 3072},
      {"3KiB", 3072},
      {"0.5 TB", 500'000'000'000},
      {"7 mb", 7'000'000},
      {"512 b", 512},
      {"0.1GiB", 107374182},
      {"16TiB", std::size_t{16} << 40},
      {"0.00000000000000000001k", 0},
      {"1.00000000000000000000000000g", kGiB},
  };
  for (const auto& [text, bytes] : cases) {
    if (bytes == 0) {
      EXPECT_EQ(parse_bytes(text), std::nullopt) << text;
    } else {
      EXPECT_EQ(parse_bytes(text), bytes) << text;
    }
  }
}

TEST(ParseBytes, RejectsNonsense) {
  for (const char* text : {"",
                           " ",
                           "0",
                           "0GiB",
                           "-1",
                           "+1",
                           "GiB",
                           "1.5",
                           "1.g",
                           ".5g",
                           "1e9",
                           "1,000",
                           "1 2",
                           "1gg",
                           "1Gbi",
                           "1GiBx",
                           "1 G B",
                           "0x10",
                           "nan",
                           "inf",
                           "16.1TiB",
                           "17T",
                           "99999999999999999999999999",
                           "18446744073709551617",
                           "1\n",
                           "１g"}) {
    EXPECT_EQ(parse_bytes(text), std::nullopt) << '"' << text << '"';
  }
}

TEST(Machine, DescribesItsCards) {
  Machine machine({.devices = 3, .memory_bytes = 24 * kGiB});
  std::set<std::string> uuids;
  std::set<int> buses;
  for (int d = 0; d < 3; ++d) {
    const DeviceProperties& p = machine.properties(d);
    EXPECT_EQ(p.name, "Locus simulated GPU");
    EXPECT_EQ(p.major, 9);
    EXPECT_EQ(p.minor, 0);
    EXPECT_EQ(p.multi_processor_count, 132);
    EXPECT_EQ(p.total_memory, 24 * kGiB);
    ASSERT_EQ(p.uuid.size(), 36u);
    for (const int dash : {8, 13, 18, 23}) EXPECT_EQ(p.uuid[dash], '-');
    uuids.insert(p.uuid);
    buses.insert(p.pci_bus_id);
    EXPECT_EQ(machine.memory(d).capacity(), 24 * kGiB);
  }
  EXPECT_EQ(uuids.size(), 3u);
  EXPECT_EQ(buses.size(), 3u);
  EXPECT_THROW(machine.properties(3), std::out_of_range);
  EXPECT_EQ(Machine({.devices = 1}).properties(0).uuid, machine.properties(0).uuid) << "the same in every run";
}

TEST(Machine, MayHaveNoDevices) {
  Machine machine({.devices = 0});
  EXPECT_EQ(machine.devices(), 0);
  EXPECT_EQ(machine.arena().allocate(0, 512), nullptr);
  int on_the_stack = 0;
  EXPECT_FALSE(machine.arena().is_host(&on_the_stack));
  EXPECT_FALSE(machine.arena().is_device(&on_the_stack));
  EXPECT_FALSE(machine.arena().find(&on_the_stack, nullptr));
  EXPECT_EQ(machine.arena().device_of(&on_the_stack), -1);
  machine.arena().trim();
  machine.arena().abandon();
  EXPECT_EQ(machine.streams().from_pool(0, 0), 0);
}

TEST(Machine, RefusesImpossibleOptions) {
  EXPECT_THROW(Machine({.devices = -1}), std::invalid_argument);
  EXPECT_THROW(Machine({.devices = kMaxDevices + 1}), std::invalid_argument);
  EXPECT_THROW(Machine({.devices = 1, .memory_bytes = 0}), std::invalid_argument);
  EXPECT_THROW(Machine({.devices = 1, .memory_bytes = std::size_t{17} << 40}), std::invalid_argument);
}

TEST(Machine, SixtyFourCardsOfEightyGibibytes) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "the thread sanitizer keeps most of the address space to itself";
#endif
  Machine machine({.devices = kMaxDevices, .memory_bytes = 80 * kGiB});
  for (int d = 0; d < kMaxDevices; ++d) {
    auto* chunk = static_cast<char*>(machine.arena().allocate(d, 80 * kGiB));  // room for all that the card counts
    ASSERT_NE(chunk, nullptr) << d;
    chunk[0] = chunk[80 * kGiB - 1] = 1;
    EXPECT_EQ(machine.arena().device_of(chunk), d);
    EXPECT_EQ(machine.arena().device_of(machine.arena().device_address(chunk + 80 * kGiB - 1)), d);
    machine.arena().release(chunk);
  }
}

// The worst case for the arena: sizes just above a step, all of the card, in both parts of the slice.
TEST(Machine, TheModelSaysNoBeforeTheArena) {
  for (const std::size_t bytes : {std::size_t{513}, std::size_t{5 * 512 + 1}, kMiB / 2 + 1, kMiB + 1, 8 * kMiB + 1}) {
    Machine machine({.devices = 1, .memory_bytes = kGiB / (bytes < 4096 ? 8 : 1)});
    OutOfMemory why;
    std::size_t count = 0;
    while (machine.memory(0).allocate(bytes, 0, &why) != nullptr) {
      ASSERT_NE(machine.arena().allocate(0, bytes), nullptr) << bytes << " after " << count;
      ++count;
    }
    EXPECT_GT(count, 50u);
  }
}

TEST(Machine, ShowsTheDevicesThatAProgramLeaves) {
  using Numbers = std::vector<int>;
  EXPECT_EQ(visible_devices("1", 4), Numbers{1});
  EXPECT_EQ(visible_devices("2, 0 ,3", 4), (Numbers{2, 0, 3}));
  EXPECT_EQ(visible_devices("", 4), Numbers{});
  EXPECT_EQ(visible_devices("-1", 4), Numbers{});
  EXPECT_EQ(visible_devices("0,9,1", 4), Numbers{0});  // it ends at the first that is not there
  EXPECT_EQ(visible_devices("1,1", 4), Numbers{});
  EXPECT_EQ(visible_devices("GPU-1234", 4), Numbers{});
  Machine machine({.devices = 4, .memory_bytes = kGiB});
  EXPECT_EQ(machine.devices(), 4);
  machine.show({3, 1});
  EXPECT_EQ(machine.devices(), 2);
  EXPECT_EQ(machine.number(1), 1);
  EXPECT_EQ(machine.number(0), 3);
}

}  // namespace
}  // namespace locus::sim
