// The operands of a call as aligned rows: name, type, device, and how each got onto its device.
#pragma once

#include <string>

#include "locus/engine/finding.h"
#include "locus/report/screen.h"
#include "locus/report/text.h"

namespace locus::report {

/// One row for each operand worth showing, those at fault in the tone given; empty when nothing is known.
std::string render_operands(const engine::Finding& finding, int gutter, Tone culprit, const TextOptions& options);

}  // namespace locus::report
