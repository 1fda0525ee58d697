// See surroundings.h.
#include "locus/engine/ranks/surroundings.h"

#include <fmt/format.h>

#include "locus/engine/json_fields.h"
#include "locus/engine/ranks/words.h"

namespace locus::engine::ranks {

using fields::Fields;

void from_json(const Json& json, Setting& setting) {
  Fields(json, "a setting")("branch", setting.branch)("in_else", setting.in_else)("by_rank", setting.by_rank)(
      "loop", setting.loop)("text", setting.text)("next_text", setting.next_text)("next", setting.next);
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

bool is_same(const std::optional<Branch>& one, const std::optional<Branch>& other) {
  return one && other && one->at.file == other->at.file && one->at.line == other->at.line;
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
  const Location& loop = here.loop ? here.loop->at : first.place;
  if (!first.feed || !here.loop || here.by_rank || there.by_rank || is_same(here.loop, there.loop)) return std::nullopt;
  if (second.place.file != loop.file || second.place.line <= loop.line) return std::nullopt;
  // While a rank is in such a loop, it is known how far it is.
  if (second.feed && (second.feed->given != second.feed->of || second.feed->of >= first.feed->of)) return std::nullopt;
  const std::string had = second.feed ? ": it had " + batch_words(*second.feed) : "";
  return Parted{fmt::format("; rank {}'s is in the `{}` at {}, at {}, and rank {}'s behind that loop{}", one,
                            here.loop->condition, at(loop), batch_words(*first.feed), other, had),
                std::string(kEvenBatches)};
}

}  // namespace

Parted part(int one, const Call& first, int other, const Call& second, const Around& around) {
  if (!around) return {};
  const Setting here = around(first), there = around(second);
  if (here.text != there.text && !here.text.empty() && here.next_text == there.text && there.next_text == here.text)
    return {fmt::format("; the two calls are swapped: rank {} makes `{}` after it, at {}, and rank {} `{}`, at {}", one,
                        there.text, at(here.next), other, here.text, at(there.next)),
            "make the two calls in the same order on every rank"};
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
  if (is_same(here.loop, there.loop) && first.place.line == second.place.line)
    return {fmt::format("; both are in the `{}` at {}", here.loop->condition, at(here.loop->at)), ""};
  return {};
}

Parted left_behind(const Call& call, int waiting, int rank, const std::optional<Call>& last, const Around& around) {
  if (!around) return {};
  const Setting here = around(call), there = last ? around(*last) : Setting();
  if (here.by_rank && is_apart(here, there))
    return {fmt::format("; the call is {}", under(here)), std::string(kTakeOut)};
  if (!is_same(here.loop, there.loop)) return {};
  std::string words = fmt::format("; rank {} went further through the `{}` at {} than rank {}", waiting,
                                  here.loop->condition, at(here.loop->at), rank);
  if (!call.feed || !last->feed) return {std::move(words), std::string(kEvenRounds)};
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
