// Orders the lines that could be edited: a candidate's score is the sum of what its facts weigh, of how well its kind
// of edit goes with the reason, and of its distance from the use. The numbers are in weights.def, and nowhere else.
#pragma once

#include <vector>

#include "locus/engine/codes.h"
#include "locus/engine/finding.h"

namespace locus::engine {

/// What a candidate's facts weigh together.
double evidence_of(const Candidate& candidate);

/// What a candidate is worth for a finding with this reason.
double score_of(const Candidate& candidate, Code reason);

/// Sets the scores and sorts, best first; among equals the nearest to the use stays first.
void rank(std::vector<Candidate>& candidates, Code reason);

}  // namespace locus::engine
