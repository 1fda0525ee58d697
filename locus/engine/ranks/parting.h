// Ranks that part ways: calls that don't fit together are found when the second of them is made; a rank that waits for
// one that has stopped, or for one that waits elsewhere, is told so instead of waiting for good.
//
// Slow is no mistake: a rank that works, or sleeps, is waited for as long as the program itself allows.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "locus/engine/ranks/flight.h"
#include "locus/engine/ranks/surroundings.h"

namespace locus::engine::ranks {

/// Seconds that a state must last before it is believed: signals and the last lines of a loop take a moment.
inline constexpr double kPatience = 2.0;

/// The calls of one group that are not done, as its process group knows them: positive numbers are collectives,
/// negative ones messages.
struct UnderWay {
  std::string group;
  std::vector<int> members;  ///< by their global numbers; empty: not known
  std::vector<std::int64_t> numbers;
  std::vector<std::int64_t> waited_for;  ///< those that a thread of the program waits for
};

/// What was seen of calls that will never be one; words.h has the sentences.
struct Parting {
  enum class Kind : std::uint8_t { kMismatch, kDeadlock, kMissing };
  Kind kind = Kind::kMismatch;
  std::vector<std::pair<int, Call>> calls;  ///< by rank; of kMissing: the one that a rank waits in
  int absent = -1;                          ///< the rank that will not come …
  std::string why;                          ///< … and why
  std::optional<Call> last;                 ///< its last call in that group
};

/// A call that will never end.
struct Stuck {
  std::string group;  ///< that of UnderWay
  Finding finding;
};

/// One rank among those that have met in a job. May be used from any thread; does nothing in a fork.
class Meeting {
 public:
  /// `around` is asked only when something is found, and while nothing is locked.
  Meeting(std::string folder, std::string job, int rank, int world, Around around = {});

  /// Before a call starts: notes it, and compares it with what the others have called. `members` are the ranks of its
  /// group in the group's own order, as far as known; `tag` is a message's, whose `root` is a place among them.
  std::optional<Finding> hear(Call call, const std::vector<int>& members, int tag);

  /// Twice a second: is a call under way that will never end? `in_backward`: the program is inside a backward pass,
  /// which waits for its collectives without a word.
  std::optional<Stuck> look(const std::vector<UnderWay>& groups, bool in_backward, double time);

  /// This process has come to its end by itself, or goes on to another job.
  void end();

 private:
  /// The call that this rank waits for.
  struct Pending {
    Key key = 0;
    Number number = 0;
    std::string group;
    bool is_blocked = false;  ///< a thread can't go on without it
  };
  using Path = std::vector<std::pair<int, Call>>;

  std::optional<Parting> compare(Call call, const std::vector<int>& members, int tag);
  std::optional<std::pair<std::string, Parting>> find_stuck(const std::vector<UnderWay>& groups, bool in_backward,
                                                            double time);
  Flight& own();
  const Flight* other(int rank);
  const Flight* flight(int rank) { return rank == rank_ ? &own() : other(rank); }
  Call as_message(Call call, int peer, int tag);
  std::optional<Pending> oldest(const std::vector<UnderWay>& groups, bool in_backward) const;
  std::optional<Parting> judge(const Call& call, double time);
  std::vector<int> partners(int rank, const Call& call) const;
  bool has_come(int rank, const Call& call);
  std::optional<Call> waits(int rank, double time);
  std::string why_gone(int rank, double time);

  const std::string folder_, job_;
  const int rank_, world_;
  const pid_t pid_;
  const Around around_;
  std::mutex mutex_;
  std::unique_ptr<Flight> own_;
  std::map<int, std::unique_ptr<Flight>> others_;
  std::set<std::string> opened_;
  std::map<std::string, std::vector<int>> members_;
  std::map<std::string, Number> counts_;                                       ///< of the messages of each channel
  std::map<std::pair<std::string, Number>, std::pair<Key, Number>> messages_;  ///< by group and the group's own number
  std::deque<std::pair<std::string, Number>> message_order_;
  std::map<int, double> stopped_;  ///< ranks seen stopped, and since when
  Pending pending_;
  double pending_since_ = 0;
};

/// Who waits for whom: for a rank, the call in which it is held up (nothing: it is not) …
using HeldUp = std::function<std::optional<Call>(int rank)>;
/// … and the ranks that have not come to that call.
using Lacks = std::function<std::vector<int>(int rank, const Call& call)>;
/// Ranks from `start` on, each held up by the next, and the last by `start`: none will ever go on. Empty: there is no
/// such ring.
std::vector<std::pair<int, Call>> find_ring(int start, const HeldUp& held_up, const Lacks& lacks);

/// How a rank's process ended, where whoever started it knows: by itself with a status, or by a signal's name.
struct Fate {
  int status = 0;
  std::string signal;
  std::optional<Raised> raised = std::nullopt;
};

/// After the end of all: each rank that had ended when others still called collectives is a finding.
std::vector<Finding> judge_jobs(const std::string& folder, const std::map<int, Fate>& fates, const Around& around = {});

/// After the end of all: ranks whose calls with one number belong to different batches, since each has left out another
/// one. That is no mistake by itself; a sentence for each such rank.
std::vector<std::string> find_drifts(const std::string& folder);

}  // namespace locus::engine::ranks
