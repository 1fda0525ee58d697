// Pinned host memory: which of it copies still use, and who touches that too early. While a program is checked each
// block has pages of its own. Those of a copy that is under way are closed to the host (to writes, where the copy only
// reads), so that an access which reaches no operator is seen, too: NumPy's, a memoryview's, another library's. The
// fault is taken, the access is noted with its line, the pages are opened, and the program goes on. A system call that
// is handed closed pages fails with EFAULT: a named limit, met only by programs that touch what a copy still uses.
#pragma once

#include <ATen/core/Tensor.h>

#include "locus/bridge/memory/memory.h"
#include "locus/order/order.h"
#include "locus/sim/pinned_pool.h"

namespace locus::bridge {

c10::DeleterFnPtr pinned_deleter();
/// What torch.cuda.host_memory_stats() tells, and what changes it.
sim::PinnedStats pinned_stats();
void with_pinned_pool(void (sim::PinnedPool::*action)());
/// The header of a tensor in pinned memory, or nullptr.
HostHeader* pinned_header(const at::Tensor& t);
/// The shadow of memory that a stream works on from now on.
order::Shadow* busy_shadow(HostHeader* header);
/// Whether accesses of any kind are seen: then taking an address is none.
bool sees_every_access(const HostHeader& header);

/// The host has waited, or a race was reported: forgets what is no longer under way.
void settle_pinned();
/// Pinned memory is given back.
void forget_pinned(HostHeader* header);

/// A copy of a device's may touch the pages of these tensors meanwhile; afterwards they are closed as they should be.
class PinnedWindow {
 public:
  PinnedWindow(const at::Tensor& one, const at::Tensor& other);
  ~PinnedWindow();
  PinnedWindow(const PinnedWindow&) = delete;
  PinnedWindow& operator=(const PinnedWindow&) = delete;

 private:
  HostHeader *one_ = nullptr, *other_ = nullptr;
};

/// A fault at this address: true where it was a closed page, which is open now. In a signal handler.
bool open_pinned(void* address, bool writes) noexcept;
/// Reports the accesses that faults have shown.
void report_pinned_faults();

}  // namespace locus::bridge
