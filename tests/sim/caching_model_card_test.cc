// The caching model against figures measured on a real card: what models take, and the allocator's counters after
// thousands of calls. The rules themselves are tested in caching_model_test.cc.
#include <gtest/gtest.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "locus/sim/caching_model.h"

namespace locus::sim {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20, kGiB = std::size_t{1} << 30;
using Block = CachingModel::Block;

// Parameters and buffers of three models, in float32; the sums were measured on an H200.
TEST(CachingModelOnARealCard, ModelsTakeWhatWasMeasured) {
  using Shape = std::vector<std::size_t>;
  const auto model_bytes = [](const std::vector<Shape>& floats, int longs) {
    CachingModel model(0, 139 * kGiB);
    for (const Shape& shape : floats) {
      std::size_t bytes = 4;
      for (const std::size_t extent : shape) bytes *= extent;
      EXPECT_NE(model.allocate(bytes, 0, nullptr), nullptr);
    }
    for (int i = 0; i < longs; ++i) EXPECT_NE(model.allocate(8, 0, nullptr), nullptr);  // num_batches_tracked
    return model.allocated();
  };
  EXPECT_EQ(model_bytes({{2048, 784}, {2048}, {2048, 2048}, {2048}, {10, 2048}, {10}}, 0), 23'298'560);
  std::vector<Shape> convolutions;
  for (const auto& [in, out] : {std::pair{3, 64}, {64, 128}, {128, 256}, {256, 256}}) {
    const std::size_t i = in, o = out;
    convolutions.insert(convolutions.end(), {{o, i, 3, 3}, {o}, {o}, {o}, {o}});  // weight, then the batch norm's four
  }
  convolutions.insert(convolutions.end(), {{10, 256}, {10}});
  EXPECT_EQ(model_bytes(convolutions, 4), 3'866'112);
  EXPECT_EQ(model_bytes({{32, 1, 4, 4}, {32}, {64, 32, 4, 4}, {64}, {64, 32, 4, 4}, {32}, {32, 1, 4, 4}, {1}}, 0),
            268'288);
}

// 20,000 calls by a small generator, against torch.cuda.memory_stats() of PyTorch 2.11 on an H200 after the same
// calls (caching_allocator_alloc and _delete on two streams, the fraction set first, empty_cache every 7,000 calls).
struct Measured {
  std::uint64_t seed;
  double fraction;
  std::int64_t counters[4][17];  // after 5,000, 10,000, 15,000 and 20,000 calls
};
// clang-format off
constexpr Measured kMeasured[] = {
  {1, 1.0, {
    {134, 45, 17, 74, 88, 482064384, 814870528, 1337982976, 1337982976,
     124012544, 417294848, 478052027, 0, 0, 45, 0, 0},
    {162, 46, 18, 77, 91, 700850688, 983017984, 1463812096, 1463812096,
     121232896, 417294848, 696230276, 0, 0, 65, 19, 1},
    {138, 44, 18, 78, 94, 481505792, 983017984, 1191182336, 1530920960,
     185388544, 417294848, 476737987, 0, 0, 80, 36, 2},
    {156, 50, 20, 80, 95, 641127936, 983017984, 1447034880, 1530920960,
     227092992, 417294848, 637866705, 0, 0, 86, 36, 2},
  }},
  {2, 0.009, {
    {154, 46, 18, 84, 90, 568124928, 909215232, 1317011456, 1329594368,
     203627008, 302488576, 564987188, 1, 0, 63, 17, 1},
    {144, 39, 20, 79, 96, 778357248, 976169472, 1140850688, 1329594368,
     247150080, 317661184, 773416788, 3, 0, 81, 42, 4},
    {144, 41, 20, 70, 96, 558522880, 978241024, 1277165568, 1329594368,
     284532224, 366092800, 554514699, 4, 0, 102, 61, 6},
    {160, 38, 20, 83, 96, 386206208, 978241024, 1184890880, 1340080128,
     272299520, 388729344, 383933819, 6, 0, 115, 77, 8},
  }},
  {3, 0.006, {
    {152, 34, 17, 76, 92, 616602112, 809783808, 897581056, 899678208,
     153052672, 312153088, 612607672, 29, 14, 87, 53, 29},
    {138, 28, 17, 73, 94, 209511424, 809783808, 593494016, 899678208,
     138615808, 319948800, 208179574, 46, 18, 127, 99, 47},
    {156, 35, 20, 78, 99, 751384576, 809783808, 891289600, 899678208,
     139905024, 332860928, 749183409, 81, 38, 184, 149, 83},
    {147, 31, 20, 82, 99, 628433920, 809783808, 853540864, 899678208,
     164289536, 337316352, 624994508, 119, 61, 226, 195, 121},
  }},
};
// clang-format on

TEST(CachingModelOnARealCard, CountersAgreeAfterThousandsOfCalls) {
  for (const Measured& measured : kMeasured) {
    CachingModel model(0, 150109880320);
    model.set_fraction(measured.fraction);
    std::uint64_t x = measured.seed;
    const auto random = [&x](std::uint64_t below) {
      x = x * 6364136223846793005u + 1442695040888963407u;
      return (x >> 33) % below;
    };
    std::vector<Block*> slots(300);
    for (int call = 1; call <= 20000; ++call) {
      Block*& slot = slots[random(slots.size())];
      if (slot != nullptr) {
        model.free(slot);
        slot = nullptr;
      } else {
        const std::uint64_t kind = random(10);
        const std::size_t bytes = 1 + random(kind < 6 ? 65536 : kind < 8 ? kMiB : kind < 9 ? 12 * kMiB : 60 * kMiB);
        slot = model.allocate(bytes, random(8) == 0 ? 3 : 0, nullptr);
      }
      if (call % 7000 == 0) model.empty_cache();
      if (call % 5000 != 0) continue;
      const MemoryStats s = model.stats();
      const std::int64_t got[] = {s.allocation.all.current,
                                  s.segment.all.current,
                                  s.segment.small_pool.peak,
                                  s.inactive_split.all.current,
                                  s.inactive_split.all.peak,
                                  s.allocated_bytes.all.current,
                                  s.allocated_bytes.all.peak,
                                  s.reserved_bytes.all.current,
                                  s.reserved_bytes.all.peak,
                                  s.inactive_split_bytes.all.current,
                                  s.inactive_split_bytes.large_pool.peak,
                                  s.requested_bytes.all.current,
                                  s.num_alloc_retries,
                                  s.num_ooms,
                                  s.num_device_alloc,
                                  s.num_device_free,
                                  s.num_sync_all_streams};
      for (int i = 0; i < 17; ++i) {
        EXPECT_EQ(got[i], measured.counters[call / 5000 - 1][i])
            << "seed " << measured.seed << ", call " << call << ", counter " << i;
      }
    }
  }
}

}  // namespace
}  // namespace locus::sim
