// Streams and events: positions that only grow, and who is known to have waited for what. Nothing waits here and
// nothing runs. Where the books must be shortened they err towards "has been waited for": no false alarms.
#include "locus/sim/stream.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>

namespace locus::sim {

namespace {

constexpr int kPriorities = Streams::kLowestPriority - Streams::kHighestPriority + 1;
constexpr int kStreamsPerDevice = 1 + kPriorities * Streams::kPoolSize;
constexpr int kNoStream = -1;

// An id as PyTorch packs it: bit 0 set (the id is ours, not a foreign handle), 4 bits of kind (1 + priority level),
// then the place in the pool. The default stream is 0.
constexpr int kKindBits = 4;

std::int64_t pack(int level, int place) {
  return (std::int64_t{place} << (kKindBits + 1)) | (std::int64_t{level + 1} << 1) | 1;
}

/// Number of a stream among those of its device, kNoStream for ids that pack() never makes.
int number_of(std::int64_t id) noexcept {
  if (id == 0) return 0;
  const std::int64_t level = ((id >> 1) & ((1 << kKindBits) - 1)) - 1, place = id >> (kKindBits + 1);
  if (id < 0 || (id & 1) == 0 || level < 0 || level >= kPriorities || place >= Streams::kPoolSize) return kNoStream;
  return static_cast<int>(1 + level * Streams::kPoolSize + place);
}

/// Since position `at` of a stream, position `position` of some other stream is behind it.
struct Mark {
  std::uint64_t at, position;
};

/// All marks for one other stream, both fields growing. The history is short: an event is waited for soon after it
/// was recorded, or has been recorded again.
struct Cover {
  static constexpr std::size_t kMarks = 8;
  int other = kNoStream;
  std::size_t used = 0;
  std::array<Mark, kMarks> marks;

  void add(Mark mark) noexcept {
    if (used > 0 && marks[used - 1].position >= mark.position) return;
    if (used == kMarks) {
      marks[1].at = marks[0].at;  // the two oldest become one, which claims the larger position early
      std::move(marks.begin() + 1, marks.end(), marks.begin());
      --used;
    }
    marks[used++] = mark;
  }
  std::uint64_t position_at(std::uint64_t at) const noexcept {
    for (std::size_t i = used; i-- > 0;) {
      if (marks[i].at <= at) return marks[i].position;
    }
    return 0;
  }
};

struct Stream {
  std::atomic<std::uint64_t> position{0};
  std::atomic<std::uint64_t> seen{0};  // by the host
  std::vector<Cover> covers;           // at most one per other stream

  Cover& cover(int other) {
    for (Cover& c : covers) {
      if (c.other == other) return c;
    }
    covers.push_back({.other = other, .used = 0, .marks = {}});
    return covers.back();
  }
  void see(std::uint64_t to) noexcept {
    if (seen.load(std::memory_order_relaxed) < to) seen.store(to, std::memory_order_release);
  }
};

}  // namespace

struct Streams::State {
  explicit State(int count)
      : devices(std::max(count, 0)), streams(devices * kStreamsPerDevice), turns(devices * kPriorities) {}

  int index_of(int device, std::int64_t id) const noexcept {
    const int number = number_of(id);
    return device < 0 || device >= devices || number == kNoStream ? kNoStream : device * kStreamsPerDevice + number;
  }
  /// The host has waited for this position, and so for all that the stream itself had waited for by then.
  void see(int index, std::uint64_t position) noexcept {
    Stream& stream = streams[index];
    stream.see(position);
    for (const Cover& cover : stream.covers) streams[cover.other].see(cover.position_at(position));
  }

  const int devices;
  mutable std::mutex mutex;  // guards covers and writes of seen
  std::vector<Stream> streams;
  std::vector<std::atomic<std::uint32_t>> turns;  // pool streams handed out, per device and priority
};

Streams::Streams(int devices) : state_(std::make_unique<State>(devices)) {}
Streams::~Streams() = default;

std::int64_t Streams::from_pool(int device, int priority) {
  if (device < 0 || device >= state_->devices) return 0;
  const int level = kLowestPriority - std::clamp(priority, int{kHighestPriority}, int{kLowestPriority});
  std::atomic<std::uint32_t>& turn = state_->turns[device * kPriorities + level];
  std::uint32_t count = turn.load(std::memory_order_relaxed);
  // The count stays in [0, 2 * kPoolSize): past one round it only has to remember that there was one.
  while (!turn.compare_exchange_weak(count, count + 1 == 2 * kPoolSize ? kPoolSize : count + 1)) {
  }
  return pack(level, static_cast<int>(count % kPoolSize));
}

int Streams::priority_of(std::int64_t stream) const noexcept {
  const int number = number_of(stream);
  return number <= 0 ? kLowestPriority : kLowestPriority - (number - 1) / kPoolSize;
}

bool Streams::exists(int device, std::int64_t stream) const noexcept {
  const int number = number_of(stream);
  if (device < 0 || device >= state_->devices || number == kNoStream) return false;
  if (number == 0) return true;
  const std::uint32_t handed_out = state_->turns[device * kPriorities + (number - 1) / kPoolSize].load();
  return static_cast<std::uint32_t>((number - 1) % kPoolSize) < handed_out;
}

std::uint64_t Streams::native_handle(int device, std::int64_t stream) const noexcept {
  const int index = state_->index_of(device, stream);
  if (stream == 0 || index == kNoStream) return 0;
  return 0x510000000000 + static_cast<std::uint64_t>(index) * 0x100;  // looks like a pointer, is none
}

std::uint64_t Streams::advance(int device, std::int64_t stream) noexcept {
  const int index = state_->index_of(device, stream);
  if (index == kNoStream) return 0;
  return state_->streams[index].position.fetch_add(1, std::memory_order_relaxed) + 1;
}

void Streams::record(Event& event, int device, std::int64_t stream) noexcept {
  // Recording is itself something queued: the event gets a position of its own, never 0.
  event.device = device;
  event.stream = stream;
  event.position = advance(device, stream);
  event.nanoseconds = static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
          .count());
}

void Streams::wait(int device, std::int64_t stream, const Event& event) noexcept {
  const int waiter = state_->index_of(device, stream), source = state_->index_of(event.device, event.stream);
  if (waiter == kNoStream || source == kNoStream || event.position == 0 || waiter == source) return;
  const std::lock_guard guard(state_->mutex);
  const std::uint64_t at = advance(device, stream);
  Stream& to = state_->streams[waiter];
  to.cover(source).add({at, event.position});
  for (const Cover& cover : state_->streams[source].covers) {
    const std::uint64_t position = cover.position_at(event.position);
    if (position != 0 && cover.other != waiter) to.cover(cover.other).add({at, position});
  }
}

void Streams::synchronize(const Event& event) noexcept {
  const int index = state_->index_of(event.device, event.stream);
  if (index == kNoStream || event.position == 0) return;
  const std::lock_guard guard(state_->mutex);
  state_->see(index, event.position);
}

void Streams::synchronize(int device, std::int64_t stream) noexcept {
  const int index = state_->index_of(device, stream);
  if (index == kNoStream) return;
  const std::lock_guard guard(state_->mutex);
  state_->see(index, state_->streams[index].position.load(std::memory_order_relaxed));
}

void Streams::synchronize(int device) noexcept {
  if (device < 0 || device >= state_->devices) return;
  const std::lock_guard guard(state_->mutex);
  for (int i = device * kStreamsPerDevice; i < (device + 1) * kStreamsPerDevice; ++i) {
    state_->see(i, state_->streams[i].position.load(std::memory_order_relaxed));
  }
}

bool Streams::host_has_seen(int device, std::int64_t stream, std::uint64_t position) const noexcept {
  const int index = state_->index_of(device, stream);
  return index == kNoStream || position <= state_->streams[index].seen.load(std::memory_order_acquire);
}

double Streams::elapsed_ms(const Event& begin, const Event& end) noexcept {
  return (static_cast<double>(end.nanoseconds) - static_cast<double>(begin.nanoseconds)) / 1e6;
}

}  // namespace locus::sim
