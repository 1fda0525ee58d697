// What it costs to take memory of a simulated device and to account for it as a card's allocator would: once for
// each tensor that an operator makes.
#include <benchmark/benchmark.h>

#include <array>
#include <cstddef>
#include <cstdint>

#include "locus/sim/arena.h"
#include "locus/sim/caching_model.h"

namespace {

using locus::sim::Arena;
using locus::sim::CachingModel;
using locus::sim::OutOfMemory;

constexpr std::size_t kGiB = std::size_t{1} << 30;

Arena& arena() {
  static auto* one = new Arena(1, 8 * kGiB);
  return *one;
}
CachingModel& model() {
  static auto* one = new CachingModel(0, 8 * kGiB);
  return *one;
}

/// A chunk and back again: the pattern of a temporary.
void arena_pair(benchmark::State& state) {
  const auto bytes = static_cast<std::size_t>(state.range(0));
  for (auto _ : state) {
    void* host = arena().allocate(0, bytes);
    benchmark::DoNotOptimize(host);
    arena().release(host);
  }
}
BENCHMARK(arena_pair)->Arg(32)->Arg(64 << 10)->Arg(8 << 20);
BENCHMARK(arena_pair)->Arg(32)->Threads(2);

/// What the bridge remembers with each chunk.
void arena_label(benchmark::State& state) {
  void* host = arena().allocate(0, 512);
  std::uint64_t label = 0;
  for (auto _ : state) {
    arena().set_label(host, ++label);
    benchmark::DoNotOptimize(arena().label(host));
  }
  arena().release(host);
}
BENCHMARK(arena_label);

/// The account of a temporary.
void account_pair(benchmark::State& state) {
  const auto bytes = static_cast<std::size_t>(state.range(0));
  OutOfMemory why;
  for (auto _ : state) model().free(model().allocate(bytes, 0, &why));
}
BENCHMARK(account_pair)->Arg(32)->Arg(64 << 10)->Arg(8 << 20);
BENCHMARK(account_pair)->Arg(32)->Threads(2);

/// The accounts of a training step: 64 tensors of many sizes, taken in turn, freed in reverse.
void account_step(benchmark::State& state) {
  std::array<CachingModel::Block*, 64> blocks{};
  OutOfMemory why;
  for (auto _ : state) {
    for (std::size_t i = 0; i < blocks.size(); ++i) blocks[i] = model().allocate((i + 1) * (i + 1) * 2048, 0, &why);
    for (std::size_t i = blocks.size(); i-- > 0;) model().free(blocks[i]);
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(blocks.size()));
}
BENCHMARK(account_step);

}  // namespace
