// See stream.h.
#include "locus/sim/stream.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <vector>

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

}  // namespace

struct Streams::State {
  explicit State(int count) : devices(std::max(count, 0)), turns(static_cast<std::size_t>(devices) * kPriorities) {}

  int index_of(int device, std::int64_t id) const noexcept {
    const int number = number_of(id);
    return device < 0 || device >= devices || number == kNoStream ? kNoStream : device * kStreamsPerDevice + number;
  }

  const int devices;
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

void Streams::record(Event& event, int device, std::int64_t stream) noexcept {
  event.device = device;
  event.stream = stream;
  event.nanoseconds = static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
          .count());
}

double Streams::elapsed_ms(const Event& begin, const Event& end) noexcept {
  return (static_cast<double>(end.nanoseconds) - static_cast<double>(begin.nanoseconds)) / 1e6;
}

}  // namespace locus::sim
