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
      "Of the allocated memory 1.00 GiB is allocated by PyTorch, and 2.00 MiB is reserved by PyTorch but unallocated. "
      "If "
      "reserved but unallocated memory is large try setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid "
      "fragmentation.  See documentation for Memory Management  "
      "(https://docs.pytorch.org/docs/stable/notes/cuda.html#optimizing-memory-usage-with-pytorch-cuda-alloc-conf)";
  const std::string start =
      "CUDA out of memory. Tried to allocate 20.00 MiB. GPU 3 has a total capacity of 79.25 GiB of which 4.94 MiB is "
      "free. "
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
  for (const std::size_t bytes :
       {~std::size_t{0}, std::size_t{1} << 60, (std::size_t{1} << 60) - 1, std::size_t{1} << 50}) {
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

TEST(CachingModel, ExpandableSegmentsGrowAndShrinkByPages) {
  CachingModel model(0, 200 * kMiB);
  AllocatorSettings settings;
  settings.expandable = true;
  model.configure(settings);
  Block* first = model.allocate(25 * kMiB, 0, nullptr);
  EXPECT_EQ(reserved(model), static_cast<std::int64_t>(40 * kMiB));  // two pages
  Block* second = model.allocate(30 * kMiB, 0, nullptr);
  EXPECT_EQ(reserved(model), static_cast<std::int64_t>(60 * kMiB)) << "the end of the second page is used";
  EXPECT_EQ(CachingModel::address_of(second), CachingModel::address_of(first) + 25 * kMiB);
  model.free(first);
  ASSERT_EQ(model.snapshot().size(), 1U);
  EXPECT_TRUE(model.snapshot().front().expandable);
  model.empty_cache();  // the first page is free as a whole, the second in part
  EXPECT_EQ(reserved(model), static_cast<std::int64_t>(40 * kMiB));
  OutOfMemory why;
  EXPECT_EQ(model.allocate(170 * kMiB, 0, &why), nullptr);
  EXPECT_EQ(why.free, 160 * kMiB);
  Block* beyond = model.allocate_beyond(400 * kMiB, 0);
  ASSERT_NE(beyond, nullptr);
  EXPECT_GE(reserved(model), static_cast<std::int64_t>(430 * kMiB));
  model.free(beyond);
  model.free(second);
  model.empty_cache();
  EXPECT_EQ(reserved(model), 0);
  EXPECT_TRUE(model.snapshot().empty());
  EXPECT_EQ(model.stats().inactive_split.all.peak, 0);
}

TEST(CachingModel, ExpandableSegmentsAreLeftAloneWhenSwitchedOff) {
  CachingModel model(0, 400 * kMiB);
  AllocatorSettings settings;
  settings.expandable = true;
  model.configure(settings);
  model.free(model.allocate(40 * kMiB, 0, nullptr));
  model.configure(AllocatorSettings());
  Block* block = model.allocate(30 * kMiB, 0, nullptr);
  EXPECT_EQ(reserved(model), static_cast<std::int64_t>(70 * kMiB));
  model.free(block);
}

TEST(CachingModel, PoolsAreApartWhileSomebodyHoldsThem) {
  CachingModel model(0, 200 * kMiB);
  const PoolId pool{0, 1};
  model.hold_pool(pool);
  model.free(model.allocate(30 * kMiB, 0, nullptr, pool));
  Block* plain = model.allocate(30 * kMiB, 0, nullptr);
  EXPECT_EQ(reserved(model), static_cast<std::int64_t>(60 * kMiB)) << "not out of the pool";
  Block* in_pool = model.allocate(20 * kMiB, 0, nullptr, pool);
  EXPECT_EQ(reserved(model), static_cast<std::int64_t>(60 * kMiB)) << "out of the pool";
  model.free(plain), model.free(in_pool);
  EXPECT_EQ(model.snapshot().size(), 2U);
  model.empty_cache();
  model.empty_cache(pool);
  ASSERT_EQ(model.snapshot().size(), 1U) << "somebody holds it";
  EXPECT_EQ(model.snapshot().front().pool, pool);
  model.release_pool(pool);
  EXPECT_EQ(model.pool_users(pool), 0);
  model.free(model.allocate(40 * kMiB, 0, nullptr));
  model.empty_cache(pool);
  ASSERT_EQ(model.snapshot().size(), 1U);
  EXPECT_EQ(model.snapshot().front().pool, PoolId());
}

TEST(CachingModel, PlacesOfPoolsThatHaveGoneAreUsedAgain) {
  CachingModel model(0, 200 * kMiB);
  EXPECT_EQ(model.pool_users({0, 99}), 0) << "asking makes none";
  for (std::int64_t i = 1; i <= 1000; ++i) {
    const PoolId pool{0, i};
    model.hold_pool(pool, {false, i % 2 == 0});
    Block* block = model.allocate(20 * kMiB, 0, nullptr, pool);
    ASSERT_EQ(model.snapshot().size(), 1U);
    EXPECT_EQ(model.snapshot().front().pool, pool);
    model.free(block);
    model.release_pool(pool);
    if (i % 3 == 0) model.free(model.allocate(30 * kMiB, 0, nullptr, pool));  // of nobody's pool any more
    model.empty_cache(pool);
    ASSERT_EQ(reserved(model), 0) << i;
  }
}

TEST(CachingModel, APoolCanBeTheLastResort) {
  for (const bool last_resort : {false, true}) {
    CachingModel model(0, 100 * kMiB);
    model.hold_pool({0, 1}, {last_resort, false});
    model.free(model.allocate(80 * kMiB, 0, nullptr, {0, 1}));
    Block* block = model.allocate(50 * kMiB, 0, nullptr);
    EXPECT_EQ(block != nullptr, last_resort);
    model.free(block);
  }
}

TEST(CachingModel, APoolCanKeepItsBlocksWhole) {
  CachingModel model(0, 100 * kMiB);
  model.hold_pool({0, 1}, {false, true});
  model.free(model.allocate(40 * kMiB, 0, nullptr, {0, 1}));
  Block* block = model.allocate(10 * kMiB, 0, nullptr, {0, 1});
  EXPECT_EQ(CachingModel::size_of(block), 40 * kMiB);
  model.free(block);
}

TEST(CachingModel, HoldsTogetherAfterAnySequence) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    std::mt19937 random(seed);
    CachingModel model(0, 400 * kMiB);
    AllocatorSettings settings;
    settings.expandable = seed % 2 == 1;
    model.configure(settings);
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

TEST(CachingModel, GoesBeyondItsCapacityWhenTold) {
  CachingModel model(0, std::size_t{64} << 20);
  OutOfMemory why;
  auto* first = model.allocate(std::size_t{60} << 20, 0, &why);
  ASSERT_NE(first, nullptr);
  ASSERT_EQ(model.allocate(std::size_t{60} << 20, 0, &why), nullptr);
  auto* second = model.allocate_beyond(std::size_t{60} << 20, 0);
  ASSERT_NE(second, nullptr);
  EXPECT_EQ(model.allocated(), std::int64_t{120} << 20);
  EXPECT_EQ(model.free_bytes(), 0u);
  ASSERT_EQ(model.allocate(std::size_t{60} << 20, 0, &why), nullptr);
  EXPECT_EQ(why.free, 0u);
  model.free(second);
  model.free(first);
  EXPECT_EQ(model.allocated(), 0);
}

}  // namespace
}  // namespace locus::sim
