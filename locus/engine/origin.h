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
  kLoaded,    ///< read by torch.load
  kReceived,  ///< given by a data loader
};

struct Origin {
  OperatorId op = 0;
  std::int8_t device = kHost;
  Placement placement = Placement::kDerived;
  bool complete = false;   ///< noted with its operands; a label that memory gets when it is taken is not
  std::uint8_t depth = 0;  ///< how many parents stand behind it
  SiteId site = 0;
  OriginId parent = 0;
  bool operator==(const Origin&) const = default;
  std::uint64_t hash() const {
    return mix(mix((std::uint64_t{site} << 32) | parent) ^
               ((std::uint64_t{op} << 16) | (std::uint64_t{static_cast<std::uint8_t>(device)} << 8) |
                static_cast<std::uint8_t>(placement)) ^
               (std::uint64_t{depth} << 40) ^ (std::uint64_t{complete} << 48));
  }
};

using OriginTable = InternTable<Origin>;

/// Longest history that is kept. In a loop that moves a tensor to and fro the chain starts anew beyond it, so that
/// the number of histories stays that of the program's lines, not that of its steps.
constexpr std::uint8_t kMaxDepth = 6;

/// The nearest ancestor that was not merely computed: made, moved or loaded.
inline OriginId root_of(const OriginTable& table, OriginId id) {
  for (int hops = 0; id != 0 && hops <= kMaxDepth; ++hops) {
    const Origin& origin = table.at(id);
    if (origin.placement != Placement::kDerived || origin.parent == 0) return id;
    id = origin.parent;
  }
  return id;
}

/// Gives the origin its number, with its depth set and its history cut where it gets too long.
inline OriginId intern_bounded(OriginTable& table, Origin origin) {
  if (origin.parent != 0) {
    const std::uint8_t depth = table.at(origin.parent).depth;
    if (depth >= kMaxDepth) {
      origin.parent = 0;
    } else {
      origin.depth = static_cast<std::uint8_t>(depth + 1);
    }
  }
  return table.intern(origin);
}

}  // namespace locus::engine
