// The mistakes that are no operator's and that one process sees by itself, most of them of distributed code: what
// Python has seen, as facts, and the finding with its sentences that they come to.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "locus/engine/finding.h"

namespace locus::engine::ranks {

/// What was seen. (name, its name in JSON, the finding's reason)
// clang-format off
#define LOCUS_SEEN(each)                                                    \
  each(kCpuTensor, "cpu-tensor", "cpu-collective")                          \
  each(kCpuModule, "cpu-module", "cpu-collective")                          \
  each(kSharedDevice, "shared-device", "shared-device")                     \
  each(kSharedCheckpoint, "shared-checkpoint", "shared-checkpoint")         \
  each(kScattered, "scattered-module", "scattered-module")                  \
  each(kSeveralDevices, "several-devices", "scattered-module")              \
  each(kDeviceIds, "device-ids", "device-ids")                              \
  each(kMovedAfterWrapping, "moved-after-wrapping", "moved-after-wrapping") \
  each(kOptimizerBefore, "optimizer-before", "optimizer-before")            \
  each(kFrozen, "frozen", "unfinished-reduction")                           \
  each(kLost, "lost", "unfinished-reduction")                               \
  each(kUnused, "unused", "unfinished-reduction")                           \
  each(kSecondBackward, "second-backward", "ready-twice")                   \
  each(kTwiceByBackward, "twice-by-backward", "ready-twice")                \
  each(kTwiceByCheckpoint, "twice-by-checkpoint", "ready-twice")            \
  each(kTwice, "twice", "ready-twice")                                      \
  each(kPinned, "pinned", "other")                                          \
  each(kSavedElsewhere, "saved-elsewhere", "checkpoint")                    \
  each(kMixedTensors, "mixed-tensors", "sharding")                          \
  each(kOtherSharding, "other-sharding", "sharding")                        \
  each(kMeshSize, "mesh-size", "sharding")                                  \
  each(kParentFirst, "parent-first", "sharding")                            \
  each(kOtherGroup, "other-group", "ranks-part-ways")                       \
  each(kOtherValues, "other-values", "differs-by-rank")                     \
  each(kOtherGradients, "other-gradients", "differs-by-rank")
// clang-format on

enum class Seen : std::uint8_t {
#define LOCUS_NAME(name, text, reason) name,
  LOCUS_SEEN(LOCUS_NAME)
#undef LOCUS_NAME
};

/// The `if` on which every use of a part in forward() depends.
struct Branch {
  Location at;
  std::string condition;  ///< "if x.mean() > 0"
  bool leaves = false;    ///< it stands before the use, with a way out; else it stands around it
  bool operator==(const Branch&) const = default;
};

/// Everything that the finding is made of. What a kind of mistake has no use for stays empty.
struct Facts {
  Seen seen = Seen::kTwice;
  Location use;
  std::optional<Location> cause;  ///< nothing: the use
  std::string op;
  std::vector<Operand> operands;  ///< the first is the culprit
  std::vector<Fix> fixes;
  std::vector<int> ranks;
  std::int64_t step = 0;
  std::string subject;               ///< the module's or optimizer's class; the file of a checkpoint
  std::string wrapper;               ///< "DistributedDataParallel"; the optimizer's class; "the model": what is sharded
  std::string device;                ///< where it is
  std::vector<std::string> devices;  ///< where its parts are
  std::string expected;              ///< where it should be
  std::string output;                ///< "output[1]": the part of what forward() returned; a name to write instead
  std::vector<std::string> names;    ///< of parameters and buffers
  std::int64_t count = 0;            ///< of all of them, or of tensors; of devices that are there
  Location made;                     ///< where the wrapper was made; the line that is to blame beside the use
  std::optional<Branch> branch;
  std::optional<Location> used;  ///< where forward() names the part all the same; where a rank chooses its device
};

std::string_view reason_of(Seen seen);
void from_json(const Json& json, Branch& branch);
void from_json(const Json& json, Facts& facts);
/// Facts as JSON. Throws FormatError.
Facts parse_facts(std::string_view text);

Finding tell(const Facts& facts);

/// "the `if x.mean() > 0` at net.py:24"
std::string condition_words(const Branch& branch);
/// "under the `if …` at net.py:24", "after the `if …` at net.py:24 has not left early"
std::string way_words(const Branch& branch);

}  // namespace locus::engine::ranks
