// The memory of the simulated devices: one address range that nobody may touch (what a
// program sees as a device pointer) and its ordinary twin at a constant distance (where
// kernels work). Hands out and takes back chunks; it does not count what a card would
// count (caching_model.h does) and knows nothing of tensors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace locus::sim {

/// What is known of one live chunk of device memory.
struct ChunkInfo {
  int device = -1;
  void* host = nullptr;     ///< first byte, at the address that kernels use
  std::size_t bytes = 0;    ///< usable size (the size class, at least what was asked for)
  std::uint64_t label = 0;  ///< the caller's word, see Arena::set_label
};

/// Device memory of a whole simulated machine. Every device owns a slice of one host range
/// and of one unreadable device range, so that one constant turns either address into the other.
class Arena {
 public:
  /// Smallest distance between two chunks, and their alignment; as on a real card.
  static constexpr std::size_t kGranule = 512;

  /// Why there is no chunk.
  enum class Refusal : std::uint8_t {
    kFull,    ///< the slice's addresses are used up
    kSystem,  ///< the system does not stand for more memory (`ulimit -d`, vm.overcommit_memory)
  };

  /// Reserves address space (no memory) for `devices` slices of `bytes_per_device` each; where there is less, what
  /// there is, but no slice of less than `least` (0: `bytes_per_device`). Throws NoAddressSpace (reservation.h).
  Arena(int devices, std::size_t bytes_per_device, std::size_t least = 0);
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  /// A chunk of at least `bytes` on `device`, at its host address; nullptr when the slice is full.
  /// Thread-safe. The content is undefined. `bytes` must not be 0.
  void* allocate(int device, std::size_t bytes, Refusal* why = nullptr);
  /// Takes a chunk back, by its host address. Thread-safe; keeps some memory for the next caller
  /// and returns the rest of large chunks to the operating system.
  void release(void* host) noexcept;
  /// Returns all cached free memory to the operating system.
  void trim() noexcept;

  /// Remembers one word with a live chunk (an origin, say), for find().
  void set_label(void* host, std::uint64_t label) noexcept;
  std::uint64_t label(const void* host) const noexcept;
  /// The live chunk that contains this host or device address. Async-signal-safe: no lock, no
  /// allocation. False when the address is not inside a live chunk.
  bool find(const void* any_address, ChunkInfo* info) const noexcept;

  void* device_address(const void* host) const noexcept {
    return reinterpret_cast<char*>(reinterpret_cast<std::uintptr_t>(host) + delta_);
  }
  void* host_address(const void* device) const noexcept {
    return reinterpret_cast<char*>(reinterpret_cast<std::uintptr_t>(device) - delta_);
  }
  /// Whether the address lies in the range that kernels use.
  bool is_host(const void* p) const noexcept { return reinterpret_cast<std::uintptr_t>(p) - host_begin_ < span_; }
  /// Whether the address lies in the unreadable range that programs see.
  bool is_device(const void* p) const noexcept {
    return reinterpret_cast<std::uintptr_t>(p) - host_begin_ - delta_ < span_;
  }
  /// The device that owns an address of either range.
  int device_of(const void* p) const noexcept;
  int devices() const noexcept { return devices_; }
  std::size_t bytes_per_device() const noexcept { return bytes_per_device_; }

  /// Bytes that were handed out without pages behind them, ever: only grows. Cheap.
  std::uint64_t fresh_bytes() const noexcept;
  /// Bytes that hold pages. Asks the kernel, as the next two do.
  std::size_t resident_bytes() const noexcept;
  /// Bytes of chunks that hold no pages yet: of all, or of a part of one.
  std::size_t untouched_bytes() const noexcept;
  std::size_t untouched_bytes(const void* host, std::size_t bytes) const noexcept;

  /// After fork(), in the child: it must neither free nor reuse what its parent owns. From now on allocate()
  /// answers nullptr, release() and trim() do nothing; find() and the labels go on answering.
  void abandon() noexcept;

 private:
  struct State;
  int devices_ = 0;
  std::size_t bytes_per_device_ = 0;
  std::uintptr_t host_begin_ = 0;
  std::uintptr_t delta_ = 0;
  std::uintptr_t span_ = 0;
  std::unique_ptr<State> state_;
};

}  // namespace locus::sim
