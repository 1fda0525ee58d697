// All collectives and messages of a rank, in order, to be compared with those of other ranks when both are done. A
// training step repeats itself: each kind of call is kept once, and the calls are numbers.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "locus/engine/cluster.h"
#include "locus/engine/ranks/parting.h"

namespace locus::engine::ranks {

struct Journal {
  struct Group {
    std::string name;
    std::string label;         ///< for people: the dimension of a mesh, "dp"; empty: it has none
    std::vector<int> members;  ///< by their global numbers, in the group's own order; empty: not known
    bool operator==(const Group&) const = default;
  };
  /// A call as it is made again and again; `call` has no group and no number.
  struct Kind {
    int group = 0;  ///< among `groups`
    Call call;
    int tag = 0;
    std::int64_t bytes = 0;  ///< of the larger side: what was gathered, what was scattered
    bool aside = false;      ///< by a thread beside the program's own: at which step it is called is chance
    bool operator==(const Kind&) const = default;
  };
  struct Made {
    int kind = 0;
    std::int64_t step = 0;  ///< optimizer steps before it
    bool operator==(const Made&) const = default;
  };

  int rank = 0, world = 0;
  bool cut = false;   ///< the run was ended after so many steps, wherever the rank was then
  bool full = false;  ///< there were more calls than are kept
  std::vector<Group> groups;
  std::vector<Kind> kinds;
  std::vector<Made> calls;
  std::vector<std::string> steps;  ///< the lines that made the optimizer steps, in order: "train.py:12"
  bool operator==(const Journal&) const = default;

  static constexpr std::size_t kMaxCalls = std::size_t{1} << 20;

  /// Adds a call; one past the limit is only noted to be missing.
  void add(Kind kind, std::int64_t step);

 private:
  std::map<std::string, int> known_;  ///< kinds, by all that they are
};

/// As it is written to a file.
std::string to_text(const Journal& journal);
/// Throws FormatError.
Journal parse_journal(std::string_view text);

/// What these ranks move between them in a step: the last whole one that all have made, or else the whole run.
Cluster traffic_of(const std::vector<Journal>& journals);

/// Ranks that ran by themselves, as if they had run together: calls that do not fit, else those that a rank did not
/// come to. Only what two of these ranks share is compared, and of ranks that were ended early what they did in the
/// same optimizer steps.
std::vector<Finding> compare(const std::vector<Journal>& journals, const std::map<int, Fate>& fates,
                             const Around& around = {});

}  // namespace locus::engine::ranks
