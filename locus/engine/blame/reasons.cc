// See reasons.h.
#include "locus/engine/blame/reasons.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "locus/engine/blame/histories.h"

namespace locus::engine {
namespace {

/// One line gave the host's memory at one time and a device's at another. Two devices are no sign of it: a loop over
/// devices makes one tensor for each. Nor is the line of the call itself, which makes several: a script's own lines are
/// not known.
bool is_inconsistent(const Case& broken, const Operand& o) {
  const Step* placed = placing_step(o);
  const bool at_use = placed != nullptr && placed->at.file == broken.use.file && placed->at.line == broken.use.line;
  return !at_use && o.made_here.size() > 1 &&
         std::any_of(o.made_here.begin(), o.made_here.end(), [](const auto& made) { return is_cpu(made.first); });
}

/// A tensor that a method other than __init__ put into an attribute: a cache.
bool made_outside_init(const Operand& o) {
  const Step* placed = placing_step(o);
  if (placed == nullptr || placed->at.function.empty()) return false;
  const std::string& function = placed->at.function;
  const auto dot = function.rfind('.');
  const std::string name = dot == std::string::npos ? function : function.substr(dot + 1);
  const bool is_method = dot != std::string::npos;
  return is_method && name != "__init__" && name != "__post_init__";
}

/// A tensor in a container that is neither a parameter nor part of a layer, and was not made with the module.
bool keeps_result(const Operand& o) {
  const Step* placed = placing_step(o);
  const bool by_layer = placed != nullptr && !placed->op.empty() && placed->op[0] >= 'A' && placed->op[0] <= 'Z';
  return !o.requires_grad && !by_layer && made_outside_init(o);
}

/// A tensor that could be a buffer: it is put into its attribute where the module is made, whoever computes it there.
bool could_be_buffer(const Operand& o) {
  return std::ranges::find(o.candidates, EditKind::kRegisterBuffer, &Candidate::edit) != o.candidates.end();
}

/// Facts that are a reason by themselves, wherever they hold of one of an operand's candidates.
constexpr std::pair<Fact, Code> kByFact[] = {
    {Fact::kDeviceNotPassed, Code::kDeviceNotPassed},
};

/// The reason that a fact gives, or none.
std::optional<Code> reason_by_fact(const Operand& o) {
  for (const auto& [fact, code] : kByFact) {
    const auto has = [wanted = fact](const Candidate& each) {
      return std::ranges::find(each.facts, wanted) != each.facts.end();
    };
    if (std::ranges::any_of(o.candidates, has)) return code;
  }
  return std::nullopt;
}

Code reason_of_operand(const Case& broken, const Operand& o, const std::string& expected) {
  const Step* placed = placing_step(o);
  if (broken.collating) return Code::kInconsistentSource;
  if (broken.op == "equal" && is_cpu(expected)) return Code::kHandoffMissing;
  const bool two_cards = !is_cpu(o.device) && !is_cpu(expected);
  if (std::ranges::find(o.candidates, EditKind::kAssignTo, &Candidate::edit) != o.candidates.end())
    return Code::kToNotAssigned;
  if (const std::optional<Code> code = reason_by_fact(o)) return *code;
  if (o.kind == Kind::kOptimizerState) return Code::kOptimizerState;
  if (o.kind == Kind::kLossWeight) return Code::kLossWeight;
  if (broken.replica && two_cards) return Code::kReplicaPinned;
  if (o.kind == Kind::kPlainContainer) return keeps_result(o) ? Code::kCache : Code::kPlainContainer;
  if (o.kind == Kind::kPlainAttribute) {
    return made_outside_init(o) && !could_be_buffer(o) ? Code::kCache : Code::kPlainAttribute;
  }
  if (o.kind == Kind::kCached) return Code::kCache;
  if (o.kind == Kind::kFunctionContext && is_made_by_default(o)) return Code::kDefaultDevice;
  if (o.kind == Kind::kGradient || o.kind == Kind::kFunctionContext) return Code::kGradient;
  if (broken.in_backward && !is_registered(o)) return Code::kGradient;
  if (has_action(o, Action::kLoaded)) return Code::kCheckpoint;
  if (is_inconsistent(broken, o) && !two_cards && !is_registered(o)) return Code::kInconsistentSource;
  if (is_registered(o)) return two_cards ? Code::kHandoffMissing : Code::kModelNotMoved;
  if (o.kind == Kind::kBatch || has_action(o, Action::kReceived)) return Code::kBatchNotMoved;
  if (two_cards || !is_cpu(o.device)) return Code::kHandoffMissing;
  if (placed == nullptr) return Code::kOther;
  if (placed->action == Action::kCreated) return placed->is_explicit ? Code::kHandoffMissing : Code::kDefaultDevice;
  if (placed->action == Action::kMoved) return Code::kHandoffMissing;
  if (placed->action == Action::kForeign) return Code::kBatchNotMoved;
  return Code::kOther;
}

}  // namespace

Code reason_of(const Case& broken, const Operand* culprit, const std::string& expected) {
  switch (broken.kind) {
    case CaseKind::kIndex:
      if (culprit == nullptr || culprit->rule == "index") return Code::kIndex;
      break;
    case CaseKind::kGenerator:
      if (culprit == nullptr || culprit->kind == Kind::kGenerator) return Code::kGenerator;
      break;
    case CaseKind::kLengths:
      return Code::kLengthsMustBeCpu;
    case CaseKind::kHostAccess:
      return Code::kHostAccess;
    case CaseKind::kFork:
      return Code::kForkCuda;
    case CaseKind::kReadTooEarly:
      return Code::kReadTooEarly;
    case CaseKind::kGradient:
      return Code::kGradient;
    case CaseKind::kOperator:
      break;
  }
  return culprit == nullptr ? Code::kOther : reason_of_operand(broken, *culprit, expected);
}

}  // namespace locus::engine
