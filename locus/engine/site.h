// A place in a program's source, as two words: which code, which instruction in it. Turned into
// file, line and columns only when a person asks; that is not done here.
#pragma once

#include <cstdint>

#include "locus/engine/intern.h"

namespace locus::engine {

/// `code` is a number that the language bridge gives out for a piece of code, from 1 on.
struct Site {
  std::uint32_t code = 0;
  std::int32_t instruction = 0;  ///< offset in bytes, as the language counts them
  bool operator==(const Site&) const = default;
  std::uint64_t hash() const { return mix((std::uint64_t{code} << 32) | static_cast<std::uint32_t>(instruction)); }
};

using SiteId = std::uint32_t;  ///< 0: unknown
using SiteTable = InternTable<Site>;

}  // namespace locus::engine
