// Who may run before whom. The program's calls are fed in the order in which it makes them: work that is put on a
// stream, events that are recorded and waited for, waits of the host. From that follows what a card promises: one thing
// after another on a lane, and what a wait says; nothing else. No time and no luck: a conflict is found in any run that
// makes the calls.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <vector>

#include "locus/order/clock.h"
#include "locus/order/freed.h"
#include "locus/order/shadow.h"

namespace locus::order {

/// The first lane: a thread of the host. Threads that hand things to each other in ways that nobody sees (locks,
/// queues) are best taken for one.
constexpr Lane kHost = 0;

/// What an event stands for: all that its lane had done or waited for when it was recorded.
class Stamp {
 public:
  bool empty() const { return clock_ == nullptr; }

 private:
  friend class Order;
  std::shared_ptr<const VectorClock> clock_;
};

/// One tensor of a piece of work.
struct Touch {
  Shadow* shadow;
  Kind kind;
  Range range;
  Note note;
};

/// Bytes that a lane still reads or writes, for all that a thread of the host knows.
struct Pending {
  std::uint64_t begin, end;
  Kind kind;
};

/// All lanes of a process. Thread-safe; a shadow is touched under the same lock.
class Order {
 public:
  static constexpr std::size_t kMostLanes = 4096;

  explicit Order(int devices = 1);

  /// A new lane. Beyond kMostLanes: the last one again, whose work is then ordered as if it were one lane's.
  Lane add_lane();
  std::size_t lanes() const;

  // Order. Whatever is put on a lane comes after all that the thread which puts it there knows.
  Stamp record(Lane lane, Lane by = kHost);
  void wait(Lane lane, const Stamp& stamp, Lane by = kHost);
  /// The lane waits for all that the other has so far, as an event recorded now would say.
  void wait_for(Lane lane, Lane other, Lane by = kHost);
  /// A thread of the host waits.
  void host_waits(const Stamp& stamp, Lane thread = kHost);
  void host_waits(Lane lane, Lane thread = kHost);
  /// What one thread of the host knows, another learns (a thread is started, or joined).
  void hand_over(Lane from, Lane to);

  // Accesses. What is found is added to `conflicts`; the later access counts as made all the same.
  void work(Lane lane, const Touch* touches, std::size_t count, Conflicts* conflicts, Lane by = kHost);
  /// The host itself reads or writes memory that lanes use.
  void host_access(const Touch& touch, Conflicts* conflicts, Lane thread = kHost);
  /// What is under way in the memory, in the order of its bytes.
  std::vector<Pending> pending(const Shadow& shadow, Lane thread = kHost) const;
  /// Whether nothing is under way that such an access of the host's could disturb, or be disturbed by.
  bool host_may(Kind kind, const Shadow& shadow, Lane thread = kHost) const;
  /// What the caller keeps with it until it is gone; none at first.
  void attach(Shadow* shadow, std::shared_ptr<void> what);
  std::shared_ptr<void> attachment(const Shadow& shadow) const;
  /// What the memory holds was put there by this lane at this time, before anybody kept track.
  void assume_written(Shadow* shadow, Lane lane, Time time, Note note);

  // Memory of a device.
  /// The allocator itself waits for what the lane has when the memory is freed.
  void record_use(Shadow* shadow, Lane lane);
  /// A tensor of `home`'s pool is freed.
  void free(int device, std::uint64_t address, std::uint64_t bytes, const Shadow& shadow, Lane home);
  /// True where the memory's last owner may still be in use: the shadow knows of it from now on.
  bool reuse(int device, std::uint64_t address, std::uint64_t bytes, Shadow* shadow);
  /// Without a lock: whether any device has such memory.
  bool any_freed() const noexcept { return any_freed_.load(std::memory_order_relaxed); }

  Time now(Lane lane) const;

 private:
  struct State {
    VectorClock clock;
    std::uint64_t version = 1;  ///< of a thread of the host: its clock has changed
    Lane known_thread = 0;      ///< the thread whose knowledge the lane has, and which version of it
    std::uint64_t known_version = 0;
  };
  State& learn(Lane lane, Lane by);
  void tick(Lane lane);
  void count_freed();

  mutable std::mutex mutex_;
  std::deque<State> lanes_;
  std::vector<FreedMemory> freed_;
  std::atomic<bool> any_freed_{false};
};

}  // namespace locus::order
