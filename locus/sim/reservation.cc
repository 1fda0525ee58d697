// See the header. A reservation counts towards `ulimit -v` even where it can't be touched; memory that may be written
// counts towards `ulimit -d`, and towards vm.overcommit_memory=2: so it is made writable only as it is handed out.
#include "locus/sim/reservation.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <system_error>

#include "locus/sim/arena_span.h"
#include "locus/sim/caching_model.h"
#include "locus/sim/host_memory.h"

namespace locus::sim::detail {
namespace {

/// Address space for one byte of a slice: both ranges, and what is known of each granule and span.
constexpr double kAddressesPerByte = 2.0 + static_cast<double>(sizeof(Slot)) / kGranuleBytes +
                                     static_cast<double>(sizeof(Span) + sizeof(std::uint32_t)) / kSpanBytes;

std::uint64_t addresses_for(int devices, std::size_t slice) {
  return static_cast<std::uint64_t>(kAddressesPerByte * devices * static_cast<double>(slice));
}

}  // namespace

Mapping::Mapping(std::size_t bytes, int protection) : bytes_(bytes + kSpanBytes) {
  base_ = mmap(nullptr, bytes_, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base_ == MAP_FAILED) throw std::system_error(errno, std::generic_category());
  madvise(base_, bytes_, MADV_DONTDUMP);  // terabytes of nothing don't belong in a core file
  begin_ = (reinterpret_cast<std::uintptr_t>(base_) + kSpanBytes - 1) & ~(kSpanBytes - 1);
}

Mapping::~Mapping() { munmap(base_, bytes_); }

bool Mapping::make_writable(std::size_t from, std::size_t to) const noexcept {
  return mprotect(reinterpret_cast<void*>(begin_ + from), to - from, PROT_READ | PROT_WRITE) == 0;
}

std::size_t resident_bytes(std::uintptr_t begin, std::size_t bytes) noexcept {
  static const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  const std::uintptr_t end = (begin + bytes + page - 1) & ~(page - 1);
  begin &= ~(page - 1);
  std::size_t found = 0;
  unsigned char present[4096];
  while (begin < end) {
    const std::size_t pages = std::min<std::size_t>((end - begin) / page, sizeof present);
    if (mincore(reinterpret_cast<void*>(begin), pages * page, present) != 0) return found;
    found += page * static_cast<std::size_t>(std::count_if(present, present + pages, [](auto p) { return p & 1; }));
    begin += pages * page;
  }
  return found;
}

std::size_t affordable_slice(int devices, std::size_t wanted) {
  const AddressRoom room = address_room();
  const double each = static_cast<double>(room.left) / 2 / (kAddressesPerByte * std::max(devices, 1));
  return each < static_cast<double>(wanted) ? static_cast<std::size_t>(each) / kSpanBytes * kSpanBytes : wanted;
}

NoAddressSpace no_address_space(int devices, std::size_t least, const char* system_says) {
  const AddressRoom room = address_room();
  const std::string needs = std::to_string(devices) +
                            (devices == 1 ? " simulated device needs" : " simulated devices need") + " at least " +
                            format_bytes(2 * addresses_for(devices, least)) + " of address space, ";
  if (room.limit != ~std::uint64_t{0}) {
    return NoAddressSpace(needs + "and this process has " + format_bytes(room.left) + " left of its limit of " +
                          format_bytes(room.limit) +
                          ". Raise the limit (`ulimit -v unlimited`), or simulate fewer devices (--devices).");
  }
  return NoAddressSpace(needs + "and the system does not give it (" + system_says +
                        "). Look for a limit of the container or the service, or at vm.overcommit_memory; or simulate "
                        "fewer devices (--devices).");
}

}  // namespace locus::sim::detail
