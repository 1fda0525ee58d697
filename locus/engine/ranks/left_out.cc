// See left_out.h.
#include "locus/engine/ranks/left_out.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <tuple>

#include "locus/engine/json_fields.h"

namespace locus::engine::ranks {
namespace {

/// Of the larger of two: gradients of one parameter that should be the same are the same to the last bits.
constexpr double kNoise = 1e-2;
/// Of the largest gradient of the model: what is smaller is the noise of a gradient that is zero.
constexpr double kNothing = 1e-6;

double length(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value * value;
  return std::sqrt(sum);
}

double distance(const std::vector<double>& one, const std::vector<double>& other) {
  std::vector<double> between(std::min(one.size(), other.size()));
  for (std::size_t i = 0; i < between.size(); ++i) between[i] = one[i] - other[i];
  return length(between);
}

bool differ(const std::vector<double>& one, const std::vector<double>& other, double least) {
  const double larger = std::max(length(one), length(other));
  return one.size() == other.size() && larger > least && distance(one, other) > kNoise * larger;
}

/// How a parameter differs between two ranks; nothing: it does not, or that is not known.
std::optional<Seen> difference(const LeftOut& one, const LeftOut& other, double largest_gradient) {
  if (differ(one.values, other.values, 0)) return Seen::kOtherValues;
  const std::size_t steps = std::min(one.gradients.size(), other.gradients.size());
  if (steps == 0) return std::nullopt;
  for (std::size_t step = 0; step < steps; ++step) {
    if (!differ(one.gradients[step], other.gradients[step], kNothing * largest_gradient)) return std::nullopt;
  }
  return Seen::kOtherGradients;
}

bool share_two(const std::vector<int>& one, const std::vector<int>& other) {
  return std::count_if(one.begin(), one.end(),
                       [&](int rank) { return std::find(other.begin(), other.end(), rank) != other.end(); }) > 1;
}

double largest_gradient_of(const std::vector<RankLeftOut>& ranks) {
  double largest = 0;
  for (const RankLeftOut& each : ranks) {
    for (const LeftOut& parameter : each.parameters) {
      for (const std::vector<double>& gradient : parameter.gradients) largest = std::max(largest, length(gradient));
    }
  }
  return largest;
}

/// The parameters that differ in one way, of one plan.
struct Different {
  Facts facts;
  std::vector<std::string> names = {};
  std::set<int> ranks = {};
};

}  // namespace

void from_json(const Json& json, LeftOut& left_out) {
  fields::Fields(json, "a parameter")("name", left_out.name)("group", left_out.group)("facts", left_out.facts)(
      "values", left_out.values)("gradients", left_out.gradients);
}

std::vector<Finding> find_left_out(const std::vector<RankLeftOut>& ranks) {
  struct Held {
    const LeftOut* parameter;
    std::vector<std::pair<int, const LeftOut*>> copies;
  };
  std::vector<Held> held;  // in the order of the first rank's model
  for (const RankLeftOut& each : ranks) {
    for (const LeftOut& parameter : each.parameters) {
      const bool is_by_hand = std::any_of(ranks.begin(), ranks.end(), [&](const RankLeftOut& rank) {
        return std::any_of(rank.by_hand.begin(), rank.by_hand.end(),
                           [&](const std::vector<int>& group) { return share_two(group, parameter.group); });
      });
      if (is_by_hand) continue;
      auto known = std::find_if(held.begin(), held.end(), [&](const Held& other) {
        return other.parameter->name == parameter.name && other.parameter->group == parameter.group;
      });
      if (known == held.end()) known = held.insert(held.end(), {&parameter, {}});
      known->copies.emplace_back(each.rank, &parameter);
    }
  }
  const double largest = largest_gradient_of(ranks);
  std::map<std::tuple<std::string, int, Seen>, Different> found;
  for (const auto& [parameter, copies] : held) {
    const auto& [first_rank, first] = copies.front();
    for (std::size_t i = 1; i < copies.size(); ++i) {
      const auto& [rank, other] = copies[i];
      const std::optional<Seen> how = difference(*first, *other, largest);
      if (!how) continue;
      const Location& plan = first->facts.cause ? *first->facts.cause : first->facts.use;
      Different& different = found.try_emplace({plan.file, plan.line, *how}, Different{first->facts}).first->second;
      different.facts.seen = *how;
      different.ranks.insert({first_rank, rank});
      if (std::find(different.names.begin(), different.names.end(), first->name) == different.names.end())
        different.names.push_back(first->name);
    }
  }
  std::vector<Finding> findings;
  for (auto& [plan, different] : found) {
    different.facts.names = different.names;
    different.facts.ranks.assign(different.ranks.begin(), different.ranks.end());
    findings.push_back(tell(different.facts));
  }
  return findings;
}

}  // namespace locus::engine::ranks
