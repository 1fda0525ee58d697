// Random programs of streams, events, host threads, partial accesses, frees and reuse, judged twice: by the clocks, and
// by a graph in which every call is a node and "comes before" is a search. The graph knows nothing of clocks.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "locus/order/order.h"

namespace locus::order {
namespace {

#ifdef __SANITIZE_THREAD__
constexpr int kPrograms = 1000;  // each is one thread's; those of several are in threads_test.cc
#else
constexpr int kPrograms = 10000;
#endif
constexpr int kCalls = 60, kBytes = 8, kTensors = 4, kMemory = 24;

/// Every call that was made, and which calls come right before it.
class Graph {
 public:
  int add(const std::vector<int>& before) {
    before_.push_back(before);
    return static_cast<int>(before_.size()) - 1;
  }
  std::vector<bool> all_before(int node) const {
    std::vector<bool> seen(before_.size());
    std::vector<int> stack{node};
    while (!stack.empty()) {
      const int at = stack.back();
      stack.pop_back();
      if (at < 0 || seen[static_cast<std::size_t>(at)]) continue;
      seen[static_cast<std::size_t>(at)] = true;
      for (const int each : before_[static_cast<std::size_t>(at)]) stack.push_back(each);
    }
    return seen;
  }

 private:
  std::vector<std::vector<int>> before_;
};

/// One byte of memory, as it really is.
struct Byte {
  int write = -1;
  std::vector<int> reads;
};
struct Tensor {
  Shadow shadow;
  std::vector<Byte> bytes = std::vector<Byte>(kBytes);
  int address = 0;
  Lane home = 1;
};

class Program {
 public:
  Program(unsigned seed, bool with_gaps) : random_(seed), with_gaps_(with_gaps) {
    for (int i = 0; i < 4; ++i) streams_.push_back(order_.add_lane());
    other_thread_ = order_.add_lane();
    last_.assign(order_.lanes(), -1);
    freed_.resize(kMemory);
    for (Tensor& tensor : tensors_) make(tensor);
    for (Tensor& tensor : pinned_) tensor.address = -1;
  }

  void run() {
    for (int i = 0; i < kCalls && !testing::Test::HasFailure(); ++i) call();
  }
  int conflicts() const { return conflicts_; }

 private:
  int pick(int count) { return static_cast<int>(random_() % static_cast<unsigned>(count)); }
  Lane stream() { return streams_[static_cast<std::size_t>(pick(static_cast<int>(streams_.size())))]; }
  Lane thread() { return pick(4) == 0 ? other_thread_ : kHost; }
  int& last(Lane lane) { return last_[lane]; }

  /// A call of a host thread, and the node on the lane that it makes.
  int start(Lane lane, Lane by) {
    last(by) = graph_.add({last(by)});
    return last(lane) = graph_.add({last(lane), last(by)});
  }

  void call() {
    const Lane lane = stream(), by = thread();
    switch (pick(12)) {
      case 0:
        stamps_.emplace_back(order_.record(lane, by), start(lane, by));
        break;
      case 1:
        if (!stamps_.empty()) {
          const auto& [stamp, node] = stamps_[static_cast<std::size_t>(pick(static_cast<int>(stamps_.size())))];
          order_.wait(lane, stamp, by);
          const int recorded = node;
          last(by) = graph_.add({last(by)});
          last(lane) = graph_.add({last(lane), last(by), recorded});
        }
        break;
      case 2: {
        const Lane other = stream();
        order_.wait_for(lane, other, by);
        const int recorded = start(other, by);
        last(lane) = graph_.add({last(lane), last(by), recorded});
        break;
      }
      case 3:
        if (pick(2) == 0 && !stamps_.empty()) {
          const auto& [stamp, node] = stamps_[static_cast<std::size_t>(pick(static_cast<int>(stamps_.size())))];
          order_.host_waits(stamp, by);
          last(by) = graph_.add({last(by), node});
        } else if (pick(3) == 0) {
          order_.host_waits(lane, by);
          last(by) = graph_.add({last(by), last(lane)});
        }
        break;
      case 4: {
        const Lane to = by == kHost ? other_thread_ : kHost;
        order_.hand_over(by, to);
        last(to) = graph_.add({last(to), last(by)});
        break;
      }
      case 5:
        touch(pinned_[pick(2)], by, by);
        break;
      case 6:
        free_and_make(tensors_[pick(kTensors)]);
        break;
      default:
        touch(pick(4) == 0 ? pinned_[pick(2)] : tensors_[pick(kTensors)], lane, by);
    }
  }

  void make(Tensor& tensor) {
    tensor = Tensor();
    tensor.address = pick(kMemory - kBytes);
    tensor.home = stream();
    order_.reuse(0, static_cast<std::uint64_t>(tensor.address), kBytes, &tensor.shadow);
    for (int i = 0; i < kBytes; ++i) {
      std::set<int>& uses = freed_[static_cast<std::size_t>(tensor.address + i)];
      tensor.bytes[static_cast<std::size_t>(i)].reads.assign(uses.begin(), uses.end());
      uses.clear();
    }
  }

  /// Memory goes back with what other lanes than its own have done to it and nobody waits for.
  void free_and_make(Tensor& tensor) {
    order_.free(0, static_cast<std::uint64_t>(tensor.address), kBytes, tensor.shadow, tensor.home);
    // An access of any byte counts for the block: it goes back as a whole.
    std::set<int> uses;
    std::vector<int> waited_for{last(tensor.home)};
    for (const Lane lane : tensor.shadow.recorded()) waited_for.push_back(last(lane));
    const std::vector<bool> known = graph_.all_before(graph_.add(waited_for));
    const auto keep = [&](int node) {
      if (node >= 0 && !known[static_cast<std::size_t>(node)]) uses.insert(node);
    };
    for (const Byte& byte : tensor.bytes) {
      keep(byte.write);
      for (const int read : byte.reads) keep(read);
    }
    for (int i = 0; i < kBytes; ++i)
      freed_[static_cast<std::size_t>(tensor.address + i)].insert(uses.begin(), uses.end());
    make(tensor);
  }

  void touch(Tensor& tensor, Lane lane, Lane by) {
    const bool on_host = lane == by;
    const Kind kind = pick(2) == 0 ? Kind::kRead : Kind::kWrite;
    if (tensor.address >= 0 && pick(6) == 0) tensor.shadow.record(stream());
    const int first = pick(3) == 0 ? pick(kBytes) : 0,
              end = first == 0 && pick(2) == 0 ? kBytes : first + 1 + pick(kBytes - first);
    const int step = with_gaps_ && pick(3) == 0 ? 2 : 1;
    const std::function<bool(std::uint64_t, std::uint64_t)> touches = [&](std::uint64_t from, std::uint64_t to) {
      for (int i = first; i < end; i += step) {
        if (static_cast<std::uint64_t>(i) >= from && static_cast<std::uint64_t>(i) < to) return true;
      }
      return false;
    };
    Range range{static_cast<std::uint64_t>(first), static_cast<std::uint64_t>(end), step == 1 ? nullptr : &touches};
    range.end -= static_cast<std::uint64_t>((end - 1 - first) % step);  // to its last byte
    if (range.end == kBytes) range.end = Range::kEnd;

    int node = 0;
    if (on_host) {
      node = last(by) = graph_.add({last(by)});
    } else {
      node = start(lane, by);
    }
    lane_of_[node] = lane;
    const std::vector<bool> known = graph_.all_before(node);
    const auto unordered = [&](int other) {
      return other >= 0 && !known[static_cast<std::size_t>(other)] && lane_of_.at(other) != lane;
    };
    bool expected = false;
    for (int i = first; i < end; i += step) {
      Byte& byte = tensor.bytes[static_cast<std::size_t>(i)];
      expected = expected || unordered(byte.write);
      if (kind == Kind::kWrite) {
        for (const int read : byte.reads) expected = expected || unordered(read);
        byte.write = node;
        byte.reads.clear();
      } else {
        byte.reads.push_back(node);
      }
    }

    Conflicts found;
    const Touch one{&tensor.shadow, kind, range, Note()};
    if (on_host) {
      order_.host_access(one, &found, by);
    } else {
      order_.work(lane, &one, 1, &found, by);
    }
    conflicts_ += expected ? 1 : 0;
    if (with_gaps_) {
      EXPECT_LE(!found.empty(), expected) << "a conflict that is none";
    } else {
      EXPECT_EQ(!found.empty(), expected);
    }
  }

  std::mt19937 random_;
  bool with_gaps_;
  Order order_;
  Graph graph_;
  std::vector<Lane> streams_;
  Lane other_thread_ = 0;
  std::vector<int> last_;
  std::map<int, Lane> lane_of_;
  std::vector<std::pair<Stamp, int>> stamps_;
  Tensor tensors_[kTensors], pinned_[2];
  std::vector<std::set<int>> freed_;
  int conflicts_ = 0;
};

int judge(int programs, bool with_gaps) {
  int conflicts = 0;
  for (int seed = 0; seed < programs; ++seed) {
    Program program(static_cast<unsigned>(seed), with_gaps);
    program.run();
    conflicts += program.conflicts();
    if (testing::Test::HasFailure()) {
      ADD_FAILURE() << "program " << seed;
      break;
    }
  }
  return conflicts;
}

TEST(RandomPrograms, TheClocksSayWhatTheGraphSays) { EXPECT_GT(judge(kPrograms, false), kPrograms); }
TEST(RandomPrograms, BytesThatAreLeftOutAreNoConflict) { EXPECT_GT(judge(kPrograms / 4, true), kPrograms / 4); }

}  // namespace
}  // namespace locus::order
