// Mistakes with CUDA graphs, as facts, and the finding with its sentences that they come to.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "locus/engine/finding.h"

namespace locus::engine::graphs {

/// What is wrong. (name, its name in JSON, the finding's reason)
// clang-format off
#define LOCUS_GRAPH_MISTAKE(each)                            \
  each(kRefused, "refused", "not-capturable")                \
  each(kFreed, "freed", "graph-input-gone")                  \
  each(kMoved, "moved", "graph-input-gone")                  \
  each(kFrozen, "frozen", "frozen-in-graph")                 \
  each(kKept, "kept", "graph-output-kept")                   \
  each(kBound, "bound", "graph-input-gone")                  \
  each(kSaved, "saved", "graph-output-kept")
// clang-format on

enum class What : std::uint8_t {
#define LOCUS_NAME(name, text, reason) name,
  LOCUS_GRAPH_MISTAKE(LOCUS_NAME)
#undef LOCUS_NAME
};

struct Facts {
  What what = What::kRefused;
  Location use;       ///< the call that is refused; the replay; the line that reads what was kept
  Location first;     ///< the use in the capture; the line that keeps, or binds; the earlier call
  std::string op;     ///< of the call in the capture; a value's name: "SGD.param_groups[0]['lr']", "outputs"
  std::string words;  ///< the card's; "reads" or "writes"; "0.1 in the graph, 0.01 now"; of a list that keeps: "3";
                      ///< "gone"; the later call
  std::vector<Fix> fixes;
  std::int64_t step = 0;
  bool in_backward = false;  ///< the refused call is one of the backward pass; `use` is the forward pass's
};

void from_json(const Json& json, Facts& facts);
/// Facts as JSON. Throws FormatError.
Facts parse_facts(std::string_view text);

Finding tell(const Facts& facts);

}  // namespace locus::engine::graphs
