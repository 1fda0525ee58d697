// See together.h.
#include "locus/engine/ranks/together.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>

#include "locus/engine/json_fields.h"
#include "locus/engine/ranks/words.h"

namespace locus::engine::ranks {

using fields::Fields;

void from_json(const Json& json, Passes::Module& module) {
  Fields(json, "a module's pass")("pass", module.pass)("ready", module.ready)("all", module.all);
  if (const auto partial = json.find("partial"); partial != json.end() && partial->is_object()) {
    for (const auto& [number, names] : partial->items()) fields::decode(names, module.partial[number]);
  }
}

std::set<std::string> Passes::Module::ready_in(int number) const {
  if (number > pass) return {};
  const auto part = partial.find(std::to_string(number));
  const std::vector<std::string>& names = part != partial.end() ? part->second : number == pass ? ready : all;
  return {names.begin(), names.end()};
}

void from_json(const Json& json, Lacking& lacking) {
  Fields(json, "what is lacking")("module", lacking.module)("pass", lacking.pass)("culprit", lacking.culprit)(
      "names", lacking.names)("is_unused", lacking.is_unused)("branch", lacking.branch)("fixes", lacking.fixes);
}

void from_json(const Json& json, Passes& passes) {
  Fields(json, "a rank's passes")("rank", passes.rank)("modules", passes.modules)("lacking", passes.lacking)(
      "raised", passes.raised)("left_out", passes.left_out)("by_hand", passes.by_hand);
}

Passes parse_passes(std::string_view text) {
  Passes passes;
  from_json(parse_json(text), passes);
  return passes;
}

namespace {

constexpr std::string_view kUnfinished = "unfinished-reduction", kParted = "ranks-part-ways", kMissing = "rank-missing",
                           kTwice = "ready-twice";

bool explains(std::string_view reason) { return reason == kUnfinished || reason == kTwice || reason == kParted; }

/// A finding in its report, and what it lacks.
struct Found {
  Report* report;
  std::size_t index;
  const Lacking* lacking;
  Finding& finding() const { return report->findings[index]; }
};

/// Places of findings, each in its report.
using Dropped = std::set<std::pair<Report*, std::size_t>>;

/// What is lacking, and the ranks that lack it; in the order of ranks.
using ByLack = std::vector<std::pair<std::vector<std::string>, std::vector<int>>>;

ByLack by_what_is_lacking(const std::vector<Found>& found) {
  std::map<int, std::vector<std::string>> by_rank;
  for (const Found& each : found) {
    for (const int rank : each.finding().ranks) {
      auto& names = by_rank[rank];
      names.insert(names.end(), each.lacking->names.begin(), each.lacking->names.end());
    }
  }
  ByLack lacks;
  for (const auto& [rank, names] : by_rank) {
    const auto same = std::find_if(lacks.begin(), lacks.end(), [&](const auto& each) { return each.first == names; });
    if (same == lacks.end()) {
      lacks.push_back({names, {rank}});
    } else {
      same->second.push_back(rank);
    }
  }
  return lacks;
}

/// The ranks on which what is lacking elsewhere was ready in the same pass.
std::vector<int> with_gradient(const std::vector<RankReport>& reports, const Lacking& entry, const ByLack& lacks) {
  std::set<int> found;
  for (const RankReport& each : reports) {
    if (!each.has_passes || entry.module < 0 || static_cast<std::size_t>(entry.module) >= each.passes.modules.size())
      continue;
    const Passes::Module& module = each.passes.modules[static_cast<std::size_t>(entry.module)];
    const std::set<std::string> ready = module.ready_in(entry.pass);
    const bool has_all = std::all_of(lacks.begin(), lacks.end(), [&](const auto& lack) {
      return std::all_of(lack.first.begin(), lack.first.end(), [&](const auto& name) { return ready.contains(name); });
    });
    if (has_all) found.insert(each.passes.rank);
  }
  return {found.begin(), found.end()};
}

/// How ranks went different ways; empty: they did not.
std::string ways(const Lacking& entry, const ByLack& lacks, const std::vector<int>& took) {
  const auto& [names, ranks] = lacks.front();
  const std::string shown = listed(names), are = names.size() == 1 ? "is" : "are";
  if (lacks.size() > 1) {
    std::vector<std::string> parts;
    for (const auto& [each, numbers] : lacks) parts.push_back(listed(each, 4) + " on " + rank_list(numbers));
    return fmt::format("ranks {}; without a gradient were {}",
                       entry.branch ? "took different sides of " + condition_words(*entry.branch)
                                    : "went different ways through forward()",
                       fmt::join(parts, "; "));
  }
  if (took.empty()) return "";
  if (entry.branch && entry.branch->leaves)
    return fmt::format("{} {} used only after {}, where {} left early and {} did not", shown, are,
                       condition_words(*entry.branch), rank_list(ranks), rank_list(took));
  if (entry.branch)
    return fmt::format("{} {} used only {}, a branch that {} took and {} did not", shown, are, way_words(*entry.branch),
                       rank_list(took), rank_list(ranks));
  return fmt::format("{} took part in what forward() returned on {}, but not on {}", shown, rank_list(took),
                     rank_list(ranks));
}

/// One finding for all ranks that lack something at one place, with what each of them lacks in the first pass where one
/// does: what comes later may follow from that. The others' are marked.
void make_one(const std::vector<Found>& all, const std::vector<RankReport>& reports, Dropped& dropped) {
  const auto earlier = [](const Found& a, const Found& b) { return a.lacking->pass < b.lacking->pass; };
  const int pass = std::min_element(all.begin(), all.end(), earlier)->lacking->pass;
  std::vector<Found> found;
  std::copy_if(all.begin(), all.end(), std::back_inserter(found),
               [&](const Found& each) { return each.lacking->pass == pass; });
  const ByLack lacks = by_what_is_lacking(found);
  if (lacks.empty()) return;
  const Lacking& entry = *found.front().lacking;
  const std::vector<int> took = with_gradient(reports, entry, lacks);
  const auto lowest = [](const Found& each) {
    const std::vector<int>& ranks = each.finding().ranks;
    return ranks.empty() ? std::numeric_limits<int>::max() : *std::min_element(ranks.begin(), ranks.end());
  };
  const Found& first = *std::min_element(found.begin(), found.end(),
                                         [&](const Found& a, const Found& b) { return lowest(a) < lowest(b); });
  std::string words = ways(*first.lacking, lacks, took);
  if (words.empty()) return;
  for (const Found& each : all) {
    if (&each.finding() != &first.finding()) dropped.emplace(each.report, each.index);
  }
  Finding& finding = first.finding();
  finding.why = std::move(words);
  finding.ranks.clear();
  for (const auto& [names, numbers] : lacks) finding.ranks.insert(finding.ranks.end(), numbers.begin(), numbers.end());
  std::sort(finding.ranks.begin(), finding.ranks.end());
  finding.notes = {
      "find_unused_parameters=True, since ranks take different ways; or let every rank use the same parts"};
  finding.fixes = first.lacking->fixes;
}

/// Where a parameter got its gradient on some ranks and not on others, in the same pass: says so.
void complete(std::vector<RankReport>& reports) {
  std::vector<std::pair<std::tuple<std::string, int, int>, std::vector<Found>>> places;
  for (RankReport& each : reports) {
    for (std::size_t index = 0; index < each.report.findings.size(); ++index) {
      const Finding& finding = each.report.findings[index];
      if (finding.reason != kUnfinished) continue;
      for (const Lacking& entry : each.passes.lacking) {
        if (entry.culprit != finding.culprit.name || !entry.is_unused) continue;
        const std::tuple place{finding.cause.file, finding.cause.line, entry.module};
        auto group = std::find_if(places.begin(), places.end(), [&](auto& known) { return known.first == place; });
        if (group == places.end()) group = places.insert(places.end(), {place, {}});
        group->second.push_back({&each.report, index, &entry});
      }
    }
  }
  Dropped dropped;
  for (const auto& [place, found] : places) make_one(found, reports, dropped);
  for (auto each = dropped.rbegin(); each != dropped.rend(); ++each) {
    auto& findings = each->first->findings;
    findings.erase(findings.begin() + static_cast<std::ptrdiff_t>(each->second));
  }
}

/// A rank that ends because of one finding leaves the others waiting: that is no second one.
void drop_consequences(std::vector<RankReport>& reports) {
  bool explained = false;
  std::set<int> lacking;
  for (const RankReport& each : reports) {
    for (const Finding& finding : each.report.findings) {
      explained = explained || explains(finding.reason);
      if (finding.reason == kUnfinished) lacking.insert(finding.ranks.begin(), finding.ranks.end());
    }
  }
  for (RankReport& each : reports) {
    std::erase_if(each.report.findings, [&](const Finding& finding) {
      if (finding.reason == kMissing) return explained;
      if (finding.reason != kParted || lacking.empty()) return false;
      // One rank left its bucket open, the other did not.
      return !std::all_of(finding.ranks.begin(), finding.ranks.end(), [&](int rank) { return lacking.contains(rank); });
    });
  }
}

/// A rank that did not come had ended with an error: that is why.
void say_why_ranks_ended(std::vector<RankReport>& reports) {
  for (const RankReport& ended : reports) {
    if (!ended.passes.raised) continue;
    const std::string name = fmt::format("rank {}", ended.passes.rank);
    for (RankReport& each : reports) {
      for (Finding& finding : each.report.findings) {
        if (finding.reason == kMissing && finding.culprit.name == name)
          add_raised(finding, ended.passes.rank, *ended.passes.raised);
      }
    }
  }
}

/// Parameters that no plan keeps alike; the finding goes to the first rank that has one of them.
void add_left_out(std::vector<RankReport>& reports) {
  std::vector<RankLeftOut> ranks;
  for (const RankReport& each : reports) {
    if (each.has_passes) ranks.push_back({each.passes.rank, each.passes.left_out, each.passes.by_hand});
  }
  for (Finding& finding : find_left_out(ranks)) {
    const auto first = std::find_if(reports.begin(), reports.end(), [&](const RankReport& each) {
      return each.has_passes && each.passes.rank == finding.ranks.front();
    });
    first->report.findings.push_back(std::move(finding));
  }
}

}  // namespace

void tidy(std::vector<RankReport>& reports) {
  complete(reports);
  say_why_ranks_ended(reports);
  drop_consequences(reports);
  add_left_out(reports);
}

bool explains_the_rest(const std::set<std::string>& reasons) {
  return std::any_of(reasons.begin(), reasons.end(),
                     [](const std::string& reason) { return reason == kMissing || explains(reason); });
}

}  // namespace locus::engine::ranks
