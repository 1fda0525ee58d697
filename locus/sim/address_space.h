// Where a card's driver would put a segment. No memory is behind these addresses: the caching model needs them only
// because it takes, of several free blocks of one size, the one at the lowest address.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

namespace locus::sim::detail {

/// The driver's habits, as seen on a real card: address space is reserved in multiples of 32 MiB, downwards; a segment
/// goes to the newest reservation with room for it, into the smallest hole that is large enough. Not thread-safe.
class AddressSpace {
 public:
  AddressSpace();
  /// `bytes` is a multiple of 2 MiB.
  std::uint64_t take(std::size_t bytes);
  void give(std::uint64_t address, std::size_t bytes);

 private:
  struct Reservation {
    std::uint64_t address = 0;
    std::size_t size = 0;
    std::map<std::uint64_t, std::size_t> holes;  // address to size
  };
  std::uint64_t place_for(std::size_t size) const;

  std::vector<Reservation> reservations_;  // oldest first
};

}  // namespace locus::sim::detail
