// Which edits mend which reason. The edits themselves are made where the program's text is, in python/locus/fixing.
#pragma once

#include <span>
#include <string_view>

#include "locus/engine/codes.h"

namespace locus::engine {

/// The kinds of edit that mend a reason, best first; an empty name is none.
std::span<const std::string_view> edits_for(Code code);

}  // namespace locus::engine
