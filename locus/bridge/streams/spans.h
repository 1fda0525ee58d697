// Which bytes of its storage a tensor has: a range, and whether that has gaps that belong to somebody else.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace locus::bridge {

/// From a tensor's first byte to its last, counted from the beginning of its storage.
struct Span {
  std::uint64_t begin = 0, end = 0;
  bool gaps = false;  ///< some bytes between the two are not the tensor's

  bool overlaps(const Span& other) const { return begin < other.end && other.begin < end; }
  bool covers(const Span& other) const { return begin <= other.begin && other.end <= end; }
};

/// Empty for a tensor without elements. The tensor has a storage.
Span span_of(const at::Tensor& t);
/// Whether one of the bytes [begin, end) of its storage is the tensor's. Gives up, with no, where that would take long.
bool has_bytes_in(const at::Tensor& t, std::uint64_t begin, std::uint64_t end);

}  // namespace locus::bridge
