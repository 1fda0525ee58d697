// What is remembered of memory that Locus did not hand out: a real card's, and the host's pinned memory. Kept by
// address, because PyTorch's allocator for real devices has no room for us. Bounded; an entry that was pushed out is
// not known.
#pragma once

#include <c10/core/StorageImpl.h>

#include <atomic>
#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "locus/bridge/door/check.h"
#include "locus/engine/memory_kind.h"
#include "locus/engine/origin.h"
#include "locus/order/clock.h"

namespace locus::bridge {

/// Devices are real ones: nothing is simulated, the operators run where PyTorch runs them.
extern std::atomic<bool> g_real;
inline bool on_real_devices() { return g_real.load(std::memory_order_relaxed); }
/// From now on the devices are real: the host's memory gets room for origins, real memory is known by address.
void use_real_devices();

/// Whether the memory of `storage` is known by address.
inline bool is_kept_by_address(const c10::StorageImpl& storage) {
  return on_real_devices() && storage.device_type() == c10::kCUDA && storage.data_ptr().get() != nullptr;
}
engine::OriginId origin_at(const void* address) noexcept;
void set_origin_at(const void* address, engine::OriginId origin) noexcept;
/// When memory was filled that was made on the only stream that there was; 0: not known.
order::Time birth_at(const void* address) noexcept;
/// After set_origin_at().
void set_birth_at(const void* address, order::Time time) noexcept;
/// The memory is free.
inline void forget_birth_at(const void* address) noexcept { set_birth_at(address, 0); }

/// A call that may bring a tensor from one device to another or make the host wait: measured and entered into the
/// ledger.
class RealCrossing {
 public:
  explicit RealCrossing(const Call& call);
  /// After the call; `stack` ends with its result.
  void note(const torch::jit::Stack& stack) const;

 private:
  const OperatorPlan& plan_;
  c10::Device from_{c10::kCPU}, to_{c10::kCPU};
  bool non_blocking_ = false, pinned_ = false;
  bool follows_ = false;  ///< the host may read the copy too early
  std::int64_t bytes_ = 0;
  std::chrono::steady_clock::time_point began_;
};

/// Threads that nobody had decided about and that were not watched up to their first use of a device, which no kernel
/// of ours sees on a real card: name and number.
std::vector<std::pair<std::string, int>> late_threads();
/// The calling thread is one of them.
void note_late_thread();

/// Follows PyTorch's allocator on the calling thread, and on the autograd threads that work for it.
void follow_memory(bool follow);
/// It has turned out what the memory at an address is for: purpose.h.
void is_for_at(const void* address, int device, engine::MemoryKind kind) noexcept;
/// The most bytes that a real device had allocated while it was followed.
std::int64_t real_peak(int device) noexcept;
std::int64_t real_allocated(int device) noexcept;

}  // namespace locus::bridge
