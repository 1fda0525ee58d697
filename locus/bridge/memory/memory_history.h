// Who asked for device memory, for torch.cuda.memory._record_memory_history(): all lines that a thread was at.
#pragma once

#include <atomic>

namespace locus::bridge {

extern std::atomic<bool> g_records_askers;
/// To be called before the caching model is asked for memory, or given some. Not under its lock: the first sight of a
/// piece of code takes the GIL.
void note_asker() noexcept;
inline void note_asker_if_recorded() noexcept {
  if (g_records_askers.load(std::memory_order_relaxed)) note_asker();
}

}  // namespace locus::bridge
