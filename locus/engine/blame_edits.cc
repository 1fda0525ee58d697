// See blame_edits.h.
#include "locus/engine/blame_edits.h"

#include <array>

namespace locus::engine {
namespace {

struct Row {
  Code code;
  std::array<std::string_view, 4> edits;
};

constexpr Row kRows[] = {
    {Code::kModelNotMoved, {"move_module", "move_at_use"}},
    {Code::kPlainContainer, {"module_list", "factory_device", "move_at_use"}},
    {Code::kPlainAttribute, {"register_buffer", "factory_device", "move_at_use"}},
    {Code::kReplicaPinned, {"register_buffer", "factory_device", "move_at_use"}},
    {Code::kCache, {"move_cached", "factory_device", "move_at_use", "register_buffer"}},
    {Code::kToNotAssigned, {"assign_to"}},
    {Code::kBatchNotMoved, {"move_batch", "move_at_use", "factory_device"}},
    {Code::kInconsistentSource, {"move_batch", "move_at_use", "factory_device"}},
    {Code::kLossWeight, {"move_weight", "move_module", "factory_device"}},
    {Code::kOptimizerState, {"optimizer_state", "map_location", "move_at_use"}},
    {Code::kCheckpoint, {"map_location", "move_at_use"}},
    {Code::kHandoffMissing, {"handoff", "move_at_use", "factory_device"}},
    {Code::kIndex, {"move_index", "move_at_use", "move_batch"}},
    {Code::kLengthsMustBeCpu, {"cpu_lengths", "move_at_use"}},
    {Code::kGenerator, {"factory_device", "generator_device"}},
    {Code::kHostAccess, {"cpu_numpy"}},
    {Code::kReadTooEarly, {"synchronize"}},
    {Code::kGradient, {"move_at_use", "factory_device"}},
};
constexpr std::string_view kOtherwise[] = {"factory_device", "move_at_use"};

}  // namespace

std::span<const std::string_view> edits_for(Code code) {
  for (const Row& row : kRows) {
    if (row.code == code) return row.edits;
  }
  return kOtherwise;
}

}  // namespace locus::engine
