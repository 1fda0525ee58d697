// See spans.h.
#include "locus/bridge/streams/spans.h"

#include <c10/util/SmallVector.h>

#include <algorithm>

namespace locus::bridge {
namespace {

constexpr int kMostSteps = 4096;

/// One dimension that takes the tensor further in memory.
struct Dimension {
  std::uint64_t size, stride;  ///< in bytes
};
using Dimensions = c10::SmallVector<Dimension, 6>;

/// The dimensions that matter, the widest steps first.
Dimensions dimensions_of(const at::Tensor& t) {
  Dimensions all;
  for (int64_t i = 0; i < t.dim(); ++i) {
    if (t.size(i) < 2 || t.stride(i) == 0) continue;
    all.push_back({static_cast<std::uint64_t>(t.size(i)),
                   static_cast<std::uint64_t>(t.stride(i)) * static_cast<std::uint64_t>(t.itemsize())});
  }
  std::sort(all.begin(), all.end(), [](const Dimension& a, const Dimension& b) { return a.stride > b.stride; });
  return all;
}

std::uint64_t first_byte(const at::Tensor& t) {
  return static_cast<std::uint64_t>(t.storage_offset()) * static_cast<std::uint64_t>(t.itemsize());
}

bool has_bytes_in(const Dimension* dimension, std::size_t count, std::uint64_t item, std::uint64_t at,
                  std::uint64_t begin, std::uint64_t end, int* steps) {
  std::uint64_t last = at + item;
  for (std::size_t i = 0; i < count; ++i) last += (dimension[i].size - 1) * dimension[i].stride;
  if (last <= begin || end <= at) return false;
  if (count == 0 || (at >= begin && at < end)) return true;
  for (std::uint64_t i = 0; i < dimension->size; ++i, at += dimension->stride) {
    if (--*steps < 0) return false;
    if (has_bytes_in(dimension + 1, count - 1, item, at, begin, end, steps)) return true;
  }
  return false;
}

}  // namespace

Span span_of(const at::Tensor& t) {
  Span span;
  if (t.numel() == 0) return span;
  span.begin = first_byte(t);
  if (t.is_contiguous()) {
    span.end = span.begin + t.nbytes();
    return span;
  }
  const Dimensions all = dimensions_of(t);
  std::uint64_t reach = static_cast<std::uint64_t>(t.itemsize());  // without gaps so far
  for (auto each = all.rbegin(); each != all.rend(); ++each) {
    span.gaps = span.gaps || each->stride > reach;
    reach += (each->size - 1) * each->stride;
  }
  span.end = span.begin + reach;
  return span;
}

bool has_bytes_in(const at::Tensor& t, std::uint64_t begin, std::uint64_t end) {
  if (t.numel() == 0) return false;
  const Dimensions all = dimensions_of(t);
  int steps = kMostSteps;
  return has_bytes_in(all.data(), all.size(), static_cast<std::uint64_t>(t.itemsize()), first_byte(t), begin, end,
                      &steps);
}

}  // namespace locus::bridge
