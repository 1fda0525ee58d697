// See words.h.
#include "locus/engine/ranks/words.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string_view>

#include "locus/engine/told_facts.h"

namespace locus::engine::ranks {
namespace {

constexpr std::string_view kSameOrder =
    "every rank must make the same calls in the same order; look for a branch or a loop that differs between ranks";
constexpr std::size_t kMaxParts = 8;

std::string type_name(const std::string& dtype) {
  static constexpr std::pair<std::string_view, std::string_view> kTypes[] = {{"Float", "float32"},
                                                                             {"Double", "float64"},
                                                                             {"Half", "float16"},
                                                                             {"BFloat16", "bfloat16"},
                                                                             {"Int", "int32"},
                                                                             {"Long", "int64"},
                                                                             {"Short", "int16"},
                                                                             {"Char", "int8"},
                                                                             {"Byte", "uint8"},
                                                                             {"ComplexFloat", "complex64"},
                                                                             {"ComplexDouble", "complex128"}};
  for (const auto& [theirs, ours] : kTypes) {
    if (dtype == theirs) return std::string(ours);
  }
  std::string lower = dtype;
  for (char& letter : lower) letter = letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter - 'A' + 'a') : letter;
  return lower;
}

std::string difference(const Call& one, const Call& other) {
  const bool is_message = one.is_message();
  if (!is_message && family(one) != family(other)) return "another call";
  if (one.dtype != other.dtype) return "another type";
  if (!is_message && one.root != other.root) return "another root";
  if (one.reduction != other.reduction)
    return fmt::format("another reduction, {} and {}", one.reduction, other.reduction);
  return "another number of elements";
}

Finding finding_of(std::string_view reason, std::string message, std::string why, const Location& use,
                   const Location& cause, const std::string& op) {
  Finding finding;
  const CodeInfo* known = find_reason(reason);
  finding.reason = reason, finding.code = known->code, finding.severity = known->severity;
  finding.message = std::move(message), finding.why = std::move(why), finding.op = op;
  finding.cause = cause.line > 0 ? cause : use;
  Use& hurts = finding.uses.emplace_back();
  hurts.at = use, hurts.op = op;
  return finding;
}

Finding parted(std::string message, const std::vector<std::pair<int, Call>>& made, const std::string& difference,
               std::string_view advice, const Around& around) {
  std::vector<std::string> parts;
  for (const auto& [rank, call] : made) {
    if (parts.size() == kMaxParts) break;
    parts.push_back(fmt::format("rank {}: {} at {}", rank, words(call), at(call.place)));
  }
  const Call &first = made[0].second, &second = made[1].second;
  const Parted more =
      first.is_message() || second.is_message() ? Parted() : part(made[0].first, first, made[1].first, second, around);
  Finding finding = finding_of("ranks-part-ways", std::move(message),
                               fmt::format("{}: {}{}", fmt::join(parts, "; "), difference, more.words), first.place,
                               second.place, first.name);
  finding.notes.emplace_back(more.advice.empty() ? advice : more.advice);
  for (const auto& [rank, call] : made) finding.ranks.push_back(rank);
  std::sort(finding.ranks.begin(), finding.ranks.end());
  return finding;
}

}  // namespace

std::string words(const Call& call) {
  std::string text = call.name + "()";
  if (!call.dtype.empty()) text += fmt::format(" of {}[{}]", type_name(call.dtype), fmt::join(call.shape, ", "));
  if (call.is_message()) return text + fmt::format(" {} rank {}", call.name == "send" ? "to" : "from", call.root);
  return call.root >= 0 ? text + fmt::format(" with root {}", call.root) : text;
}

std::string at(const Location& place) { return told::at(place); }

std::string listed(const std::vector<std::string>& names, std::size_t most) {
  std::string text;
  for (std::size_t i = 0; i < std::min(names.size(), most); ++i) text += (i == 0 ? "`" : ", `") + names[i] + "`";
  return names.size() <= most ? text : fmt::format("{} and {} more", text, names.size() - most);
}

std::string rank_list(const std::vector<int>& ranks) {
  if (ranks.size() == 1) return fmt::format("rank {}", ranks[0]);
  return fmt::format("ranks {} and {}", fmt::join(ranks.begin(), ranks.end() - 1, ", "), ranks.back());
}

std::string has_ended(pid_t pid) {
  if (pid == 0) return "has ended (on another host)";
  return fmt::format("has ended (process {})", pid);
}
std::string is_stopped(pid_t pid) { return fmt::format("is stopped (process {})", pid); }

std::string had_ended(const Fate& fate, bool ended) {
  if (!fate.signal.empty()) return "was killed by " + fate.signal;
  if (fate.status != 0) return fmt::format("had ended with exit status {}", fate.status);
  return ended ? "had ended" : "ended without coming to its end";
}

std::string drift_words(int one, const Call& first, int other, const Call& second) {
  return fmt::format(
      "rank {}'s {} number {} at {} belongs to batch {} of its DataLoader, rank {}'s at {} to batch {}: from there on "
      "the "
      "ranks add up different rounds of their loops, which is legal, if it is meant",
      one, first.name + "()", first.number, at(first.place), first.feed->given, other, at(second.place),
      second.feed->given);
}

Finding mismatch(int mine, const Call& call, int rank, const Call& theirs, const Around& around) {
  std::vector<std::pair<int, Call>> made{{mine, call}, {rank, theirs}};
  if (rank < mine) std::swap(made[0], made[1]);
  const auto& [low, first] = made[0];
  const auto& [high, second] = made[1];
  if (call.is_message()) {
    const bool low_sends = first.name == "send";
    return parted(fmt::format("what rank {} sends does not fit what rank {} receives, as message {} between them",
                              low_sends ? low : high, low_sends ? high : low, call.number),
                  made, difference(first, second),
                  "give the tensor that receives the shape and the type of the one that is sent", around);
  }
  const bool same = family(call) == family(theirs) && call.root == theirs.root && call.reduction == theirs.reduction &&
                    call.place.line == theirs.place.line;
  return parted(
      fmt::format("ranks {} and {} called collectives that do not fit, as number {} of their group", low, high,
                  call.number),
      made, difference(first, second),
      same ? "give every rank the same shape and type, by padding or by exchanging the sizes first" : kSameOrder,
      around);
}

Finding deadlock(std::vector<std::pair<int, Call>> ring, const Around& around) {
  std::rotate(ring.begin(),
              std::min_element(ring.begin(), ring.end(), [](auto& a, auto& b) { return a.first < b.first; }),
              ring.end());
  std::vector<int> numbers;
  for (const auto& [rank, call] : ring) numbers.push_back(rank);
  std::sort(numbers.begin(), numbers.end());
  const std::string who = rank_list(numbers);
  const auto count = [&](auto&& is) {
    return std::count_if(ring.begin(), ring.end(), [&](const auto& each) { return is(each.second); });
  };
  const auto messages = count([](const Call& call) { return call.is_message(); });
  if (messages == static_cast<std::ptrdiff_t>(ring.size())) {
    const bool all_receive = count([](const Call& call) { return call.name != "recv"; }) == 0;
    if (all_receive && ring.size() == 2 && ring[0].second.number != ring[1].second.number) {
      // Messages were exchanged before: it is not the order of the first two, one side has answered once less.
      const auto& [behind, wanted] = ring[ring[0].second.number < ring[1].second.number ? 1 : 0];
      const auto& [waits, waited_for] = ring[ring[0].second.number < ring[1].second.number ? 0 : 1];
      return parted(fmt::format("{} wait for each other, each for a message that the other has not come to", who), ring,
                    fmt::format("rank {0} waits for message {1} of rank {2}'s, and rank {2} already for message {3} of "
                                "rank {0}'s: a send of rank {2}'s was left out, or comes after that",
                                waits, waited_for.number, behind, wanted.number),
                    fmt::format("have rank {} send what rank {} receives before it receives again", behind, waits),
                    around);
    }
    return parted(fmt::format("{} wait for each other, each for a message that {} has not come to", who,
                              ring.size() == 2 ? "the other" : "the next"),
                  ring, all_receive ? "each receives before it sends" : "each waits for the other side first",
                  "let one side send first while the other receives, or make both calls with batch_isend_irecv()",
                  around);
  }
  if (ring.size() == 2 && messages == 0) {
    const Call &first = ring[0].second, &second = ring[1].second;
    return parted(who + " wait for each other, each in a collective that the other has not called", ring,
                  first.group == second.group
                      ? fmt::format("numbers {} and {} of one group", first.number, second.number)
                      : fmt::format("number {} of one group and number {} of another", first.number, second.number),
                  kSameOrder, around);
  }
  return parted(who + " wait for each other, each in a call that another has not made", ring,
                "no two of these calls belong together", kSameOrder, ring.size() == 2 ? around : Around());
}

Finding missing(const Call& call, std::vector<int> waiting, int rank, const std::string& why,
                const std::optional<Call>& last, const Around& around) {
  std::sort(waiting.begin(), waiting.end());
  const bool several = waiting.size() > 1;
  std::string came;
  if (last) came = fmt::format("; its last call was number {}, {} at {}", last->number, words(*last), at(last->place));
  const Parted more = call.is_message() ? Parted() : left_behind(call, waiting.front(), rank, last, around);
  Finding finding =
      finding_of("rank-missing",
                 fmt::format("rank {} did not come to {} {}, {}", rank, call.is_message() ? "message" : "collective",
                             call.number, words(call)),
                 fmt::format("rank{} {} wait{} at {}; rank {} {}{}{}", several ? "s" : "", fmt::join(waiting, ", "),
                             several ? "" : "s", at(call.place), rank, why, came, more.words),
                 call.place, last ? last->place : Location(), call.name);
  finding.culprit.name = fmt::format("rank {}", rank), finding.culprit.kind = Kind::kVariable;
  finding.ranks = std::move(waiting);
  if (!more.advice.empty()) finding.notes.push_back(more.advice);
  return finding;
}

Finding tell(const Parting& parting, const Around& around) {
  const auto& [rank, call] = parting.calls.front();
  switch (parting.kind) {
    case Parting::Kind::kMismatch:
      return mismatch(rank, call, parting.calls.back().first, parting.calls.back().second, around);
    case Parting::Kind::kDeadlock:
      return deadlock(parting.calls, around);
    case Parting::Kind::kMissing:
      break;
  }
  return missing(call, {rank}, parting.absent, parting.why, parting.last, around);
}

}  // namespace locus::engine::ranks
