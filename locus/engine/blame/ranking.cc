// See ranking.h.
#include "locus/engine/blame/ranking.h"

#include <algorithm>
#include <array>

namespace locus::engine {
namespace {

constexpr std::size_t kReasons = std::size(kCodes);

/// The table of weights, laid out for looking up.
struct Weights {
  std::array<double, kCount<Fact>> fact{};
  std::array<std::array<double, kCount<EditKind>>, kReasons> edit{};
  double distance = 0;
};

constexpr Weights make_weights() {
  Weights weights;
  for (auto& row : weights.edit) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      switch (static_cast<EditKind>(i)) {
#define LOCUS_EDIT_WEIGHT(edit, weight) \
  case EditKind::edit:                  \
    row[i] = weight;                    \
    break;
#define LOCUS_FACT_WEIGHT(fact, weight)
#define LOCUS_REASON_WEIGHT(reason, edit, weight)
#define LOCUS_DISTANCE_WEIGHT(weight)
#include "locus/engine/blame/weights.def"
#undef LOCUS_EDIT_WEIGHT
#undef LOCUS_FACT_WEIGHT
#undef LOCUS_REASON_WEIGHT
#undef LOCUS_DISTANCE_WEIGHT
      }
    }
  }
#define LOCUS_EDIT_WEIGHT(edit, weight)
#define LOCUS_FACT_WEIGHT(name, weight) weights.fact[static_cast<std::size_t>(Fact::name)] = weight;
#define LOCUS_REASON_WEIGHT(reason, name, weight) \
  weights.edit[static_cast<std::size_t>(Code::reason)][static_cast<std::size_t>(EditKind::name)] = weight;
#define LOCUS_DISTANCE_WEIGHT(weight) weights.distance = weight;
#include "locus/engine/blame/weights.def"
#undef LOCUS_EDIT_WEIGHT
#undef LOCUS_FACT_WEIGHT
#undef LOCUS_REASON_WEIGHT
#undef LOCUS_DISTANCE_WEIGHT
  return weights;
}

constexpr Weights kWeights = make_weights();

}  // namespace

double evidence_of(const Candidate& candidate) {
  double sum = 0;
  for (const Fact fact : candidate.facts) sum += kWeights.fact[static_cast<std::size_t>(fact)];
  return sum;
}

double score_of(const Candidate& candidate, Code reason) {
  const auto& edits = kWeights.edit[static_cast<std::size_t>(reason)];
  return edits[static_cast<std::size_t>(candidate.edit)] + evidence_of(candidate) +
         kWeights.distance * candidate.distance;
}

void rank(std::vector<Candidate>& candidates, Code reason) {
  for (Candidate& each : candidates) each.score = score_of(each, reason);
  std::ranges::stable_sort(candidates, std::ranges::greater{}, &Candidate::score);
}

}  // namespace locus::engine
