// See journal.h.
#include "locus/engine/ranks/journal.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>

#include "locus/engine/json_fields.h"
#include "locus/engine/ranks/words.h"

namespace locus::engine::ranks {

using fields::Fields;

namespace {

std::string identity(const Journal::Kind& kind) {
  const Call& call = kind.call;
  return fmt::format("{} {} {} {} {} {} {} {} {} {} {}:{} {}", kind.group, call.name, fmt::join(call.shape, ","),
                     call.dtype, call.elements, call.root, call.reduction, kind.tag, kind.bytes, kind.aside,
                     call.place.file, call.place.line, call.place.function);
}

}  // namespace

void Journal::add(Kind kind, std::int64_t step) {
  if (calls.size() >= kMaxCalls) {
    full = true;
    return;
  }
  const auto [entry, is_new] = known_.try_emplace(identity(kind), static_cast<int>(kinds.size()));
  if (is_new) kinds.push_back(std::move(kind));
  calls.push_back({entry->second, step});
}

void from_json(const Json& json, Journal::Group& group) {
  Fields(json, "a group")("name", group.name)("label", group.label)("members", group.members);
}

void from_json(const Json& json, Journal::Kind& kind) {
  Fields(json, "a call")("group", kind.group)("name", kind.call.name)("shape", kind.call.shape)(
      "dtype", kind.call.dtype)("elements", kind.call.elements)("root", kind.call.root)(
      "reduction", kind.call.reduction)("tag", kind.tag)("bytes", kind.bytes)("aside", kind.aside)("place",
                                                                                                   kind.call.place);
}

std::string to_text(const Journal& journal) {
  Json groups = Json::array(), kinds = Json::array(), calls = Json::array();
  for (const Journal::Group& each : journal.groups) {
    groups.push_back({{"name", each.name}, {"label", each.label}, {"members", each.members}});
  }
  for (const Journal::Kind& each : journal.kinds) {
    Json place;
    to_json(place, each.call.place);
    kinds.push_back({{"group", each.group},
                     {"name", each.call.name},
                     {"shape", each.call.shape},
                     {"dtype", each.call.dtype},
                     {"elements", each.call.elements},
                     {"root", each.call.root},
                     {"reduction", each.call.reduction},
                     {"tag", each.tag},
                     {"bytes", each.bytes},
                     {"aside", each.aside},
                     {"place", std::move(place)}});
  }
  for (const Journal::Made& each : journal.calls) calls.push_back(each.kind), calls.push_back(each.step);
  const Json all{{"rank", journal.rank},      {"world", journal.world},      {"cut", journal.cut},
                 {"full", journal.full},      {"groups", std::move(groups)}, {"kinds", std::move(kinds)},
                 {"calls", std::move(calls)}, {"steps", journal.steps}};
  return all.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Journal parse_journal(std::string_view text) {
  Journal journal;
  std::vector<std::int64_t> calls;
  Fields(parse_json(text), "a rank's calls")("rank", journal.rank)("world", journal.world)("cut", journal.cut)(
      "full", journal.full)("groups", journal.groups)("kinds", journal.kinds)("calls", calls)("steps", journal.steps);
  for (const Journal::Kind& kind : journal.kinds) {
    if (kind.group < 0 || static_cast<std::size_t>(kind.group) >= journal.groups.size())
      throw FormatError("kinds", "a call of a group that is not there");
  }
  for (std::size_t i = 0; i + 1 < calls.size(); i += 2) {
    if (calls[i] < 0 || static_cast<std::size_t>(calls[i]) >= journal.kinds.size())
      throw FormatError("calls", "a call that is not there");
    journal.calls.push_back({static_cast<int>(calls[i]), calls[i + 1]});
  }
  return journal;
}

namespace {

/// The calls of one group, or the messages between two ranks, of one rank.
struct Line {
  const Journal* journal = nullptr;
  std::vector<const Journal::Kind*> calls;
  std::vector<std::int64_t> steps;  ///< of each call: the optimizer steps before it
};

/// By name of a group or channel, then by rank.
using Lines = std::map<std::string, std::map<int, Line>>;

bool is_message(const Call& call) { return call.name == "send" || call.name == "recv"; }

int global(const Journal::Group& group, int place) {
  if (group.members.empty()) return place;
  const auto at = static_cast<std::size_t>(place);
  return at < group.members.size() ? group.members[at] : -1;
}

Lines lines_of(const std::vector<Journal>& journals) {
  Lines lines;
  for (const Journal& journal : journals) {
    for (const Journal::Made& made : journal.calls) {
      // What a program does on its way out, where Locus has ended it, it would have done elsewhere by itself.
      if (journal.cut && made.step >= static_cast<std::int64_t>(journal.steps.size()) && !journal.steps.empty()) break;
      const Journal::Kind& kind = journal.kinds[static_cast<std::size_t>(made.kind)];
      const Journal::Group& group = journal.groups[static_cast<std::size_t>(kind.group)];
      std::string name = group.name;
      if (is_message(kind.call)) {
        const int peer = global(group, kind.call.root);
        const bool is_send = kind.call.name == "send";
        name = channel(name, is_send ? journal.rank : peer, is_send ? peer : journal.rank, kind.tag);
      }
      Line& line = lines[name][journal.rank];
      line.journal = &journal;
      line.calls.push_back(&kind), line.steps.push_back(made.step);
    }
  }
  return lines;
}

/// The call with everything that its number and its group say.
Call whole(const std::string& name, const Line& line, std::size_t index) {
  const Journal::Kind& kind = *line.calls[index];
  const Journal::Group& group = line.journal->groups[static_cast<std::size_t>(kind.group)];
  Call call = kind.call;
  call.group = name, call.number = index + 1;
  if (call.is_message()) {
    call.root = global(group, call.root);
  } else {
    call.members = group.members;
  }
  return call;
}

/// The first call of a group that does not fit what the first of its ranks has called.
std::optional<Finding> first_mismatch(const std::string& name, const std::map<int, Line>& ranks, const Around& around) {
  const auto& [first, reference] = *ranks.begin();
  std::size_t found = std::numeric_limits<std::size_t>::max();
  std::optional<Finding> finding;
  for (const auto& [rank, line] : ranks) {
    const std::size_t shared = std::min({reference.calls.size(), line.calls.size(), found});
    for (std::size_t i = 0; i < shared; ++i) {
      if (line.calls[i] == reference.calls[i]) continue;
      const Call mine = whole(name, reference, i), theirs = whole(name, line, i);
      if (!may_share_group(mine, theirs) || fit(mine, theirs)) continue;
      finding = mismatch(first, mine, rank, theirs, around);
      found = i;
      break;
    }
  }
  return finding;
}

/// Whether a rank that was ended early is past a call that another one has made, in the same steps. Ranks may step at
/// different paces, each with optimizers of its own: only those that step at the same lines, and have made what both
/// have made in the same steps, are known to go side by side. Messages may be taken in a later step than they are sent.
bool has_passed(const Line& line, const Line& other) {
  const Journal &mine = *line.journal, &theirs = *other.journal;
  const std::size_t shared = line.calls.size();
  const auto is_loose = [](const Journal::Kind* kind) { return kind->aside || is_message(kind->call); };
  return theirs.cut && !mine.steps.empty() && mine.steps == theirs.steps &&
         std::equal(line.steps.begin(), line.steps.end(), other.steps.begin()) &&
         std::none_of(other.calls.begin(), other.calls.begin() + static_cast<std::ptrdiff_t>(shared) + 1, is_loose);
}

/// The ranks that have made a call of a group to which this one will not come.
std::vector<int> waiting_for(const Line& line, const std::map<int, Line>& ranks) {
  std::vector<int> waiting;
  if (line.journal->full) return waiting;  // it may have come to more than is kept
  for (const auto& [rank, other] : ranks) {
    if (other.calls.size() > line.calls.size() && (!line.journal->cut || has_passed(line, other)))
      waiting.push_back(rank);
  }
  return waiting;
}

/// Who has not come to a call that others of the group have made.
void find_missing(const std::string& name, const std::map<int, Line>& ranks, const std::map<int, Fate>& fates,
                  const Around& around, std::vector<Finding>& findings) {
  std::size_t lowest = std::numeric_limits<std::size_t>::max();
  for (const auto& [rank, line] : ranks) {
    if (line.calls.size() < lowest && !waiting_for(line, ranks).empty()) lowest = line.calls.size();
  }
  for (const auto& [rank, line] : ranks) {
    if (line.calls.size() != lowest) continue;
    const std::vector<int> ahead = waiting_for(line, ranks);
    if (ahead.empty()) continue;
    const Call call = whole(name, ranks.at(ahead.front()), lowest);
    std::optional<Call> last;
    if (!line.calls.empty()) last = whole(name, line, line.calls.size() - 1);
    if (last && !may_share_group(call, *last)) continue;
    // Without an `if` that asks for the rank it may be a matter of pace: epochs of one batch here and of two there.
    if (line.journal->cut && around && !around(call).by_rank) continue;
    const std::size_t steps = line.journal->steps.size();
    const auto known = fates.find(rank);
    const std::string why = line.journal->cut
                                ? fmt::format("made {} optimizer step{} without it", steps, steps == 1 ? "" : "s")
                                : had_ended(known == fates.end() ? Fate{} : known->second, /*ended=*/true);
    findings.push_back(missing(call, ahead, rank, why, last, around));
    if (known != fates.end() && known->second.raised) add_raised(findings.back(), rank, *known->second.raised);
  }
}

/// Ranks of a group that made no call in it at all have no line; with one, of no calls, they are seen to be missing.
void add_silent(Lines& lines, const std::vector<Journal>& journals) {
  for (auto& [name, ranks] : lines) {
    const Line& some = ranks.begin()->second;
    const Call call = whole(name, some, 0);
    const std::vector<int> members = call.is_message() ? std::vector{call.root} : call.members;
    for (const Journal& journal : journals) {
      if (std::find(members.begin(), members.end(), journal.rank) != members.end())
        ranks.try_emplace(journal.rank, Line{&journal, {}});
    }
  }
}

}  // namespace

Cluster traffic_of(const std::vector<Journal>& journals) {
  Cluster all;
  std::int64_t step = std::numeric_limits<std::int64_t>::max();
  for (const Journal& journal : journals) {
    std::int64_t last = -1;
    for (const Journal::Made& made : journal.calls) last = std::max(last, made.step);
    // What comes after the last optimizer step of a run that was cut is no step.
    step = std::min(step, journal.cut ? last : last - 1);
  }
  if (journals.empty() || step < 0) step = -1;
  all.step = step;
  for (const Journal& journal : journals) {
    std::vector<ClusterTraffic> rows(journal.kinds.size());
    for (const Journal::Made& made : journal.calls) {
      if (step >= 0 && made.step != step) continue;
      const Journal::Kind& kind = journal.kinds[static_cast<std::size_t>(made.kind)];
      const Journal::Group& group = journal.groups[static_cast<std::size_t>(kind.group)];
      ClusterTraffic row{kind.call.name,       group.label,          static_cast<int>(group.members.size()),
                         kind.call.place.file, kind.call.place.line, 1,
                         kind.bytes,           {journal.rank},       ""};
      ClusterTraffic& known = rows[static_cast<std::size_t>(made.kind)];
      row.count += known.count, row.bytes += known.bytes;
      known = std::move(row);
    }
    // Calls of other shapes at one line are one row.
    Cluster one;
    for (const ClusterTraffic& row : rows) {
      if (row.count == 0) continue;
      const auto same = std::find_if(one.traffic.begin(), one.traffic.end(), [&](const ClusterTraffic& other) {
        return other.call == row.call && other.group == row.group && other.size == row.size && other.file == row.file &&
               other.line == row.line;
      });
      if (same == one.traffic.end()) {
        one.traffic.push_back(row);
      } else {
        same->count += row.count, same->bytes += row.bytes;
      }
    }
    one.step = step;
    merge_into(all, one);
  }
  return all;
}

std::vector<Finding> compare(const std::vector<Journal>& journals, const std::map<int, Fate>& fates,
                             const Around& around) {
  std::vector<Finding> findings;
  Lines lines = lines_of(journals);
  for (const auto& [name, ranks] : lines) {
    if (std::optional<Finding> finding = first_mismatch(name, ranks, around)) findings.push_back(std::move(*finding));
  }
  if (!findings.empty()) return findings;
  add_silent(lines, journals);
  for (const auto& [name, ranks] : lines) find_missing(name, ranks, fates, around, findings);
  return findings;
}

}  // namespace locus::engine::ranks
