// Parameters that a tensor-parallel plan has left out: each rank has one of its own, and nothing keeps them alike. Only
// somebody who has all ranks' samples can say whether they differ.
#pragma once

#include <vector>

#include "locus/engine/ranks/seen.h"

namespace locus::engine::ranks {

/// A parameter that is not split over a group over which others of its model are, as one rank has it.
struct LeftOut {
  std::string name;
  std::vector<int> group;                           ///< the ranks over which the plan splits, by their global numbers
  Facts facts;                                      ///< what a finding would say, but for how it differs
  std::vector<double> values = {};                  ///< some of its elements before the first step
  std::vector<std::vector<double>> gradients = {};  ///< the same of its gradient, before the first steps
};

/// What one rank has left out. Ranks that exchange activations by hand split modules in their own way: nothing is
/// known.
struct RankLeftOut {
  int rank = 0;
  std::vector<LeftOut> parameters = {};
  std::vector<std::vector<int>> by_hand = {};  ///< groups over which the program's own modules call collectives
};

void from_json(const Json& json, LeftOut& left_out);

/// A finding for each plan, with all parameters that it has left out and that differ between ranks of a group.
std::vector<Finding> find_left_out(const std::vector<RankLeftOut>& ranks);

}  // namespace locus::engine::ranks
