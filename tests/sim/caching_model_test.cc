// Tests of the caching model: PyTorch's rules one by one, figures measured on a real card, and properties that
// must hold after any sequence of calls.
#include "locus/sim/caching_model.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <thread>

namespace locus::sim {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20, kGiB = std::size_t{1} << 30;
using Block = CachingModel::Block;

std::int64_t allocated(const CachingModel& model) { return model.stats().allocated_bytes.all.current; }
std::int64_t reserved(const CachingModel& model) { return model.stats().reserved_bytes.all.current; }

TEST(FormatBytes, WritesAsPyTorchDoes) {
  EXPECT_EQ(format_bytes(0), "0 bytes");
  EXPECT_EQ(format_bytes(512), "512 bytes");
  EXPECT_EQ(format_bytes(1024), "1024 bytes");
  EXPECT_EQ(format_bytes(1536), "1.50 KiB");
  EXPECT_EQ(format_bytes(kMiB), "1024.00 KiB");
  EXPECT_EQ(format_bytes(20 * kMiB), "20.00 MiB");
  EXPECT_EQ(format_bytes(kGiB), "1024.00 MiB");
  EXPECT_EQ(format_bytes(kGiB * 317 / 4), "79.25 GiB");
  EXPECT_EQ(format_bytes(std::size_t{1} << 47), "131072.00 GiB");
}

TEST(OutOfMemoryMessage, IsPyTorchsOwn) {
  OutOfMemory what{20 * kMiB, kGiB * 317 / 4, 5179965, kGiB + 1, kGiB + 1 + 2 * kMiB, 0, 3};
  const std::string rest =
      "Of the allocated memory 1.00 GiB is allocated by PyTorch, and 2.00 MiB is reserved by PyTorch but unallocated. If "
      "reserved but unallocated memory is large try setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid "
      "fragmentation.  See documentation for Memory Management  "
      "(https://docs.pytorch.org/docs/stable/notes/cuda.html#optimizing-memory-usage-with-pytorch-cuda-alloc-conf)";
  const std::string start =
      "CUDA out of memory. Tried to allocate 20.00 MiB. GPU 3 has a total capacity of 79.25 GiB of which 4.94 MiB is free. "
      "Including non-PyTorch memory, this process has 1.00 GiB memory in use. ";
  EXPECT_EQ(out_of_memory_message(what), start + rest);
  what.limit = 40 * kGiB;
  EXPECT_EQ(out_of_memory_message(what), start + "40.00 GiB allowed; " + rest);
  what.requested = std::size_t{1} << 60;
  EXPECT_EQ(out_of_memory_message(what), "CUDA out of memory. Tried to allocate more than 1EB memory.");
}

TEST(CachingModel, RoundsToFiveHundredAndTwelve) {
  EXPECT_EQ(CachingModel::rounded_size(1), 512u);
  EXPECT_EQ(CachingModel::rounded_size(512), 512u);
  EXPECT_EQ(CachingModel::rounded_size(513), 1024u);
  EXPECT_EQ(CachingModel::rounded_size(kMiB + 1), kMiB + 512);
}

TEST(CachingModel, SegmentsBySize) {
  const std::pair<std::size_t, std::size_t> cases[] = {{1, 2 * kMiB},          {kMiB, 2 * kMiB},
                                                       {kMiB + 1, 20 * kMiB},  {10 * kMiB - 512, 20 * kMiB},
                                                       {10 * kMiB, 10 * kMiB}, {10 * kMiB + 1, 12 * kMiB}};
  for (const auto& [bytes, segment] : cases) {
    CachingModel model(0, 80 * kGiB);
    ASSERT_NE(model.allocate(bytes, 0, nullptr), nullptr);
    EXPECT_EQ(model.reserved(), static_cast<std::int64_t>(segment)) << bytes;
    EXPECT_EQ(model.free_bytes(), 80 * kGiB - segment);
  }
}

TEST(CachingModel, LargeRemaindersStayWhenSmall) {
  CachingModel model(0, 80 * kGiB);
  Block* block = model.allocate(12 * kMiB + 1, 0, nullptr);  // a segment of 14 MiB
  EXPECT_EQ(CachingModel::size_of(block), 12 * kMiB + 512) << "more than 1 MiB left over: split";
  model.free(block);
  block = model.allocate(13 * kMiB, 0, nullptr);  // 1 MiB left over: not split, and counted
  EXPECT_EQ(CachingModel::size_of(block), 14 * kMiB);
  EXPECT_EQ(model.allocated(), static_cast<std::int64_t>(14 * kMiB));
  model.free(block);
  EXPECT_EQ(model.stats().inactive_split.all.current, 0);
}

TEST(CachingModel, StreamsDoNotShare) {
  CachingModel model(0, 80 * kGiB);
  model.free(model.allocate(1000, 0, nullptr));
  model.allocate(1000, 3, nullptr);
  EXPECT_EQ(model.stats().segment.all.current, 2);
  model.allocate(1000, 0, nullptr);
  EXPECT_EQ(model.stats().segment.all.current, 2);
}

TEST(CachingModel, RetriesThenGivesUp) {
  CachingModel model(2, 100 * kMiB);
  Block* kept = model.allocate(30 * kMiB, 0, nullptr);
  model.free(model.allocate(60 * kMiB, 0, nullptr));
  EXPECT_EQ(model.reserved(), static_cast<std::int64_t>(90 * kMiB));
  Block* next = model.allocate(62 * kMiB, 0, nullptr);  // fits only after the cached 60 MiB are given back
  ASSERT_NE(next, nullptr);
  EXPECT_EQ(model.stats().num_alloc_retries, 1);
  EXPECT_EQ(model.stats().num_device_free, 1);
  OutOfMemory why;
  EXPECT_EQ(model.allocate(5 * kMiB, 0, &why), nullptr);
  EXPECT_EQ(why.requested, 20 * kMiB);
  EXPECT_EQ(why.capacity, 100 * kMiB);
  EXPECT_EQ(why.free, 8 * kMiB);
  EXPECT_EQ(why.allocated, 92 * kMiB);
  EXPECT_EQ(why.reserved, 92 * kMiB);
  EXPECT_EQ(why.limit, 0u);
  EXPECT_EQ(why.device, 2);
  EXPECT_EQ(model.stats().num_ooms, 1);
  EXPECT_EQ(model.stats().num_alloc_retries, 2);
  model.free(kept);
  EXPECT_NE(model.allocate(5 * kMiB, 0, &why), nullptr) << "the program may go on";
}

TEST(CachingModel, AbsurdSizes) {
  CachingModel model(0, 80 * kGiB);
  for (const std::size_t bytes : {~std::size_t{0}, std::size_t{1} << 60, (std::size_t{1} << 60) - 1, std::size_t{1} << 50}) {
    OutOfMemory why;
    EXPECT_EQ(model.allocate(bytes, 0, &why), nullptr);
    EXPECT_GE(why.requested, bytes);
  }
  EXPECT_EQ(model.reserved(), 0);
}

TEST(CachingModel, FractionLimitsWhatIsReserved) {
  CachingModel model(0, 100 * kMiB);
  EXPECT_EQ(model.fraction(), 1.0);
  model.set_fraction(0.5);
  EXPECT_EQ(model.fraction(), 0.5);
  OutOfMemory why;
  EXPECT_EQ(model.allocate(51 * kMiB, 0, &why), nullptr);
  EXPECT_EQ(why.limit, 50 * kMiB);
  EXPECT_NE(model.allocate(50 * kMiB, 0, &why), nullptr);
  model.set_fraction(1.0);
  EXPECT_NE(model.allocate(50 * kMiB, 0, &why), nullptr);
}

TEST(CachingModel, PeaksAndTotalsCanBeReset) {
  CachingModel model(0, kGiB);
  Block* block = model.allocate(4096, 0, nullptr);
  model.free(model.allocate(8192, 0, nullptr));
  EXPECT_EQ(model.peak_allocated(), 4096 + 8192);
  model.reset_peak();
  EXPECT_EQ(model.peak_allocated(), 4096);
  EXPECT_EQ(model.stats().allocation.all.allocated, 2);
  model.reset_accumulated();
  EXPECT_EQ(model.stats().allocation.all.allocated, 0);
  EXPECT_EQ(model.stats().allocation.all.current, 1);
  EXPECT_EQ(model.stats().num_device_alloc, 0);
  model.free(block);
  EXPECT_EQ(model.allocated(), 0);
}

TEST(CachingModel, SnapshotTilesEverySegment) {
  CachingModel model(0, kGiB);
  Block* a = model.allocate(1000, 0, nullptr);
  model.allocate(2000, 0, nullptr);
  model.allocate(30 * kMiB, 5, nullptr);
  model.free(a);
  const auto segments = model.snapshot();
  ASSERT_EQ(segments.size(), 2u);
  std::size_t large = 0;
  for (const auto& segment : segments) {
    std::uint64_t at = segment.address;
    for (const auto& block : segment.blocks) {
      EXPECT_EQ(block.address, at);
      at += block.size;
    }
    EXPECT_EQ(at, segment.address + segment.total);
    if (!segment.large) {
      ASSERT_EQ(segment.blocks.size(), 3u);
      EXPECT_FALSE(segment.blocks[0].active);
      EXPECT_TRUE(segment.blocks[1].active);
      EXPECT_EQ(segment.blocks[1].requested, 2000u);
      EXPECT_EQ(segment.allocated, 2048u);
    } else {
      ++large;
      EXPECT_EQ(segment.stream, 5);
    }
  }
  EXPECT_EQ(large, 1u);
}

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
  EXPECT_EQ(model_bytes({{32, 1, 4, 4}, {32}, {64, 32, 4, 4}, {64}, {64, 32, 4, 4}, {32}, {32, 1, 4, 4}, {1}}, 0), 268'288);
}

// 20,000 calls by a small generator, against torch.cuda.memory_stats() of PyTorch 2.11 on an H200 after the same
// calls (caching_allocator_alloc and _delete on two streams, the fraction set first, empty_cache every 7,000 calls).
struct Measured {
  std::uint64_t seed;
  double fraction;
  std::int64_t counters[4][17];  // after 5,000, 10,000, 15,000 and 20,000 calls
};
constexpr Measured kMeasured[] = {
    {1, 1.0, {
        {134, 45, 17, 74, 88, 482064384, 814870528, 1337982976, 1337982976, 124012544, 417294848, 478052027, 0, 0, 45, 0, 0},
        {162, 46, 18, 77, 91, 700850688, 983017984, 1463812096, 1463812096, 121232896, 417294848, 696230276, 0, 0, 65, 19, 1},
        {138, 44, 18, 78, 94, 481505792, 983017984, 1191182336, 1530920960, 185388544, 417294848, 476737987, 0, 0, 80, 36, 2},
        {156, 50, 20, 80, 95, 641127936, 983017984, 1447034880, 1530920960, 227092992, 417294848, 637866705, 0, 0, 86, 36, 2},
    }},
    {2, 0.009, {
        {154, 46, 18, 84, 90, 568124928, 909215232, 1317011456, 1329594368, 203627008, 302488576, 564987188, 1, 0, 63, 17, 1},
        {144, 39, 20, 79, 96, 778357248, 976169472, 1140850688, 1329594368, 247150080, 317661184, 773416788, 3, 0, 81, 42, 4},
        {144, 41, 20, 70, 96, 558522880, 978241024, 1277165568, 1329594368, 284532224, 366092800, 554514699, 4, 0, 102, 61, 6},
        {160, 38, 20, 83, 96, 386206208, 978241024, 1184890880, 1340080128, 272299520, 388729344, 383933819, 6, 0, 115, 77, 8},
    }},
    {3, 0.006, {
        {152, 34, 17, 76, 92, 616602112, 809783808, 897581056, 899678208, 153052672, 312153088, 612607672, 29, 14, 87, 53, 29},
        {138, 28, 17, 73, 94, 209511424, 809783808, 593494016, 899678208, 138615808, 319948800, 208179574, 46, 18, 127, 99, 47},
        {156, 35, 20, 78, 99, 751384576, 809783808, 891289600, 899678208, 139905024, 332860928, 749183409, 81, 38, 184, 149, 83},
        {147, 31, 20, 82, 99, 628433920, 809783808, 853540864, 899678208, 164289536, 337316352, 624994508, 119, 61, 226, 195, 121},
    }},
};

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
      const std::int64_t got[] = {s.allocation.all.current,        s.segment.all.current,
                                  s.segment.small_pool.peak,       s.inactive_split.all.current,
                                  s.inactive_split.all.peak,       s.allocated_bytes.all.current,
                                  s.allocated_bytes.all.peak,      s.reserved_bytes.all.current,
                                  s.reserved_bytes.all.peak,       s.inactive_split_bytes.all.current,
                                  s.inactive_split_bytes.large_pool.peak, s.requested_bytes.all.current,
                                  s.num_alloc_retries,             s.num_ooms,
                                  s.num_device_alloc,              s.num_device_free,
                                  s.num_sync_all_streams};
      for (int i = 0; i < 17; ++i) {
        EXPECT_EQ(got[i], measured.counters[call / 5000 - 1][i]) << "seed " << measured.seed << ", call " << call << ", counter " << i;
      }
    }
  }
}

TEST(CachingModel, HoldsTogetherAfterAnySequence) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    std::mt19937 random(seed);
    CachingModel model(0, 400 * kMiB);
    std::map<Block*, std::size_t> live;
    for (int step = 0; step < 2000; ++step) {
      if (random() % 100 < 55 || live.empty()) {
        const std::size_t bytes = 1 + random() % (random() % 4 == 0 ? 24 * kMiB : 100'000);
        Block* block = model.allocate(bytes, random() % 2, nullptr);
        if (block == nullptr) continue;
        ASSERT_FALSE(live.contains(block));
        ASSERT_GE(CachingModel::size_of(block), bytes);
        live[block] = CachingModel::size_of(block);
      } else {
        auto at = std::next(live.begin(), random() % live.size());
        model.free(at->first);
        live.erase(at);
      }
      if (random() % 500 == 0) model.empty_cache();
      if (step % 50 != 0) continue;
      std::int64_t sum = 0, tiled = 0;
      for (const auto& [block, size] : live) {
        ASSERT_EQ(CachingModel::size_of(block), size);
        sum += static_cast<std::int64_t>(size);
      }
      std::uint64_t end = 0;
      for (const auto& segment : model.snapshot()) {
        ASSERT_GE(segment.address, end) << "segments must not overlap";
        end = segment.address + segment.total;
        tiled += static_cast<std::int64_t>(segment.total);
      }
      ASSERT_EQ(model.allocated(), sum);
      ASSERT_EQ(model.reserved(), tiled);
      ASSERT_GE(reserved(model), allocated(model));
      ASSERT_LE(reserved(model), static_cast<std::int64_t>(400 * kMiB));
    }
    for (const auto& [block, size] : live) model.free(block);
    EXPECT_EQ(model.allocated(), 0);
    const MemoryStats stats = model.stats();
    EXPECT_EQ(stats.allocation.all.current, 0);
    EXPECT_EQ(stats.allocation.all.allocated, stats.allocation.all.freed);
    EXPECT_EQ(stats.requested_bytes.all.current, 0);
    EXPECT_EQ(stats.inactive_split.all.current, 0) << "all merged";
    EXPECT_EQ(stats.inactive_split_bytes.all.current, 0);
    EXPECT_EQ(stats.active_bytes.small_pool.current + stats.active_bytes.large_pool.current, 0);
    model.empty_cache();
    EXPECT_EQ(model.reserved(), 0);
    EXPECT_EQ(model.stats().segment.all.current, 0);
    EXPECT_TRUE(model.snapshot().empty());
  }
}

TEST(CachingModel, ThreadsShareIt) {
  CachingModel model(0, kGiB);
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 4; ++t) {
    threads.emplace_back([&model, t] {
      std::mt19937 random(t);
      std::vector<Block*> mine;
      for (int i = 0; i < 3000; ++i) {
        if (random() % 2 == 0 || mine.empty()) {
          if (Block* block = model.allocate(1 + random() % 50'000, t % 2, nullptr)) mine.push_back(block);
        } else {
          model.free(mine.back());
          mine.pop_back();
        }
        if (i % 300 == 0) model.empty_cache();
        if (model.allocated() > model.peak_allocated() + static_cast<std::int64_t>(kGiB)) std::abort();
      }
      for (Block* block : mine) model.free(block);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(model.allocated(), 0);
  model.empty_cache();
  EXPECT_EQ(model.reserved(), 0);
}

}  // namespace
}  // namespace locus::sim
