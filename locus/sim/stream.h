// Streams and events of the simulated devices: identities, order and time. Kernels run at once,
// so nothing here waits; what is kept is who was recorded after whom, so that a reader can tell
// whether a program has synchronized before it looked.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

namespace locus::sim {

/// An event: the position on its stream at which it was last recorded.
struct Event {
  int device = -1;
  std::int64_t stream = 0;
  std::uint64_t position = 0;     ///< 0: never recorded
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

  /// Work was queued on the stream: its position moves on. Cheap: called for each asynchronous copy, not for each
  /// kernel.
  std::uint64_t advance(int device, std::int64_t stream) noexcept;
  void record(Event& event, int device, std::int64_t stream) noexcept;
  /// The stream waits for the event: what the event covers is from now on covered by the stream too.
  void wait(int device, std::int64_t stream, const Event& event) noexcept;

  /// The host waited for an event, a stream or a whole device.
  void synchronize(const Event& event) noexcept;
  void synchronize(int device, std::int64_t stream) noexcept;
  void synchronize(int device) noexcept;
  /// Has the host waited for this position of the stream (by any of the above)?
  bool host_has_seen(int device, std::int64_t stream, std::uint64_t position) const noexcept;

  /// Milliseconds between two recorded events.
  static double elapsed_ms(const Event& begin, const Event& end) noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace locus::sim
