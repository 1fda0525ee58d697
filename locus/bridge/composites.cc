// See composites.h.
#include "locus/bridge/composites.h"

namespace locus::bridge {
namespace {

using at::Tensor;

constinit thread_local bool t_trying = false;
constinit thread_local bool t_refused = false;

struct TrialScope {
  TrialScope() { t_trying = true, t_refused = false; }
  ~TrialScope() { t_trying = false; }
};

}  // namespace

bool needs_trial(const Call& call) {
  if (!call.plan.composite || call.plan.tensors < 2 || call.plan.moves || t_trying || !on_two_devices(call))
    return false;
  for (const Argument& argument : call.plan.arguments) {
    if (argument.written) return false;  // a second attempt must find what the first one found
  }
  return true;
}

std::exception_ptr refusal_of_parts(const std::function<void()>& run) {
  const TrialScope trial;
  try {
    run();
  } catch (const c10::Error&) {
    if (!t_refused) throw;
    return std::current_exception();
  }
  return nullptr;
}

void refuse_in_trial(const Call& part, const Violation& violation) {
  if (!t_trying || violation.kind != Violation::Kind::kDevices) return;
  t_refused = true;
  raise_violation(part, violation);
}

Violation violation_of_whole(const Call& call) {
  Violation violation;
  const auto operands = all_operands(call);
  for (const OperandRef& ref : operands) {
    const Tensor t = operand(call, ref);
    if (violation.device.is_cpu() && t.device().is_cuda()) violation.device = t.device();
  }
  for (const bool scalars : {false, true}) {
    for (const OperandRef& ref : operands) {
      const Tensor t = operand(call, ref);
      const bool is_scalar = t.dim() == 0 && t.device().is_cpu();
      if (t.device() != violation.device && !t.device().is_meta() && is_scalar == scalars) violation.odd.push_back(ref);
    }
    if (!violation.odd.empty()) break;  // 0-dim tensors of the CPU are welcome nearly everywhere
  }
  return violation;
}

}  // namespace locus::bridge
