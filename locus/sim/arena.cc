// The public face of the arena: two reservations at a constant distance, and what is known of an address in them.
// Handing out and taking back is in arena_state.cc.
#include "locus/sim/arena.h"

#include <algorithm>
#include <cstring>
#include <system_error>

#include "locus/sim/arena_state.h"

namespace locus::sim {

using namespace detail;

Arena::Arena(int devices, std::size_t bytes_per_device, std::size_t least)
    : devices_(std::max(devices, 0)), bytes_per_device_((bytes_per_device + kSpanBytes - 1) / kSpanBytes * kSpanBytes) {
  std::size_t total = 0;
  if (least == 0) least = bytes_per_device_;
  // Past 2^47 no mapping can succeed; said here so that the sums below can't overflow.
  if (bytes_per_device_ < bytes_per_device || __builtin_mul_overflow(bytes_per_device_, devices_, &total) ||
      total >= std::size_t{1} << 47) {
    throw NoAddressSpace("no process has so much address space");
  }
  if (total == 0) return;
  bytes_per_device_ = affordable_slice(devices_, bytes_per_device_);
  for (const char* problem = "a limit"; !state_;) {
    if (bytes_per_device_ < least) throw no_address_space(devices_, least, problem);
    try {
      state_ = std::make_unique<State>(devices_, bytes_per_device_);
    } catch (const std::system_error& error) {  // more than there is: half of it may be there
      problem = std::strerror(error.code().value());
      bytes_per_device_ = bytes_per_device_ / 2 / kSpanBytes * kSpanBytes;
    }
  }
  span_ = state_->total;
  host_begin_ = state_->host.begin();
  delta_ = state_->device.begin() - host_begin_;
}

Arena::~Arena() = default;

void* Arena::allocate(int device, std::size_t bytes, Refusal* why) {
  Refusal ignored;
  if (why == nullptr) why = &ignored;
  *why = Refusal::kFull;
  if (device < 0 || device >= devices_ || bytes == 0 || bytes > bytes_per_device_) return nullptr;
  if (state_->abandoned.load(std::memory_order_relaxed)) return nullptr;
  const std::size_t granules = (bytes + kGranuleBytes - 1) / kGranuleBytes;
  if (granules <= kMaxSmallGranules) return state_->allocate_small(device, static_cast<std::uint32_t>(granules), why);
  return state_->allocate_large(device, static_cast<std::uint32_t>((bytes + kSpanBytes - 1) / kSpanBytes), why);
}

void Arena::release(void* host) noexcept {
  if (!is_host(host) || state_->abandoned.load(std::memory_order_relaxed)) return;
  const std::size_t offset = reinterpret_cast<std::uintptr_t>(host) - host_begin_;
  Slot& slot = state_->slot_of(offset);
  // Only the first byte of a live chunk can be released; everything else is left alone.
  if (offset % kGranuleBytes != 0 || slot.state.load(std::memory_order_acquire) % 2 == 0) return;
  const auto span = static_cast<std::uint32_t>(offset / kSpanBytes);
  if (state_->spans[span].kind.load(std::memory_order_relaxed) == kKindLarge) {
    state_->release_large(span, slot);
  } else {
    state_->release_small(span, slot, static_cast<std::uint32_t>(offset / kGranuleBytes % kSpanGranules));
  }
}

void Arena::trim() noexcept {
  if (!state_ || state_->abandoned.load(std::memory_order_relaxed)) return;
  for (int d = 0; d < devices_; ++d) {
    Slice& slice = state_->slices[d];
    for (SizeClass& size_class : slice.classes) {
      const std::lock_guard guard(size_class.lock);
      for (std::uint32_t index = size_class.first, next; index != kNoSpan; index = next) {
        next = state_->spans[index].next;
        if (state_->spans[index].live != 0) continue;
        state_->unlink(size_class, index);
        state_->give_run(index, 1);
      }
    }
    const std::lock_guard guard(slice.runs);
    for (SpanPool& pool : slice.pools) state_->purge(slice, pool);
  }
}

std::uint64_t Arena::fresh_bytes() const noexcept {
  return state_ ? state_->fresh_bytes.load(std::memory_order_relaxed) : 0;
}

std::size_t Arena::resident_bytes() const noexcept {
  std::size_t found = 0;
  for (int d = 0; state_ && d < devices_; ++d) {
    Slice& slice = state_->slices[d];
    for (int index = 0; index < kPools; ++index) {
      std::unique_lock guard(slice.runs);
      const std::size_t begin = slice.pools[index].begin() * kSpanBytes, end = slice.usable[index] * kSpanBytes;
      guard.unlock();
      found += detail::resident_bytes(host_begin_ + begin, end - begin);
    }
  }
  return found;
}

std::size_t Arena::untouched_bytes() const noexcept {
  const std::size_t held = state_ ? static_cast<std::size_t>(state_->held_bytes.load(std::memory_order_relaxed)) : 0;
  return held - std::min(held, resident_bytes());
}

std::size_t Arena::untouched_bytes(const void* host, std::size_t bytes) const noexcept {
  if (bytes == 0 || !is_host(host)) return 0;
  return bytes - std::min(bytes, detail::resident_bytes(reinterpret_cast<std::uintptr_t>(host), bytes));
}

void Arena::set_label(void* host, std::uint64_t label) noexcept {
  if (!is_host(host)) return;
  Slot& slot = state_->slot_of(reinterpret_cast<std::uintptr_t>(host) - host_begin_);
  if (slot.state.load(std::memory_order_acquire) % 2 == 1) slot.word.store(label, std::memory_order_release);
}

std::uint64_t Arena::label(const void* host) const noexcept {
  if (!is_host(host)) return 0;
  const Slot& slot = state_->slot_of(reinterpret_cast<std::uintptr_t>(host) - host_begin_);
  return slot.state.load(std::memory_order_acquire) % 2 == 1 ? slot.word.load(std::memory_order_acquire) : 0;
}

bool Arena::find(const void* any_address, ChunkInfo* info) const noexcept {
  std::size_t offset = reinterpret_cast<std::uintptr_t>(any_address) - host_begin_;
  if (offset >= span_) offset -= delta_;
  if (offset >= span_) return false;
  const auto index = static_cast<std::uint32_t>(offset / kSpanBytes);
  const std::uint32_t owner = state_->owners[index].load(std::memory_order_acquire);
  if (owner == 0) return false;
  // Entries outlive their chunks, so what they say is only believed if a live chunk begins where they point to.
  const Span& span = state_->spans[owner - 1];
  const std::uint32_t kind = span.kind.load(std::memory_order_acquire);
  std::size_t begin = std::size_t{owner - 1} * kSpanBytes, bytes = 0;
  if (kind == kKindLarge) {
    bytes = span.count.load(std::memory_order_acquire) * kSpanBytes;
  } else if (kind != kKindNone && owner - 1 == index) {
    const std::uint32_t step = granules_of(kind - 1);
    bytes = step * kGranuleBytes;
    begin += (offset - begin) / bytes * bytes;
  }
  if (offset - begin >= bytes) return false;
  const Slot& slot = state_->slot_of(begin);
  const std::uint32_t state = slot.state.load(std::memory_order_acquire);
  if (state % 2 == 0) return false;
  const std::uint64_t word = slot.word.load(std::memory_order_acquire);
  // Nothing may have changed since: otherwise the chunk was released while we looked, and is not live.
  if (slot.state.load(std::memory_order_acquire) != state || span.kind.load(std::memory_order_acquire) != kind)
    return false;
  if (info != nullptr) {
    info->device = static_cast<int>(begin / bytes_per_device_);
    info->host = reinterpret_cast<void*>(host_begin_ + begin);
    info->bytes = bytes;
    info->label = word;
  }
  return true;
}

int Arena::device_of(const void* p) const noexcept {
  std::size_t offset = reinterpret_cast<std::uintptr_t>(p) - host_begin_;
  if (offset >= span_) offset -= delta_;
  return offset < span_ ? static_cast<int>(offset / bytes_per_device_) : -1;
}

void Arena::abandon() noexcept {
  if (state_) state_->abandoned.store(true, std::memory_order_relaxed);
}

}  // namespace locus::sim
