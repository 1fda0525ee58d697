// What it costs to follow streams: once for each operator. With one stream that is one comparison; with several, an
// access for each operand and result.
#include <benchmark/benchmark.h>

#include <array>
#include <atomic>
#include <cstddef>

#include "locus/order/order.h"

namespace {

using locus::order::Conflicts;
using locus::order::Kind;
using locus::order::Lane;
using locus::order::Order;
using locus::order::Range;
using locus::order::Shadow;
using locus::order::Touch;

std::atomic<bool> g_following{false};

/// A program with one stream: as `ordering()` in locus/bridge/streams/ordering.h, asked before each note.
void one_stream(benchmark::State& state) {
  for (auto _ : state) {
    const bool following = g_following.load(std::memory_order_relaxed);
    if (following) state.SkipWithError("it is off");
    benchmark::ClobberMemory();
  }
}
BENCHMARK(one_stream);

/// `x + y` on one of several streams: two reads, and a write to new memory.
void one_addition(benchmark::State& state) {
  Order order;
  std::array<Lane, 4> lanes{};
  for (Lane& lane : lanes) lane = order.add_lane();
  std::array<std::array<Shadow, 2>, 4> read;
  std::size_t next = 0;
  const locus::order::Note note{7, 3, 0};
  for (auto _ : state) {
    const std::size_t lane = (next++ / 64) % static_cast<std::size_t>(state.range(0));
    Shadow made;
    const std::array<Touch, 3> touches{Touch{&read[lane][0], Kind::kRead, Range(), note},
                                       Touch{&read[lane][1], Kind::kRead, Range(), note},
                                       Touch{&made, Kind::kWrite, Range(), note}};
    Conflicts found;
    order.work(lanes[lane], touches.data(), touches.size(), &found);
    benchmark::DoNotOptimize(found);
  }
}
BENCHMARK(one_addition)->Arg(1)->Arg(4);

}  // namespace
