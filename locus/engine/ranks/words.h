// The sentences of findings about calls that ranks make together. Those about one rank's own doing: seen.h.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "locus/engine/ranks/call.h"
#include "locus/engine/ranks/parting.h"
#include "locus/engine/ranks/surroundings.h"

namespace locus::engine::ranks {

/// "all_reduce() of float32[3]"
std::string words(const Call& call);
/// "train.py:12"
std::string at(const Location& place);
/// "`a`, `b` and 3 more"
std::string listed(const std::vector<std::string>& names, std::size_t most = 6);
/// "rank 1", "ranks 0, 1 and 2"
std::string rank_list(const std::vector<int>& ranks);

/// "has ended (process 12)"
std::string has_ended(pid_t pid);
std::string is_stopped(pid_t pid);
/// "was killed by SIGKILL"; `ended`: the process said that it was at its end.
std::string had_ended(const Fate& fate, bool ended);

/// Two calls that are one, and belong to different batches.
std::string drift_words(int one, const Call& first, int other, const Call& second);

/// Two calls with the same number do not fit: the same finding on both ranks, so that it is one.
Finding mismatch(int mine, const Call& call, int rank, const Call& theirs, const Around& around = {});
/// Ranks wait for each other, each for the next and the last for the first.
Finding deadlock(std::vector<std::pair<int, Call>> ring, const Around& around = {});
/// A rank did not come to a call; `last` is the last that it made in that group.
Finding missing(const Call& call, std::vector<int> waiting, int rank, const std::string& why,
                const std::optional<Call>& last, const Around& around = {});
/// The finding of what was seen of calls that will never be one.
Finding tell(const Parting& parting, const Around& around);

/// How one or several things are spoken of.
struct Pronouns {
  explicit Pronouns(std::size_t count) : one(count == 1) {}
  bool one;
  std::string it() const { return one ? "it" : "them"; }
  std::string its() const { return one ? "its" : "their"; }
  std::string it_is() const { return one ? "it is" : "they are"; }
  std::string was() const { return one ? "was" : "were"; }
  std::string s() const { return one ? "" : "s"; }
};

}  // namespace locus::engine::ranks
