// What only somebody who has all ranks' reports can say: that one finding is the consequence of another, and that a
// gradient is missing because ranks went different ways.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "locus/engine/ranks/left_out.h"
#include "locus/engine/ranks/seen.h"
#include "locus/engine/ranks/surroundings.h"
#include "locus/engine/report.h"

namespace locus::engine::ranks {

/// What a rank's finding of an unfinished reduction is about.
struct Lacking {
  int module = 0;  ///< among the wrapped modules, in the order in which they were made
  int pass = 0;    ///< forward passes of that module so far
  std::string culprit;
  std::vector<std::string> names;
  bool is_unused = false;  ///< nothing that forward() returned depends on them
  std::optional<Branch> branch;
  std::vector<Fix> fixes;
};

/// What a rank leaves for the others: which parameters had their gradient in its passes, and what it lacked.
struct Passes {
  struct Module {
    int pass = 0;
    std::vector<std::string> ready;                                ///< in the last pass
    std::vector<std::string> all = {};                             ///< in every earlier pass …
    std::map<std::string, std::vector<std::string>> partial = {};  ///< … but in these, by their numbers
    /// What had its gradient in a pass.
    std::set<std::string> ready_in(int number) const;
  };
  int rank = 0;
  std::vector<Module> modules;
  std::vector<Lacking> lacking;
  std::optional<Raised> raised;  ///< the error that ended it, which nobody caught
  std::vector<LeftOut> left_out = {};
  std::vector<std::vector<int>> by_hand = {};  ///< see RankLeftOut
};

void from_json(const Json& json, Passes& passes);
/// Throws FormatError.
Passes parse_passes(std::string_view text);

/// One process's report, with what it has left beside it.
struct RankReport {
  Report report;
  Passes passes;
  bool has_passes = false;
};

/// Goes over the reports of all processes, before they become one.
void tidy(std::vector<RankReport>& reports);

/// Whether one of these reasons is why ranks ended at different places, which is then no finding of its own.
bool explains_the_rest(const std::set<std::string>& reasons);

}  // namespace locus::engine::ranks
