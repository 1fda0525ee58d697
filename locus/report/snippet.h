// A source line with carets under the expression that matters.
#pragma once

#include <string>

#include "locus/engine/finding.h"
#include "locus/report/screen.h"
#include "locus/report/text.h"

namespace locus::report {

/// Narrower screens are treated as this wide.
constexpr int kMinWidth = 40;

/// The width to lay out for; 0: no limit.
constexpr int layout_width(const TextOptions& options) {
  return options.width <= 0 ? 0 : options.width < kMinWidth ? kMinWidth : options.width;
}

/// "   |", "41 | the line", "   |   ^^^": three lines behind a gutter of `gutter` digits; empty when the text is
/// unknown. Lines that are too long are clipped around the carets.
std::string render_snippet(const engine::Location& at, int gutter, Tone caret, const TextOptions& options);

}  // namespace locus::report
