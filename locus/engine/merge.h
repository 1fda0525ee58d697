// One report of several processes: what the children of a program, or the ranks of a distributed one, have found.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>

#include "locus/engine/report.h"

namespace locus::engine {

/// Puts a process's rank under its findings; `ranks` is how many there are, 0: the program is not distributed.
void sign(Report& report, int ranks, std::optional<int> rank);
/// Takes out of a forked process's report what its parent had counted up to the fork.
void leave_to_parent(Report& report);

/// Takes the ledger, the notes and the counts of a child's report into the parent's. Its findings are not looked at:
/// they go through a FindingLog, which makes those with one root cause one.
void merge_into(Report& whole, const Report& part);

/// What processes have found since they were last asked, where somebody asks again and again.
class News {
 public:
  /// Leaves in a process's report only the findings, and the counts, that are new.
  void keep_new(const std::string& process, Report& report);
  /// The process has ended, and its number may be given to another one.
  void forget(const std::string& process);

 private:
  std::map<std::pair<std::string, std::string>, std::int64_t> counts_;  ///< by process and id
};

}  // namespace locus::engine
