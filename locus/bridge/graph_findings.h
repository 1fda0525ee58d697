// What is wrong with a capture or a replay, on its way to a finding.
#pragma once

#include "locus/engine/origin.h"
#include "locus/engine/site.h"

namespace locus::bridge {

/// A call that a card refuses in a capture: true where that is a finding, and the program goes on; false where the
/// caller shall raise.
bool report_refusal(const char* op, const char* words);
/// A replay that works on memory which the program has let go of, or has put elsewhere. `site`, `op`: its use in the
/// capture.
void report_gone(engine::SiteId site, engine::OperatorId op, bool freed, bool written);

}  // namespace locus::bridge
