// See parting.h.
#include "locus/engine/ranks/parting.h"

#include <unistd.h>

#include <algorithm>
#include <tuple>

#include "locus/engine/ranks/words.h"

namespace locus::engine::ranks {
namespace {

constexpr std::size_t kMaxMessages = 4096;

bool holds(const std::vector<std::int64_t>& numbers, std::int64_t number) {
  return std::find(numbers.begin(), numbers.end(), number) != numbers.end();
}

/// The last call that a rank has made in a group.
std::optional<Call> last_call(const Flight* flight, Key key) {
  if (flight == nullptr) return std::nullopt;
  const std::map<Key, Number> numbers = flight->last();
  const auto found = numbers.find(key);
  return found == numbers.end() ? std::nullopt : flight->read(key, found->second);
}

}  // namespace

Meeting::Meeting(std::string folder, std::string job, int rank, int world, Around around)
    : folder_(std::move(folder)),
      job_(std::move(job)),
      rank_(rank),
      world_(world),
      pid_(::getpid()),
      around_(std::move(around)) {
  own();  // a rank that ends before its first call is missed, too
}

Flight& Meeting::own() {
  if (own_ == nullptr) own_ = Flight::create(flight_path(folder_, job_, pid_), pid_, rank_, world_);
  return *own_;
}

const Flight* Meeting::other(int rank) {
  if (const auto found = others_.find(rank); found != others_.end()) return found->second.get();
  for (const std::string& path : flights_in(folder_, job_)) {
    if (opened_.contains(path)) continue;
    std::unique_ptr<Flight> flight = Flight::open(path);
    if (flight == nullptr) continue;
    opened_.insert(path);
    if (const int whose = flight->rank(); whose != rank_) others_.try_emplace(whose, std::move(flight));
  }
  const auto found = others_.find(rank);
  return found == others_.end() ? nullptr : found->second.get();
}

std::optional<Finding> Meeting::hear(Call call, const std::vector<int>& members, int tag) {
  const std::optional<Parting> parting = compare(std::move(call), members, tag);
  return parting ? std::optional(tell(*parting, around_)) : std::nullopt;
}

std::optional<Parting> Meeting::compare(Call call, const std::vector<int>& members, int tag) {
  if (::getpid() != pid_) return std::nullopt;
  const std::lock_guard lock(mutex_);
  if (!call.members.empty()) members_[call.group] = call.members;
  std::vector<int> compared = members;
  if (call.name == "send" || call.name == "recv") {
    const auto place = static_cast<std::size_t>(call.root);  // too large where it is not known
    const int peer = place < members.size() ? members[place] : rank_;
    if (peer == rank_) return std::nullopt;
    call = as_message(std::move(call), peer, tag);
    compared = {peer};
  }
  own().write(call);
  for (const int rank : compared) {
    const Flight* theirs = rank == rank_ ? nullptr : other(rank);
    const std::optional<Call> made = theirs == nullptr ? std::nullopt : theirs->read(call.key(), call.number);
    if (made && may_share_group(call, *made) && !fit(call, *made))
      return Parting{Parting::Kind::kMismatch, {{rank_, call}, {rank, *made}}, -1, "", std::nullopt};
  }
  return std::nullopt;
}

/// The n-th message that is sent is the n-th that is received: it gets its number between the two ranks.
Call Meeting::as_message(Call call, int peer, int tag) {
  const std::pair<std::string, Number> seen{call.group, call.number};
  const bool is_send = call.name == "send";
  call.group = channel(call.group, is_send ? rank_ : peer, is_send ? peer : rank_, tag);
  call.number = ++counts_[call.group];
  call.root = peer;
  call.members.clear();
  messages_[seen] = {call.key(), call.number};
  message_order_.push_back(seen);
  if (message_order_.size() > kMaxMessages) {
    messages_.erase(message_order_.front());
    message_order_.pop_front();
  }
  return call;
}

std::optional<Stuck> Meeting::look(const std::vector<UnderWay>& groups, bool in_backward, double time) {
  const auto stuck = find_stuck(groups, in_backward, time);
  return stuck ? std::optional(Stuck{stuck->first, tell(stuck->second, around_)}) : std::nullopt;
}

std::optional<std::pair<std::string, Parting>> Meeting::find_stuck(const std::vector<UnderWay>& groups,
                                                                   bool in_backward, double time) {
  if (::getpid() != pid_) return std::nullopt;
  const std::lock_guard lock(mutex_);
  for (const UnderWay& each : groups) {
    if (!each.members.empty()) members_[each.group] = each.members;
  }
  const std::optional<Pending> found = oldest(groups, in_backward);
  const Flight::Waiting told = own().status().waiting;
  if (!found) {
    pending_ = {};
    if (told.since != 0) own().set_status({});
    return std::nullopt;
  }
  if (pending_.key != found->key || pending_.number != found->number) pending_since_ = time;
  pending_ = *found;
  // What the others see: since when this rank can do nothing but wait.
  if (!found->is_blocked) {
    if (told.since != 0) own().set_status({});
  } else if (told.since == 0 || told.key != found->key || told.number != found->number) {
    own().set_status({Flight::State::kRunning, {time, found->key, found->number}});
  }
  const std::optional<Call> call = own().read(found->key, found->number);
  if (!call || time - pending_since_ < kPatience) return std::nullopt;
  std::optional<Parting> parting = judge(*call, time);
  if (!parting) return std::nullopt;
  return std::pair(found->group, std::move(*parting));
}

std::optional<Meeting::Pending> Meeting::oldest(const std::vector<UnderWay>& groups, bool in_backward) const {
  std::optional<Pending> best;
  std::int64_t best_number = 0;
  for (const UnderWay& each : groups) {
    for (const std::int64_t number : each.numbers) {
      Pending pending{key_of(each.group), static_cast<Number>(number), each.group,
                      holds(each.waited_for, number) || (number > 0 && in_backward)};
      if (number <= 0) {
        const auto message = messages_.find({each.group, static_cast<Number>(-number)});
        if (!pending.is_blocked || message == messages_.end()) continue;  // others are merely on their way
        std::tie(pending.key, pending.number) = message->second;
      }
      const std::int64_t age = number < 0 ? -number : number;
      if (!best || std::pair(!pending.is_blocked, age) < std::pair(!best->is_blocked, best_number)) {
        best = std::move(pending);
        best_number = age;
      }
    }
  }
  return best;
}

std::optional<Parting> Meeting::judge(const Call& call, double time) {
  for (const int rank : partners(rank_, call)) {
    const Flight* theirs = other(rank);
    const std::optional<Call> made = theirs == nullptr ? std::nullopt : theirs->read(call.key(), call.number);
    if (made && may_share_group(call, *made) && !fit(call, *made))
      return Parting{Parting::Kind::kMismatch, {{rank_, call}, {rank, *made}}, -1, "", std::nullopt};
    if (has_come(rank, call)) continue;
    if (const std::string why = why_gone(rank, time); !why.empty())
      return Parting{Parting::Kind::kMissing, {{rank_, call}}, rank, why, last_call(theirs, call.key())};
  }
  if (waits(rank_, time) != call) return std::nullopt;
  const auto ring = find_ring(
      rank_, [&](int rank) { return rank == rank_ ? std::optional(call) : waits(rank, time); },
      [&](int rank, const Call& held) {
        std::vector<int> absent = partners(rank, held);
        std::erase_if(absent, [&](int each) { return has_come(each, held); });
        return absent;
      });
  if (ring.empty()) return std::nullopt;
  return Parting{Parting::Kind::kDeadlock, ring, -1, "", std::nullopt};
}

/// The other ranks that a rank's call needs; none where it is of a group that is not known here.
std::vector<int> Meeting::partners(int rank, const Call& call) const {
  if (call.is_message()) return {call.root};
  std::vector<int> everyone = call.members;  // what the rank itself says of its group
  if (const auto known = members_.find(call.group); everyone.empty() && known != members_.end())
    everyone = known->second;
  std::erase(everyone, rank);
  return everyone;
}

bool Meeting::has_come(int rank, const Call& call) {
  const Flight* theirs = flight(rank);
  return theirs != nullptr && theirs->has_come(call.key(), call.number);
}

/// The call in which a rank has been held up for a while.
std::optional<Call> Meeting::waits(int rank, double time) {
  const Flight* theirs = flight(rank);
  if (theirs == nullptr) return std::nullopt;
  const Flight::Waiting waiting = theirs->status().waiting;
  if (waiting.since == 0 || time - waiting.since < kPatience) return std::nullopt;
  return theirs->read(waiting.key, waiting.number);
}

/// Why a rank will not come; empty while it still may.
std::string Meeting::why_gone(int rank, double time) {
  const Flight* theirs = other(rank);
  if (theirs == nullptr) return "";
  // Of a process on another host only its own word is known.
  const char process = theirs->pid() == 0 ? kUnknown : process_state(theirs->pid());
  if (process == kStopped) {
    const double first = stopped_.try_emplace(rank, time).first->second;
    return time - first >= kPatience ? is_stopped(theirs->pid()) : "";
  }
  stopped_.erase(rank);
  const bool ended = theirs->status().state == Flight::State::kEnded || process == kGone || process == kZombie;
  return ended ? has_ended(theirs->pid()) : "";
}

void Meeting::end() {
  if (::getpid() != pid_) return;
  const std::lock_guard lock(mutex_);
  if (own_ != nullptr) own_->set_status({Flight::State::kEnded, {}});
}

std::vector<std::pair<int, Call>> find_ring(int start, const HeldUp& held_up, const Lacks& lacks) {
  struct Step {
    int rank;
    Call call;
    std::vector<int> absent;
    std::size_t next = 0;
  };
  std::vector<Step> path;
  std::set<int> seen;
  const auto enter = [&](int rank) {
    if (!seen.insert(rank).second) return;
    if (std::optional<Call> call = held_up(rank)) {
      std::vector<int> absent = lacks(rank, *call);
      path.push_back({rank, std::move(*call), std::move(absent)});
    }
  };
  enter(start);
  while (!path.empty()) {
    Step& step = path.back();
    if (step.next == step.absent.size()) {
      path.pop_back();
      continue;
    }
    const int rank = step.absent[step.next++];
    if (rank == start) {
      std::vector<std::pair<int, Call>> ring;
      for (Step& each : path) ring.emplace_back(each.rank, std::move(each.call));
      return ring;
    }
    enter(rank);
  }
  return {};
}

namespace {

using Flights = std::map<int, std::unique_ptr<Flight>>;

Flights flights_of(const std::string& folder, const std::string& job) {
  Flights flights;
  for (const std::string& path : flights_in(folder, job)) {
    if (auto flight = Flight::open(path)) flights[flight->rank()] = std::move(flight);
  }
  return flights;
}

std::string fate_of(const Flight& flight, int rank, const std::map<int, Fate>& fates) {
  const bool ended = flight.status().state == Flight::State::kEnded;
  const auto known = fates.find(rank);
  return had_ended(known == fates.end() ? Fate{} : known->second, ended);
}

/// Members of a group that have made no call in it.
void add_silent(Key key, const Flights& flights, std::map<int, Number>& numbers) {
  const auto& [rank, number] = *numbers.begin();
  const std::optional<Call> call = flights.at(rank)->read(key, number);
  for (const int member : call ? call->members : std::vector<int>()) {
    if (flights.contains(member)) numbers.try_emplace(member, 0);
  }
}

/// Who is behind in one group.
void judge_group(Key key, const std::map<int, Number>& numbers, const Flights& flights,
                 const std::map<int, Fate>& fates, const Around& around, std::vector<Finding>& findings) {
  Number lowest = numbers.begin()->second;
  for (const auto& [rank, number] : numbers) lowest = std::min(lowest, number);
  std::vector<int> ahead;
  for (const auto& [rank, number] : numbers) {
    if (number > lowest) ahead.push_back(rank);
  }
  if (ahead.empty()) return;
  const std::optional<Call> call = flights.at(ahead.front())->read(key, lowest + 1);
  if (!call) return;
  for (const auto& [rank, number] : numbers) {
    if (number > lowest) continue;
    const Flight& behind = *flights.at(rank);
    findings.push_back(missing(*call, ahead, rank, fate_of(behind, rank, fates), last_call(&behind, key), around));
    if (const auto known = fates.find(rank); known != fates.end() && known->second.raised)
      add_raised(findings.back(), rank, *known->second.raised);
  }
}

/// Calls with one number that can't be one. Who makes the second of them is told so, unless the first was made on
/// another host: then it shows here, when all that the ranks have called is in one place.
std::optional<Parting> find_mismatch(Key key, const std::map<int, Number>& numbers, const Flights& flights) {
  Number lowest = numbers.begin()->second;
  for (const auto& [rank, number] : numbers) lowest = std::min(lowest, number);
  for (const Number number : {lowest, lowest + 1}) {
    std::optional<std::pair<int, Call>> first;
    for (const auto& [rank, last] : numbers) {
      std::optional<Call> call = number == 0 ? std::nullopt : flights.at(rank)->read(key, number);
      if (!call) continue;
      if (!first) {
        first.emplace(rank, std::move(*call));
      } else if (may_share_group(first->second, *call) && !fit(first->second, *call)) {
        return Parting{Parting::Kind::kMismatch, {*first, {rank, std::move(*call)}}, -1, "", std::nullopt};
      }
    }
  }
  return std::nullopt;
}

}  // namespace

std::vector<Finding> judge_jobs(const std::string& folder, const std::map<int, Fate>& fates, const Around& around) {
  std::vector<Finding> findings;
  for (const std::string& job : jobs_in(folder)) {
    const Flights flights = flights_of(folder, job);
    std::map<Key, std::map<int, Number>> groups;
    for (const auto& [rank, flight] : flights) {
      for (const auto& [key, number] : flight->last()) groups[key][rank] = number;
    }
    const std::size_t before = findings.size();
    for (const auto& [key, numbers] : groups) {
      if (const std::optional<Parting> parting = find_mismatch(key, numbers, flights))
        findings.push_back(tell(*parting, around));
    }
    if (findings.size() > before) continue;  // who did not come then, did not because of that
    std::erase_if(groups, [](const auto& group) { return is_channel(group.first); });
    for (auto& [key, numbers] : groups) add_silent(key, flights, numbers);
    for (const auto& [key, numbers] : groups) judge_group(key, numbers, flights, fates, around, findings);
  }
  return findings;
}

namespace {

/// The first calls of two ranks with one number that belong to different batches of equally long loops, after others
/// that belonged to the same one.
std::optional<std::pair<Call, Call>> first_drift(const Flight& one, const Flight& other, Key key, Number last) {
  bool together = false;
  for (Number number = last > Flight::kSlots ? last - Flight::kSlots : 1; number <= last; ++number) {
    const std::optional<Call> mine = one.read(key, number), theirs = other.read(key, number);
    if (!mine || !theirs || !mine->feed || !theirs->feed || mine->feed->of != theirs->feed->of) continue;
    if (mine->feed->given == theirs->feed->given) {
      together = true;
    } else if (together) {
      return std::pair(*mine, *theirs);
    }
  }
  return std::nullopt;
}

}  // namespace

std::vector<std::string> find_drifts(const std::string& folder) {
  std::vector<std::string> found;
  for (const std::string& job : jobs_in(folder)) {
    const Flights flights = flights_of(folder, job);
    std::set<int> told;
    for (auto first = flights.begin(), second = first; second != flights.end(); ++second) {
      if (second == first || !told.insert(second->first).second) continue;
      const std::map<Key, Number> mine = first->second->last(), theirs = second->second->last();
      for (const auto& [key, number] : mine) {
        const auto other = theirs.find(key);
        if (is_channel(key) || other == theirs.end()) continue;
        if (const auto drift = first_drift(*first->second, *second->second, key, std::min(number, other->second))) {
          found.push_back(drift_words(first->first, drift->first, second->first, drift->second));
          break;
        }
      }
    }
  }
  return found;
}

}  // namespace locus::engine::ranks
