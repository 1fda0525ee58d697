// Where a card's driver would put a segment. No memory is behind these addresses: the caching model needs them only
// because it takes, of several free blocks of one size, the one at the lowest address.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>

namespace locus::sim::detail {

/// The driver's habits, as seen on a real card: address space is reserved in multiples of 32 MiB, each reservation
/// below the last; inside, a segment goes to the lowest place where it fits. Not thread-safe.
class AddressSpace {
 public:
  AddressSpace();
  /// `bytes` is a multiple of 2 MiB.
  std::uint64_t take(std::size_t bytes);
  void give(std::uint64_t address, std::size_t bytes);

 private:
  std::uint64_t reserve(std::size_t bytes);

  std::map<std::uint64_t, std::size_t> reservations_, holes_;  // address to size
};

}  // namespace locus::sim::detail
