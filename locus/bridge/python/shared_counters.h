// A page of memory that another process reads: how far the program is, and what it died of. The page is made by
// python/locus/process/companion.py, which says where the fields are.
#pragma once

#include <atomic>
#include <cstdint>

namespace locus::bridge {

struct SharedCounters {
  std::atomic<uint64_t> steps, calls;
  std::atomic<uint64_t> findings;   ///< written by Python
  std::atomic<uint64_t> signal;     ///< the one that ends the program; 0: none so far
  std::atomic<uint64_t> on_device;  ///< whether anything was made on a CUDA device
  std::atomic<uint64_t> faulty;     ///< whether the check itself had a fault here
};

/// From here on the counters go there; null: nowhere. Also notes the signals that would end the program without a word.
void share_counters(SharedCounters* place);
void publish_counters();

extern std::atomic<SharedCounters*> g_shared;
/// One more operator call: a program that is killed says nothing any more, so each call is told.
inline void publish_calls(uint64_t calls) {
  if (SharedCounters* place = g_shared.load(std::memory_order_relaxed)) {
    place->calls.store(calls, std::memory_order_relaxed);
  }
}

/// The process is about to end by this signal. Async-signal-safe.
void note_fatal_signal(int number) noexcept;

/// The check itself had a fault in this process, which may be killed before it can say so.
void publish_fault() noexcept;

extern std::atomic<bool> g_device_used;
/// Something was made on a simulated device.
inline void note_device_use() {
  if (g_device_used.load(std::memory_order_relaxed)) return;
  g_device_used.store(true, std::memory_order_relaxed);
  publish_counters();
}

}  // namespace locus::bridge
