// The findings of this process, for those parts of the bridge that make some themselves.
#pragma once

#include <set>
#include <string>

#include "locus/engine/report.h"

namespace locus::bridge {

/// Keeps a finding for the report.
void keep_finding(engine::Finding finding);
/// The reasons of all findings so far.
std::set<std::string> finding_reasons();
/// Takes in what another process has reported: its findings are kept, the rest is added to the report when it is made.
void take_in(engine::Report report);
/// Adds what was kept and taken in to a report that has what the caller knows of the program and the ledger.
void complete(engine::Report& report);
/// Takes the findings out of a report, into those of this process.
void hand_over(engine::Report& report);

}  // namespace locus::bridge
