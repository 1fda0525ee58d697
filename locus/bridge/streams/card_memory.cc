// See card_memory.h.
#include "locus/bridge/streams/card_memory.h"

#include <algorithm>
#include <mutex>
#include <unordered_map>

#include "locus/bridge/door/origins.h"
#include "locus/bridge/door/real.h"
#include "locus/bridge/door/watch.h"
#include "locus/bridge/streams/card_calls.h"
#include "locus/bridge/streams/ordering.h"
#include "locus/bridge/streams/pending.h"

namespace locus::bridge {
namespace {

using at::Tensor;
using order::Lane;
using Block = std::shared_ptr<CardBlock>;

struct Blocks {
  std::mutex mutex;
  std::unordered_map<std::uintptr_t, Block> by_address;
};
Blocks& blocks() {
  static auto* all = new Blocks;  // never destroyed: tensors may be freed after exit handlers ran
  return *all;
}
std::atomic<std::uint64_t> g_taken{0};

/// Pinned memory, as long as it is the same storage's: PyTorch's pool tells nobody when a block gets a new owner.
struct Pinned {
  c10::weak_intrusive_ptr<c10::StorageImpl> storage;
  std::shared_ptr<order::Shadow> shadow;
};
struct AllPinned {
  std::mutex mutex;
  std::unordered_map<const void*, Pinned> by_address;
  PendingCopies counted;
};
AllPinned& all_pinned() {
  static auto* all = new AllPinned;
  return *all;
}

const c10::StorageImpl& storage_of(const Tensor& t) {
  return *t.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl();
}

Block find(std::uintptr_t address) {
  const std::lock_guard lock(blocks().mutex);
  const auto found = blocks().by_address.find(address);
  return found != blocks().by_address.end() ? found->second : nullptr;
}

/// Memory that was taken and filled on the default stream, before anything was followed.
Block adopt(const c10::StorageImpl& storage, std::uintptr_t address) {
  const order::Time born = birth_at(storage.data_ptr().get());
  if (born == 0) return nullptr;
  auto block = std::make_shared<CardBlock>();
  block->device = storage.device().index();
  block->home = lane_of(block->device, 0);
  block->number = g_taken.load();
  block->bytes = storage.nbytes();
  const engine::Origin origin = origins().at(origin_at(storage.data_ptr().get()));
  stream_order().assume_written(&block->shadow, block->home, born, {origin.site, origin.op, 0});
  const std::lock_guard lock(blocks().mutex);
  return blocks().by_address.try_emplace(address, std::move(block)).first->second;
}

/// Forgets what no copy uses any more. Under the lock.
void settle(AllPinned* all) {
  std::erase_if(all->by_address, [](const auto& entry) {
    return entry.second.storage.expired() || stream_order().pending(*entry.second.shadow).empty();
  });
  all->counted.are(all->by_address.size());
}

bool is_same(const Pinned& pinned, const c10::StorageImpl& storage) {
  const auto alive = pinned.storage.lock();
  return alive.get() == &storage;
}

}  // namespace

std::uint64_t card_blocks_taken() noexcept { return g_taken.load(std::memory_order_relaxed); }

void card_memory_taken(std::uintptr_t address) {
  const int device = card_device();
  const std::optional<Lane> home = card_lane(device);
  if (!home.has_value()) return;
  auto block = std::make_shared<CardBlock>();
  block->device = device;
  block->home = *home;
  block->number = g_taken.fetch_add(1) + 1;
  const std::lock_guard lock(blocks().mutex);
  blocks().by_address[address] = std::move(block);
}

void card_memory_freed(std::uintptr_t address) {
  Block block;
  {
    const std::lock_guard lock(blocks().mutex);
    auto entry = blocks().by_address.extract(address);
    if (!entry.empty()) block = std::move(entry.mapped());
  }
  if (block == nullptr) return forget_birth_at(reinterpret_cast<const void*>(address));
  if (block->bytes == 0) return;
  stream_order().free(block->device, address, block->bytes, block->shadow, block->home);
}

void card_memory_recorded(const void* address, const c10::Stream& stream) {
  const Block block = find(reinterpret_cast<std::uintptr_t>(address));
  const std::optional<Lane> lane = card_lane(stream);
  if (block == nullptr || !lane.has_value()) return;
  const std::lock_guard lock(blocks().mutex);
  stream_order().record_use(&block->shadow, *lane);
}

std::shared_ptr<CardBlock> card_block(const Tensor& t) {
  const c10::StorageImpl& storage = storage_of(t);
  const auto address = reinterpret_cast<std::uintptr_t>(storage.data_ptr().get());
  if (address == 0) return nullptr;
  Block block = find(address);
  if (block == nullptr) block = adopt(storage, address);
  if (block == nullptr) return nullptr;
  const std::lock_guard lock(blocks().mutex);
  if (block->bytes == 0) {
    block->bytes = storage.nbytes();
    if (stream_order().any_freed()) stream_order().reuse(block->device, address, block->bytes, &block->shadow);
  }
  // Somebody else has the same memory under another size: which bytes are whose is not known.
  return block->bytes == storage.nbytes() ? block : nullptr;
}

std::shared_ptr<order::Shadow> make_pinned_shadow(const Tensor& host) {
  AllPinned& all = all_pinned();
  const c10::StorageImpl& storage = storage_of(host);
  const void* address = storage.data_ptr().get();
  if (address == nullptr) return nullptr;
  const std::lock_guard lock(all.mutex);
  settle(&all);
  const auto known = all.by_address.find(address);
  if (known != all.by_address.end() && is_same(known->second, storage)) return known->second.shadow;
  auto shadow = std::make_shared<order::Shadow>();
  const auto owner = c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(const_cast<c10::StorageImpl*>(&storage));
  all.by_address.insert_or_assign(address, Pinned{c10::weak_intrusive_ptr<c10::StorageImpl>(owner), shadow});
  all.counted.are(all.by_address.size());
  return shadow;
}

std::shared_ptr<order::Shadow> busy_pinned_shadow(const Tensor& host) {
  AllPinned& all = all_pinned();
  const c10::StorageImpl& storage = storage_of(host);
  const std::lock_guard lock(all.mutex);
  settle(&all);
  const auto known = all.by_address.find(storage.data_ptr().get());
  return known != all.by_address.end() && is_same(known->second, storage) ? known->second.shadow : nullptr;
}

}  // namespace locus::bridge
