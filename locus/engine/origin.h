// Where a piece of memory came from: which operator made it, at which place, on which device, out
// of what. Equal histories share one number, so that a million steps cost no more than the first.
#pragma once

#include <cstdint>

#include "locus/engine/intern.h"
#include "locus/engine/site.h"

namespace locus::engine {

using OriginId = std::uint32_t;  ///< 0: unknown
using OperatorId = std::uint16_t;

constexpr std::int8_t kHost = -1;  ///< device number of the CPU

/// How a tensor got onto its device.
enum class Placement : std::uint8_t {
  kDerived,   ///< computed from operands that were there
  kDefault,   ///< made without saying where
  kExplicit,  ///< the program named the device
  kMoved,     ///< copied there from another device
  kForeign,   ///< memory that PyTorch did not allocate (NumPy, a file)
};

struct Origin {
  OperatorId op = 0;
  std::int8_t device = kHost;
  Placement placement = Placement::kDerived;
  SiteId site = 0;
  OriginId parent = 0;
  bool operator==(const Origin&) const = default;
  std::uint64_t hash() const {
    return mix(mix((std::uint64_t{site} << 32) | parent) ^
               ((std::uint64_t{op} << 16) | (std::uint64_t{static_cast<std::uint8_t>(device)} << 8) |
                static_cast<std::uint8_t>(placement)));
  }
};

using OriginTable = InternTable<Origin>;

}  // namespace locus::engine
