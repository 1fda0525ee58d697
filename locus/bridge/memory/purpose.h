// What memory of a device is for, as far as the thread that takes it can tell, and what turns out later.
#pragma once

#include <c10/core/StorageImpl.h>

#include "locus/engine/memory_kind.h"

namespace locus::bridge {

/// What memory is for that is taken here and now, and is no library's.
engine::MemoryKind kind_of_new_memory() noexcept;
/// Whether what counted as `before` may turn out to be `after`.
constexpr bool may_become(engine::MemoryKind before, engine::MemoryKind after) noexcept {
  if (after == engine::MemoryKind::kData) return before == engine::MemoryKind::kActivation;
  return before != after;
}
/// It has turned out what a storage is for. Data is only what is not known to be anything else.
void is_for(const c10::StorageImpl& storage, engine::MemoryKind kind) noexcept;
/// An optimizer's step begins or ends on this thread.
void set_in_step(bool on) noexcept;

}  // namespace locus::bridge
