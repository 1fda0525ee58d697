// See purpose.h.
#include "locus/bridge/memory/purpose.h"

#include <ATen/core/grad_mode.h>

#include "locus/bridge/door/real.h"
#include "locus/bridge/door/watch.h"
#include "locus/bridge/memory/memory.h"

namespace locus::bridge {
namespace {

constinit thread_local bool t_in_step = false;

}  // namespace

engine::MemoryKind kind_of_new_memory() noexcept {
  // With gradients on, it is forward's: also where checkpointing does it again in backward, and in an optimizer's
  // closure.
  if (at::GradMode::is_enabled()) return engine::MemoryKind::kActivation;
  if (in_autograd_node()) return engine::MemoryKind::kGradient;
  return t_in_step ? engine::MemoryKind::kState : engine::MemoryKind::kActivation;
}

void is_for(const c10::StorageImpl& storage, engine::MemoryKind kind) noexcept {
  if (is_kept_by_address(storage)) return is_for_at(storage.data_ptr().get(), storage.device().index(), kind);
  DeviceBlock* block = block_of(storage);
  if (block == nullptr || !block->booking.counted || !may_become(block->booking.mark.kind, kind)) return;
  const auto bytes = static_cast<int64_t>(sim::CachingModel::size_of(block->booking.account));
  memory_by_line(block->device).change(block->booking.site, bytes, block->booking.mark, kind);
}

void set_in_step(bool on) noexcept { t_in_step = on; }

}  // namespace locus::bridge
