// What is wrong with a capture or a replay, on its way to a finding.
#pragma once

#include <string>

#include "locus/engine/origin.h"
#include "locus/engine/site.h"

namespace locus::bridge {

/// A call that a card refuses in a capture: true where that is a finding, and the program goes on; false where the
/// caller shall raise.
bool report_refusal(const char* op, const char* words);
/// A replay that works on memory which the program has let go of, or has put elsewhere. `site`, `op`: its use in the
/// capture.
void report_gone(engine::SiteId site, engine::OperatorId op, bool freed, bool written);
/// A captured call was given numbers of the host's, "0.5 2": Python looks where they come from.
void note_numbers(const std::string& op, const std::string& numbers, std::uint32_t capture);
/// Memory is read that a replay has written again while the program kept what was there. `found_out`: how often Python
/// has found out about such memory; a line is judged once for each.
void report_kept(std::uint32_t found_out);

}  // namespace locus::bridge
