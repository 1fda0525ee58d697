// A table that gives equal keys equal small numbers: sites, origins. Insert-only, lock-free to
// read and to write, bounded: when it is full, new keys get 0 ("unknown"), nothing breaks.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>

namespace locus::engine {

/// Mixes 64 bits; good enough that pointers and small numbers spread over the table.
constexpr std::uint64_t mix(std::uint64_t x) noexcept {
  x ^= x >> 32;
  x *= 0xd6e8feb86659fd93ULL;
  x ^= x >> 32;
  x *= 0xd6e8feb86659fd93ULL;
  return x ^ (x >> 32);
}

/// `Key` must be trivially copyable, have operator== and a member `std::uint64_t hash() const`.
template <class Key, std::size_t kBuckets = std::size_t{1} << 18>
class InternTable {
  static_assert((kBuckets & (kBuckets - 1)) == 0, "a power of two");
  static constexpr std::size_t kCapacity = kBuckets / 2;
  static constexpr std::size_t kChunk = 4096;

 public:
  using Id = std::uint32_t;

  InternTable() : buckets_(static_cast<std::atomic<Id>*>(std::calloc(kBuckets, sizeof(std::atomic<Id>)))) {
    if (buckets_ == nullptr) throw std::bad_alloc();
  }
  ~InternTable() {
    for (auto& chunk : chunks_) delete[] chunk.load();
    std::free(buckets_);
  }
  InternTable(const InternTable&) = delete;
  InternTable& operator=(const InternTable&) = delete;

  /// The number of this key, from 1 on; 0 when the table is full and the key is new.
  Id intern(const Key& key) {
    Id mine = 0;
    for (std::size_t slot = key.hash() & (kBuckets - 1);; slot = (slot + 1) & (kBuckets - 1)) {
      Id seen = buckets_[slot].load(std::memory_order_acquire);
      if (seen == 0) {
        if (mine == 0) mine = append(key);
        if (mine == 0) return 0;
        if (buckets_[slot].compare_exchange_strong(seen, mine, std::memory_order_acq_rel)) return mine;
      }
      if (at(seen) == key) return seen;  // when another thread was quicker, our appended copy is never referred to
    }
  }

  /// The key behind a number that intern() returned. 0 gives a default-constructed key.
  const Key& at(Id id) const { return chunks_[id / kChunk].load(std::memory_order_acquire)[id % kChunk]; }
  /// How many numbers have been given out, plus one.
  std::size_t size() const { return next_.load(std::memory_order_relaxed); }

 private:
  Id append(const Key& key) {
    if (next_.load(std::memory_order_relaxed) >= kCapacity) return 0;
    const Id id = next_.fetch_add(1, std::memory_order_relaxed);
    if (id >= kCapacity) return 0;
    chunk_of(id)[id % kChunk] = key;
    return id;
  }
  Key* chunk_of(Id id) {
    auto& place = chunks_[id / kChunk];
    Key* chunk = place.load(std::memory_order_acquire);
    if (chunk == nullptr) {
      auto fresh = std::make_unique<Key[]>(kChunk);
      if (place.compare_exchange_strong(chunk, fresh.get(), std::memory_order_acq_rel)) chunk = fresh.release();
    }
    return chunk;
  }

  std::atomic<Id>* buckets_;
  std::atomic<Id> next_{1};
  std::atomic<Key*> chunks_[kCapacity / kChunk + 1] = {new Key[kChunk]()};
};

}  // namespace locus::engine
