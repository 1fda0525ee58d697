// Address space from the kernel, for the arena: reserved in one piece, usable piece by piece, and no more of it than
// this process may have. Hands out nothing and counts nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>

namespace locus::sim {

/// Not even the least that a machine needs can be reserved; the words say what limits it, and the way out.
class NoAddressSpace : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

namespace detail {

/// Reserved addresses. Pages come when they are touched.
class Mapping {
 public:
  /// Throws std::system_error where the kernel has no such range to give.
  Mapping(std::size_t bytes, int protection);
  ~Mapping();
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  /// The first address, on a span's boundary.
  std::uintptr_t begin() const noexcept { return begin_; }
  /// Lets [from, to) be written; false where the system refuses to stand for so much.
  bool make_writable(std::size_t from, std::size_t to) const noexcept;

 private:
  void* base_;
  std::size_t bytes_;
  std::uintptr_t begin_;
};

/// How many bytes of a range hold pages. Both ends count as whole pages.
std::size_t resident_bytes(std::uintptr_t begin, std::size_t bytes) noexcept;

/// Bytes for each of so many slices: those wanted, or what a limit on address space leaves when the rest of the process
/// keeps half of it.
std::size_t affordable_slice(int devices, std::size_t wanted);

/// Why slices of `least` bytes could not be had.
NoAddressSpace no_address_space(int devices, std::size_t least, const char* system_says);

}  // namespace detail
}  // namespace locus::sim
