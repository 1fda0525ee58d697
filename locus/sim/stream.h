// Streams and events of the simulated devices: identities and time. Kernels run at once, so nothing
// here waits; what a program may count on is the work of locus/order.
#pragma once

#include <cstdint>
#include <memory>

namespace locus::sim {

/// An event: where and when it was last recorded.
struct Event {
  int device = -1;  ///< -1: never recorded
  std::int64_t stream = 0;
  std::uint64_t nanoseconds = 0;  ///< host clock at record()
  bool timing = false;
};

/// All streams of one machine. Thread-safe. Stream id 0 is each device's default stream; the pool
/// has 32 streams a priority and device, handed out in turn, as in PyTorch (ids are not 0 and
/// encode the priority so that priority_of() can tell).
class Streams {
 public:
  explicit Streams(int devices);
  ~Streams();

  static constexpr int kPoolSize = 32;
  static constexpr int kLowestPriority = 0, kHighestPriority = -3;

  /// Next stream of the device's pool. Priorities outside the range are clamped as PyTorch does.
  std::int64_t from_pool(int device, int priority);
  int priority_of(std::int64_t stream) const noexcept;
  /// Whether this id was ever handed out for the device (0 always is).
  bool exists(int device, std::int64_t stream) const noexcept;
  /// A number like a cudaStream_t: 0 for the default stream, unique otherwise.
  std::uint64_t native_handle(int device, std::int64_t stream) const noexcept;

  static void record(Event& event, int device, std::int64_t stream) noexcept;
  /// Milliseconds between two recorded events.
  static double elapsed_ms(const Event& begin, const Event& end) noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace locus::sim
