// What is remembered of a real card's memory, and of the host's pinned memory, for the sake of order: by address, for
// there is no room in PyTorch's own blocks. Memory whose allocation nobody has told is not followed.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "locus/order/order.h"

namespace locus::bridge {

struct CardBlock {
  int device = 0;
  order::Lane home = 0;      ///< whose pool the memory belongs to
  std::uint64_t number = 0;  ///< in the order in which blocks were taken
  std::uint64_t bytes = 0;   ///< of the storage that has it; 0: no operator has seen it yet
  order::Shadow shadow;
};

/// PyTorch's allocator has given memory out, or has it back.
void card_memory_taken(std::uintptr_t address);
void card_memory_freed(std::uintptr_t address);
/// record_stream(): the allocator waits for what the stream has at the time when the memory is freed.
void card_memory_recorded(const void* address, const c10::Stream& stream);

/// The block of a tensor on a real card; none where it is not followed.
std::shared_ptr<CardBlock> card_block(const at::Tensor& t);
/// How many blocks were taken so far.
std::uint64_t card_blocks_taken() noexcept;

/// What is remembered of pinned memory: made where a copy begins to use it.
std::shared_ptr<order::Shadow> make_pinned_shadow(const at::Tensor& host);
/// The same where a copy may still use it, else none.
std::shared_ptr<order::Shadow> busy_pinned_shadow(const at::Tensor& host);

}  // namespace locus::bridge
