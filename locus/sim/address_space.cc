// Best fit inside reservations that grow downwards. Addresses only; see the header for why.
#include "locus/sim/address_space.h"

#include <algorithm>
#include <functional>
#include <iterator>

namespace locus::sim::detail {

namespace {

constexpr std::uint64_t kTop = 0x7fb000000000;
constexpr std::size_t kReservation = std::size_t{32} << 20;
// A process that has done nothing but start holds this much of its first reservation.
constexpr std::size_t kContext = std::size_t{6} << 20;

}  // namespace

AddressSpace::AddressSpace() { take(kContext); }

/// The highest gap between reservations. A gap that would be filled to the brim is passed over: the driver asks for
/// one unit more than it needs, to be free in its alignment.
std::uint64_t AddressSpace::place_for(std::size_t size) const {
  std::map<std::uint64_t, std::size_t, std::greater<>> taken;
  for (const Reservation& r : reservations_) taken.emplace(r.address, r.size);
  std::uint64_t end = kTop;
  for (const auto& [address, bytes] : taken) {
    if (end - (address + bytes) > size) break;
    end = address;
  }
  return end - size;
}

std::uint64_t AddressSpace::take(std::size_t bytes) {
  for (auto r = reservations_.rbegin(); r != reservations_.rend(); ++r) {
    auto best = r->holes.end();
    for (auto hole = r->holes.begin(); hole != r->holes.end(); ++hole) {
      if (hole->second >= bytes && (best == r->holes.end() || hole->second < best->second)) best = hole;
    }
    if (best == r->holes.end()) continue;
    const auto [address, size] = *best;
    r->holes.erase(best);
    if (size > bytes) r->holes.emplace(address + bytes, size - bytes);
    return address;
  }
  Reservation fresh;
  fresh.size = (bytes + kReservation - 1) / kReservation * kReservation;
  fresh.address = place_for(fresh.size);
  if (fresh.size > bytes) fresh.holes.emplace(fresh.address + bytes, fresh.size - bytes);
  reservations_.push_back(std::move(fresh));
  return reservations_.back().address;
}

void AddressSpace::give(std::uint64_t address, std::size_t bytes) {
  const auto home = std::find_if(reservations_.begin(), reservations_.end(), [address](const Reservation& r) {
    return address - r.address < r.size;  // below r.address this wraps and is large
  });
  if (home == reservations_.end()) return;
  auto& holes = home->holes;
  auto next = holes.lower_bound(address);
  if (next != holes.end() && next->first == address + bytes) {
    bytes += next->second;
    next = holes.erase(next);
  }
  if (next != holes.begin()) {
    const auto before = std::prev(next);
    if (before->first + before->second == address) {
      address = before->first;
      bytes += before->second;
      holes.erase(before);
    }
  }
  if (bytes == home->size) {
    reservations_.erase(home);
  } else {
    holes.emplace(address, bytes);
  }
}

}  // namespace locus::sim::detail
