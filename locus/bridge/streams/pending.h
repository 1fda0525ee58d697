// Copies from a real card to pinned memory that were started without waiting: which bytes of the host may still be old.
// The card tells: an event is recorded behind each copy. For accesses by operators the order of streams tells, whatever
// the luck: see card_work.h, and ordering.h for simulated devices. Never on the path of a program that makes no such
// copies.
#pragma once

#include <ATen/core/Tensor.h>

#include <atomic>
#include <functional>
#include <optional>

namespace locus::bridge {

/// How many copies between the host and devices of either kind may still be under way: while there are none, nobody can
/// be too early.
extern std::atomic<int> g_pending_copies;
inline bool copies_pending() { return g_pending_copies.load(std::memory_order_relaxed) != 0; }
/// The part of them that one place knows of. Not thread-safe.
class PendingCopies {
 public:
  void are(std::size_t now) {
    g_pending_copies.fetch_add(static_cast<int>(now) - counted_, std::memory_order_relaxed);
    counted_ = static_cast<int>(now);
  }

 private:
  int counted_ = 0;
};

/// The copy to `host` has been put into the current stream of `device`.
void note_pending(const at::Tensor& host, int device);

/// Asked before a copy from a real card that does not wait: whether it is to be followed. Python's part of it also
/// makes the first copies of a line late, so that a program which does not wait for them is seen not to, whatever its
/// luck.
void set_copy_follower(std::function<bool(std::uint64_t site, int device)> follower);
bool follow_copy(int device);
/// The device of a copy to bytes of `host` that nobody has waited for. It is forgotten with that; on a real card it is
/// waited for, so that the program goes on with what it means to read.
std::optional<int> take_pending(const at::Tensor& host);

}  // namespace locus::bridge
