// See surroundings.h.
#include "locus/engine/ranks/surroundings.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "locus/engine/json_fields.h"
#include "locus/engine/ranks/words.h"

namespace locus::engine::ranks {

using fields::Fields;

void from_json(const Json& json, Order& order) {
  Fields(json, "an order")("text", order.text)("next_text", order.next_text)("next", order.next);
}

void from_json(const Json& json, Setting& setting) {
  Fields(json, "a setting")("branch", setting.branch)("in_else", setting.in_else)("by_rank", setting.by_rank)(
      "loops", setting.loops)("orders", setting.orders);
}

Setting parse_setting(std::string_view text) {
  Setting setting;
  from_json(parse_json(text), setting);
  return setting;
}

void from_json(const Json& json, Raised& raised) {
  Fields(json, "an error")("type", raised.type)("words", raised.words)("file", raised.file)(
      "is_there", raised.is_there)("at", raised.at);
}

namespace {

bool is_same(const Branch& one, const Branch& other) {
  return one.at.file == other.at.file && one.at.line == other.at.line;
}

bool is_same(const std::optional<Branch>& one, const std::optional<Branch>& other) {
  return one && other && is_same(*one, *other);
}

bool is_in(const Setting& setting, const Branch& loop) {
  return std::any_of(setting.loops.begin(), setting.loops.end(),
                     [&](const Branch& each) { return is_same(each, loop); });
}

/// The loops that two calls are both in, innermost first.
std::vector<Branch> shared_loops(const Setting& one, const Setting& other) {
  std::vector<Branch> found;
  for (const Branch& loop : one.loops) {
    if (is_in(other, loop)) found.push_back(loop);
  }
  return found;
}

/// The loop that took the last batch, where it is one of those around a call; without a word of where it was taken, the
/// innermost.
const Branch* loop_of(const std::vector<Branch>& loops, const std::optional<Feed>& feed) {
  if (!feed || loops.empty()) return nullptr;
  if (feed->taken.empty()) return &loops.front();
  for (const Location& place : feed->taken) {
    for (const Branch& loop : loops) {
      if (loop.at.file == place.file && loop.at.line <= place.line && place.line <= loop.at.end_line) return &loop;
    }
  }
  return nullptr;
}

/// The calls of two ranks that are written one after the other, each time the other way round; of the innermost ones.
std::optional<std::pair<Order, Order>> swapped(const Setting& one, const Setting& other) {
  for (std::size_t i = 0; i < std::min(one.orders.size(), other.orders.size()); ++i) {
    const Order &mine = one.orders[i], &theirs = other.orders[i];
    if (mine.text != theirs.text && !mine.text.empty() && mine.next_text == theirs.text &&
        theirs.next_text == mine.text)
      return std::pair(mine, theirs);
  }
  return std::nullopt;
}

/// Whether a call is on a side of an `if` that the other is not on.
bool is_apart(const Setting& one, const Setting& other) {
  return one.branch && !(is_same(one.branch, other.branch) && one.in_else == other.in_else);
}

std::string under(const Setting& setting) {
  return setting.in_else ? "under the `else` of " + condition_words(*setting.branch) : way_words(*setting.branch);
}

std::string batch_words(const Feed& feed) {
  std::string text = fmt::format("batch {}", feed.given);
  if (feed.of >= 0) text += fmt::format(" of {}", feed.of);
  if (feed.samples >= 0 && !feed.sampler.empty())
    return text + fmt::format(" ({} samples, {})", feed.samples, feed.sampler);
  return feed.sampler.empty() ? text : text + fmt::format(" ({})", feed.sampler);
}

constexpr std::string_view kTakeOut =
    "every rank of the group must make the call: take it out of the `if`, or use a group of the ranks that go that way";
constexpr std::string_view kEvenBatches =
    "give every rank the same number of batches: a DistributedSampler makes the shards equal; drop_last=True drops "
    "what "
    "is left over; Join (torch.distributed.algorithms.join) lets ranks end early";
constexpr std::string_view kEvenRounds =
    "give every rank the same number of rounds, or let them end early with Join (torch.distributed.algorithms.join)";

/// Of two calls, one in a loop over batches, and one behind that loop, by a rank that had fewer of them.
std::optional<Parted> ran_out(int one, const Call& first, const Setting& here, int other, const Call& second,
                              const Setting& there) {
  const Branch* loop = loop_of(here.loops, first.feed);
  if (loop == nullptr || here.by_rank || there.by_rank || is_in(there, *loop)) return std::nullopt;
  if (second.place.file != loop->at.file || second.place.line <= loop->at.line) return std::nullopt;
  // While a rank is in such a loop, it is known how far it is.
  if (second.feed && (second.feed->given != second.feed->of || second.feed->of >= first.feed->of)) return std::nullopt;
  const std::string had = second.feed ? ": it had " + batch_words(*second.feed) : "";
  return Parted{fmt::format("; rank {}'s is in the `{}` at {}, at {}, and rank {}'s behind that loop{}", one,
                            loop->condition, at(loop->at), batch_words(*first.feed), other, had),
                std::string(kEvenBatches)};
}

}  // namespace

Parted part(int one, const Call& first, int other, const Call& second, const Around& around) {
  if (!around) return {};
  const Setting here = around(first), there = around(second);
  if (const auto orders = swapped(here, there)) {
    const auto& [mine, theirs] = *orders;
    return {fmt::format("; the two calls are swapped: rank {} makes `{}` after it, at {}, and rank {} `{}`, at {}", one,
                        theirs.text, at(mine.next), other, mine.text, at(theirs.next)),
            "make the two calls in the same order on every rank"};
  }
  if (is_same(here.branch, there.branch) && here.in_else != there.in_else)
    return {fmt::format("; they are on different sides of {}", condition_words(*here.branch)), std::string(kTakeOut)};
  if (std::optional<Parted> uneven = ran_out(one, first, here, other, second, there)) return *std::move(uneven);
  if (std::optional<Parted> uneven = ran_out(other, second, there, one, first, here)) return *std::move(uneven);
  const bool mine = is_apart(here, there), theirs = is_apart(there, here);
  if (mine || theirs) {
    const bool take_mine = mine && (!theirs || here.by_rank || !there.by_rank);
    return {fmt::format("; rank {}'s is {}", take_mine ? one : other, under(take_mine ? here : there)),
            std::string(kTakeOut)};
  }
  if (const std::vector<Branch> loops = shared_loops(here, there);
      !loops.empty() && first.place.line == second.place.line)
    return {fmt::format("; both are in the `{}` at {}", loops[0].condition, at(loops[0].at)), ""};
  return {};
}

Parted left_behind(const Call& call, int waiting, int rank, const std::optional<Call>& last, const Around& around) {
  if (!around) return {};
  const Setting here = around(call), there = last ? around(*last) : Setting();
  if (here.by_rank && is_apart(here, there))
    return {fmt::format("; the call is {}", under(here)), std::string(kTakeOut)};
  const std::vector<Branch> loops = shared_loops(here, there);
  if (loops.empty()) return {};
  const Branch *mine = loop_of(loops, call.feed), *theirs = loop_of(loops, last->feed);
  const bool fed = mine != nullptr && theirs != nullptr && is_same(*mine, *theirs);
  // Which of several loops it was that one rank has left is not known: further in all of them together it has come.
  std::vector<std::string> parts;
  for (const Branch& loop : fed ? std::vector{*mine} : loops)
    parts.push_back(fmt::format("the `{}` at {}", loop.condition, at(loop.at)));
  std::string words =
      fmt::format("; rank {} went further through {} than rank {}", waiting, fmt::join(parts, ", in "), rank);
  if (!fed) return {std::move(words), std::string(kEvenRounds)};
  words += fmt::format(": it is at {}, rank {}'s last was {}", batch_words(*call.feed), rank, batch_words(*last->feed));
  return {std::move(words), std::string(call.feed->of != last->feed->of ? kEvenBatches : kEvenRounds)};
}

void add_raised(Finding& finding, int rank, const Raised& raised) {
  finding.why += fmt::format("; rank {} ended with {} at {}", rank, raised.type, at(raised.at));
  if (!raised.words.empty()) finding.why += ": " + raised.words;
  std::erase(finding.notes, kEvenBatches);
  std::erase(finding.notes, kEvenRounds);
  if (raised.file.empty() || !raised.is_there) return;
  finding.why += "; the file is there now: it was read before another rank had written it";
  finding.notes.emplace_back(
      "call dist.barrier() on every rank between the write and the read, so that no rank reads too early");
  if (raised.at.line > 0) finding.cause = raised.at;
}

}  // namespace locus::engine::ranks
