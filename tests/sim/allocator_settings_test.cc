// PYTORCH_CUDA_ALLOC_CONF: what is read, what is refused, and what it does; and the trace of what the allocator did.
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <sstream>

#include "locus/sim/caching_model.h"
#include "locus/sim/cards.h"

namespace locus::sim {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;

std::int64_t allocated(const CachingModel& model) { return model.stats().allocated_bytes.all.current; }
std::int64_t reserved(const CachingModel& model) { return model.stats().reserved_bytes.all.current; }

AllocatorSettings settings(const char* text) {
  const auto read = parse_allocator_settings(text, SettingsFrom::kEnvironment);
  EXPECT_TRUE(read.has_value()) << text;
  return read.value_or(AllocatorSettings{});
}

TEST(AllocatorSettings, AreRead) {
  const AllocatorSettings read =
      settings("max_split_size_mb:128, garbage_collection_threshold:0.8,expandable_segments:True,backend:native");
  EXPECT_EQ(read.max_split, 128 * kMiB);
  EXPECT_DOUBLE_EQ(read.collect_from, 0.8);
  EXPECT_TRUE(read.expandable);
  EXPECT_EQ(settings("").max_split, SIZE_MAX);
}

/// "ValueError", "IndexError", "RuntimeError", or "-".
std::string kind_of(const std::optional<AllocatorSettings>& read, const SettingsRefusal& refusal) {
  using Kind = SettingsRefusal::Kind;
  if (read.has_value()) return "-";
  return refusal.kind == Kind::kValue ? "ValueError" : refusal.kind == Kind::kIndex ? "IndexError" : "RuntimeError";
}

TEST(AllocatorSettings, AreRefusedInTheCardsWords) {
  std::ifstream file(LOCUS_TEST_DATA "/memory/allocator_words.tsv");
  int rows = 0, refused = 0;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("#")) continue;
    std::vector<std::string> cells;
    for (std::size_t from = 0; from <= line.size(); from = std::min(line.find('\t', from), line.size()) + 1) {
      cells.push_back(line.substr(from, line.find('\t', from) - from));
    }
    cells.resize(4);  // words there are only where it is refused
    SettingsRefusal refusal;
    const auto from = cells[0] == "program" ? SettingsFrom::kProgram : SettingsFrom::kEnvironment;
    const auto read = parse_allocator_settings(cells[1], from, &refusal);
    EXPECT_EQ(kind_of(read, refusal), cells[2]) << line;
    EXPECT_EQ(refusal.words, cells[3]) << line;
    ++rows, refused += read.has_value() ? 0 : 1;
  }
  EXPECT_EQ(rows, 85);
  EXPECT_EQ(refused, 62);
}

TEST(AllocatorSettings, OfLaterVersionsAreKnown) {
  for (const char* text : {"throw_on_cudamalloc_oom:True", "pinned_free_catch_all:False",
                           "pinned_max_round_threshold_mb:64,pinned_max_cached_size_mb:64"}) {
    EXPECT_TRUE(parse_allocator_settings(text, SettingsFrom::kEnvironment).has_value()) << text;
  }
}

TEST(AllocatorSettings, SegmentsAreAsLargeAsTheyAreTold) {
  for (const char* text : {"large_segment_size_mb:64", "large_segment_size_mb:64,expandable_segments:True"}) {
    CachingModel model(0, 4096 * kMiB);
    model.configure(settings(text));
    auto* block = model.allocate(3 * kMiB, 0, nullptr);
    EXPECT_EQ(reserved(model), static_cast<std::int64_t>(64 * kMiB)) << text;
    model.free(block);
  }
  EXPECT_FALSE(parse_allocator_settings("large_segment_size_mb:64,max_split_size_mb:32", SettingsFrom::kProgram));
}

TEST(AllocatorSettings, LargeBlocksAreNotSplit) {
  CachingModel model(0, 4096 * kMiB);
  model.configure(settings("max_split_size_mb:100"));
  EXPECT_EQ(model.stats().max_split_size, static_cast<std::int64_t>(100 * kMiB));
  auto* large = model.allocate(200 * kMiB, 0, nullptr);
  EXPECT_EQ(model.stats().oversize_allocations.current, 1);
  model.free(large);
  EXPECT_EQ(model.stats().oversize_allocations.current, 0);
  auto* small = model.allocate(50 * kMiB, 0, nullptr);  // not out of the large one
  EXPECT_EQ(reserved(model), static_cast<std::int64_t>(250 * kMiB));
  auto* nearly = model.allocate(190 * kMiB, 0, nullptr);  // the large one, whole
  EXPECT_EQ(reserved(model), static_cast<std::int64_t>(250 * kMiB));
  EXPECT_EQ(allocated(model), static_cast<std::int64_t>(250 * kMiB));
  model.free(small), model.free(nearly);
}

TEST(AllocatorSettings, SizesAreRoundedBetweenPowersOfTwo) {
  CachingModel model(0, 4096 * kMiB);
  model.configure(settings("roundup_power2_divisions:4"));
  auto* block = model.allocate(1200 << 10, 0, nullptr);  // between 1 and 2 MiB, in steps of 256 KiB
  EXPECT_EQ(allocated(model), 1280 << 10);
  model.free(block);
  model.configure(settings("roundup_power2_divisions:[256:1,512:2,1024:4,>:8]"));
  block = model.allocate(600 * kMiB, 0, nullptr);  // between 512 and 1024 MiB, in steps of 256 MiB
  EXPECT_EQ(allocated(model), static_cast<std::int64_t>(768 * kMiB));
  model.free(block);
}

TEST(AllocatorSettings, OldBlocksAreCollectedAboveTheThreshold) {
  CachingModel model(0, 1000 * kMiB);
  model.set_fraction(1.0);
  model.configure(settings("garbage_collection_threshold:0.5"));
  model.free(model.allocate(300 * kMiB, 0, nullptr));
  model.free(model.allocate(400 * kMiB, 0, nullptr));
  EXPECT_EQ(reserved(model), static_cast<std::int64_t>(700 * kMiB));
  auto* block = model.allocate(500 * kMiB, 0, nullptr);
  EXPECT_LE(reserved(model), static_cast<std::int64_t>(900 * kMiB));
  EXPECT_EQ(model.stats().num_alloc_retries, 0);
  model.free(block);
}

/// The counters in the order of the table.
std::vector<std::int64_t> counters(const CachingModel& model) {
  const MemoryStats s = model.stats();
  return {s.allocated_bytes.all.current,
          s.reserved_bytes.all.current,
          s.active_bytes.all.current,
          s.inactive_split_bytes.all.current,
          s.requested_bytes.all.current,
          s.allocated_bytes.all.peak,
          s.reserved_bytes.all.peak,
          s.active_bytes.all.peak,
          s.inactive_split_bytes.all.peak,
          s.requested_bytes.all.peak,
          s.num_device_alloc,
          s.num_device_free,
          s.num_alloc_retries,
          s.num_ooms,
          s.segment.all.current,
          s.inactive_split.all.current,
          s.oversize_allocations.current,
          s.oversize_segments.current,
          s.max_split_size};
}

TEST(AllocatorSettings, DoWhatTheyDoOnTheCard) {
  std::ifstream file(LOCUS_TEST_DATA "/memory/allocator_settings.txt");
  std::map<int, std::vector<std::int64_t>> calls;  // by seed; a free is negative
  int runs = 0;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string what;
    int seed = 0;
    words >> what >> seed;
    if (what == "calls") {
      std::int64_t bytes = 0;
      while (words >> what >> bytes) calls[seed].push_back(what == "a" ? bytes : -bytes);
    }
    if (what != "run") continue;
    double fraction = 0;
    std::string text;
    words >> fraction >> text;
    const AllocatorSettings read = settings(text == "-" ? "" : text.c_str());
    CachingModel model(0, static_cast<std::size_t>(find_card("h200")->memory));
    model.configure(read);
    if (fraction > 0) model.set_fraction(fraction);
    std::map<std::int64_t, CachingModel::Block*> held;
    std::size_t call = 0;
    for (const std::int64_t bytes : calls[seed]) {
      if (bytes > 0) {
        held[bytes] = model.allocate(static_cast<std::size_t>(bytes), 0, nullptr);
      } else {
        model.free(held.extract(-bytes).mapped());
      }
      if (++call % 100 == 0) model.empty_cache();
      if (call % 50 != 0) continue;
      ASSERT_TRUE(std::getline(file, line));
      std::istringstream row(line);
      std::vector<std::int64_t> card;
      for (std::int64_t number = 0; row >> number;) card.push_back(number);
      EXPECT_EQ(counters(model), card) << text << " seed " << seed << " call " << call;
    }
    ++runs;
  }
  EXPECT_EQ(runs, 24);
}

std::uint32_t g_line = 0;

TEST(MemoryTrace, TellsWhatTheAllocatorDidAndWhoAsked) {
  set_trace_asker([]() noexcept -> std::uint32_t { return g_line; });
  CachingModel model(0, 100 * kMiB);
  model.free(model.allocate(512, 0, nullptr));  // before anybody asked
  TraceOptions options;
  options.on = options.events = true;
  model.record(options);
  g_line = 7;
  auto* block = model.allocate(30 * kMiB, 0, nullptr);
  g_line = 8;
  auto* small = model.allocate(1000, 0, nullptr);
  OutOfMemory why;
  EXPECT_EQ(model.allocate(90 * kMiB, 0, &why), nullptr);
  const auto segments = model.snapshot();
  ASSERT_EQ(segments.size(), 2U);
  for (const auto& segment : segments) {
    for (const auto& each : segment.blocks) {
      EXPECT_EQ(each.who, !each.active ? 0U : each.size > kMiB ? 7U : 8U);
    }
  }
  g_line = 9;
  model.free(block);
  model.free(small);
  model.empty_cache();
  std::vector<std::string> said;
  for (const TraceEntry& entry : model.trace()) said.push_back(std::string(to_string(entry.action)));
  const std::vector<std::string> expected = {"segment_alloc",  "alloc",          "alloc",          "oom",
                                             "snapshot",       "free_requested", "free_completed", "free_requested",
                                             "free_completed", "segment_free",   "segment_free"};
  EXPECT_EQ(said, expected);
  EXPECT_EQ(model.trace().front().who, 7U);
  EXPECT_EQ(model.trace().front().size, static_cast<std::int64_t>(30 * kMiB));
  EXPECT_EQ(model.trace().back().who, 9U);
  set_trace_asker(nullptr);
}

TEST(MemoryTrace, KeepsTheLastOnes) {
  CachingModel model(0, 100 * kMiB);
  TraceOptions options;
  options.on = options.events = true, options.most = 3;
  options.skipped = 1U << static_cast<unsigned>(TraceAction::kFreeRequested);
  model.record(options);
  for (std::int64_t i = 1; i <= 4; ++i) model.free(model.allocate(static_cast<std::size_t>(i) * 512, 0, nullptr));
  const auto entries = model.trace();
  ASSERT_EQ(entries.size(), 3U);
  EXPECT_EQ(entries[0].size, 3 * 512);
  EXPECT_EQ(entries[0].action, TraceAction::kFreeCompleted);
  EXPECT_EQ(entries[1].action, TraceAction::kAlloc);
  EXPECT_EQ(entries[2].size, 4 * 512);
  options.clear = true;
  model.record(options);
  EXPECT_TRUE(model.trace().empty());
}

}  // namespace
}  // namespace locus::sim
