// What is kept while a program is watched: origins, the ledger of transfers and synchronizations.
#pragma once

#include <ATen/core/Tensor.h>

#include <atomic>

#include "locus/bridge/door/origins.h"
#include "locus/bridge/door/policy.h"
#include "locus/bridge/state.h"
#include "locus/engine/ledger.h"
#include "locus/engine/memory_by_line.h"
#include "locus/engine/timeline.h"

namespace locus::bridge {

extern std::atomic<bool> g_watching;
/// Whether the door judges the operands; where it does not, it only remembers where tensors come from.
extern std::atomic<bool> g_judging;
inline bool watching() { return g_watching.load(std::memory_order_relaxed); }
/// Somebody needs origins and the ledger from here on, until it says that it no longer does.
void begin_watching();
void end_watching();

engine::Ledger& transfers();
engine::Ledger& synchronizations();
engine::MemoryByLine& memory_by_line(int device);
engine::Timeline& memory_timeline(int device);
/// So much of a device is in use now, after an allocation or a free.
void note_in_timeline(int device, std::int64_t total) noexcept;
/// How many optimizer steps the program has made.
extern std::atomic<int64_t> g_steps;

/// The user's line for a call in progress: this thread's, or in backward the forward line that made the node.
engine::SiteId current_site() noexcept;
/// The same where no call is in progress above this one.
engine::SiteId site_of_call() noexcept;
/// What is copied on this thread meanwhile, Locus moves by itself: the ledger says so.
class MovingScope {
 public:
  MovingScope();
  ~MovingScope();
  MovingScope(const MovingScope&) = delete;
  MovingScope& operator=(const MovingScope&) = delete;

 private:
  bool outer_;
};
/// A copy: into the ledger where it is between devices, and to those who follow what streams do.
void note_transfer(const at::Tensor& to, const at::Tensor& from, bool non_blocking);
/// The host waits for a device here (.item(), nonzero(), synchronize()); `what` is an operator number.
void note_synchronization(int device, engine::OperatorId what, std::int64_t nanoseconds = 0);
/// A copy between real devices that took this long on the host.
void note_real_transfer(c10::Device from, c10::Device to, std::int64_t bytes, bool non_blocking, bool pinned,
                        std::int64_t nanoseconds);

/// Counts tensors by origin, to tell a line that makes them now here, now there.
void count_made(engine::OriginId origin) noexcept;
int64_t made_count(engine::OriginId origin) noexcept;

/// Notes which line made the autograd nodes with sequence numbers [first, last) of this thread.
void note_forward_site(uint64_t first, uint64_t last, engine::SiteId site) noexcept;
/// The forward line of the autograd node that runs now on this thread; 0 outside backward.
engine::SiteId forward_site_of_current_node() noexcept;
/// Whether this thread is evaluating a node of the autograd graph.
bool in_autograd_node() noexcept;

}  // namespace locus::bridge
