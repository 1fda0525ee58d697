// What the simulated cards' allocators would hold: entries in the caching model, counted by line.
#include "locus/bridge/compat.h"
#include "locus/bridge/dry/knowledge.h"
#include "locus/bridge/memory.h"
#include "locus/bridge/origins.h"
#include "locus/bridge/watch.h"

namespace locus::bridge {
namespace {

constinit thread_local bool t_uncounted = false;  // see UncountedScope

}  // namespace

UncountedScope::UncountedScope() : outer_(t_uncounted) { t_uncounted = true; }
UncountedScope::~UncountedScope() { t_uncounted = outer_; }

void book_late(const c10::StorageImpl& storage) {
  DeviceBlock* block = block_of(storage);
  if (block == nullptr || block->booking.account != nullptr) return;
  block->booking = book(storage.nbytes(), block->device, nullptr);
}

Booking book(size_t bytes, int device, void* host) {
  if (t_uncounted) {
    if (host != nullptr) label_new_memory(host, bytes);
    return {};
  }
  auto& memory = machine().memory(device);
  sim::OutOfMemory why;
  Booking booking;
  booking.account = memory.allocate(bytes, current_stream(device), &why);
  if (booking.account == nullptr) {
    if (!dry::on() || dry::settings().strict_memory) raise_out_of_memory(sim::out_of_memory_message(why));
    booking.account = memory.allocate_beyond(bytes, current_stream(device));
    dry::note(engine::MadeUpKind::kMemory, memory.reserved() - static_cast<std::int64_t>(why.capacity));
  }
  booking.counted = watching();
  if (host != nullptr) {
    booking.site = label_new_memory(host, bytes);
  } else if (booking.counted) {
    booking.site = current_site();
  }
  if (booking.counted) {
    memory_by_line(device).allocated(booking.site, static_cast<int64_t>(sim::CachingModel::size_of(booking.account)));
    memory_timeline(device).note(memory.allocated(), g_steps.load(std::memory_order_relaxed));
  }
  return booking;
}

void unbook(const Booking& booking, int device) noexcept {
  auto& memory = machine().memory(device);
  if (booking.counted) {
    memory_by_line(device).freeing(booking.site, static_cast<int64_t>(sim::CachingModel::size_of(booking.account)),
                                   memory.allocated());
  }
  memory.free(booking.account);
  if (watching()) memory_timeline(device).note(memory.allocated(), g_steps.load(std::memory_order_relaxed));
}

}  // namespace locus::bridge
