// First fit inside reservations that grow downwards. Addresses only; see the header for why.
#include "locus/sim/address_space.h"

#include <iterator>

namespace locus::sim::detail {

namespace {

constexpr std::uint64_t kTop = 0x7fb000000000;
constexpr std::size_t kReservation = std::size_t{32} << 20;
// A process that has done nothing but start holds this much of its first reservation.
constexpr std::size_t kContext = std::size_t{6} << 20;

}  // namespace

AddressSpace::AddressSpace() { take(kContext); }

std::uint64_t AddressSpace::reserve(std::size_t bytes) {
  const std::size_t size = (bytes + kReservation - 1) / kReservation * kReservation;
  std::uint64_t end = kTop;
  for (auto at = reservations_.rbegin(); at != reservations_.rend() && end - (at->first + at->second) < size; ++at) {
    end = at->first;
  }
  reservations_.emplace(end - size, size);
  holes_.emplace(end - size, size);
  return end - size;
}

std::uint64_t AddressSpace::take(std::size_t bytes) {
  auto hole = holes_.begin();
  while (hole != holes_.end() && hole->second < bytes) ++hole;
  if (hole == holes_.end()) hole = holes_.find(reserve(bytes));
  const auto [address, size] = *hole;
  holes_.erase(hole);
  if (size > bytes) holes_.emplace(address + bytes, size - bytes);
  return address;
}

void AddressSpace::give(std::uint64_t address, std::size_t bytes) {
  const auto reservation = std::prev(reservations_.upper_bound(address));
  const std::uint64_t begin = reservation->first, end = begin + reservation->second;
  auto next = holes_.lower_bound(address);
  if (next != holes_.end() && next->first == address + bytes && next->first < end) {
    bytes += next->second;
    next = holes_.erase(next);
  }
  if (next != holes_.begin() && address > begin) {
    const auto before = std::prev(next);
    if (before->first + before->second == address) {
      address = before->first;
      bytes += before->second;
      holes_.erase(before);
    }
  }
  if (bytes == reservation->second) {
    reservations_.erase(reservation);
  } else {
    holes_.emplace(address, bytes);
  }
}

}  // namespace locus::sim::detail
