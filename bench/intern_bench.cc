// What it costs to give a place or a history its number: once for each operator call of a checked program.
#include <benchmark/benchmark.h>

#include <cstdint>

#include "locus/engine/origin.h"
#include "locus/engine/site.h"

namespace {

using locus::engine::Origin;
using locus::engine::OriginId;
using locus::engine::OriginTable;
using locus::engine::Site;
using locus::engine::SiteTable;

/// Keys that are known already, as in every step of a program but the first.
void known_sites(benchmark::State& state) {
  static SiteTable table;
  const auto count = static_cast<std::uint32_t>(state.range(0));
  std::uint32_t next = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(table.intern({1 + next / 64, static_cast<std::int32_t>(next % 64 * 2)}));
    next = next + 1 < count ? next + 1 : 0;
  }
}
BENCHMARK(known_sites)->Arg(64)->Arg(16384);
BENCHMARK(known_sites)->Arg(16384)->Threads(2);

/// The same for histories, each with a parent.
void known_origins(benchmark::State& state) {
  static OriginTable table;
  const auto count = static_cast<std::uint32_t>(state.range(0));
  std::uint32_t next = 0;
  Origin root;
  root.op = 1, root.site = 1, root.placement = locus::engine::Placement::kMoved;
  const OriginId parent = table.intern(root);
  for (auto _ : state) {
    Origin origin;
    origin.op = static_cast<locus::engine::OperatorId>(next & 255), origin.site = next, origin.complete = true;
    origin.parent = locus::engine::root_of(table, parent);
    benchmark::DoNotOptimize(locus::engine::intern_bounded(table, origin));
    next = next + 1 < count ? next + 1 : 0;
  }
}
BENCHMARK(known_origins)->Arg(64)->Arg(16384);

/// Keys that were never seen: the first step. One table for each batch, of which half is filled.
void new_sites(benchmark::State& state) {
  constexpr std::int64_t kKeys = 1 << 12;
  for (auto _ : state) {
    state.PauseTiming();
    locus::engine::InternTable<Site, std::size_t{1} << 14> table;
    state.ResumeTiming();
    for (std::int32_t i = 0; i < kKeys; ++i) benchmark::DoNotOptimize(table.intern({1, i}));
  }
  state.SetItemsProcessed(state.iterations() * kKeys);
}
BENCHMARK(new_sites);

}  // namespace
