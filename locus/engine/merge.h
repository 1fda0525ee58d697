// One report of several processes: what the children of a program, or the ranks of a distributed one, have found.
#pragma once

#include "locus/engine/finding.h"

namespace locus::engine {

/// Takes the ledger, the notes and the counts of a child's report into the parent's. Its findings are not looked at:
/// they go through a FindingLog, which makes those with one root cause one.
void merge_into(Report& whole, const Report& part);

}  // namespace locus::engine
