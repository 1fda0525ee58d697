// See composites.h.
#include "locus/bridge/door/composites.h"

#include <c10/core/impl/LocalDispatchKeySet.h>

#include "locus/bridge/door/door.h"
#include "locus/bridge/door/policy.h"
#include "locus/bridge/door/wording.h"
#include "locus/bridge/kernels/kernels.h"
#include "locus/bridge/python/reporting.h"

namespace locus::bridge {
namespace {

using at::Tensor;

constinit thread_local bool t_trying = false;
constinit thread_local bool t_refused = false;

struct TrialScope {
  TrialScope() { t_trying = true, t_refused = false; }
  ~TrialScope() { t_trying = false; }
};

/// Whether autograd, which has passed this call on already, will send gradients back to its operands: it would not know
/// of a move down here, and they would arrive on the wrong device.
bool is_recorded(const Call& call) {
  if (!at::GradMode::is_enabled() || !c10::impl::tls_is_dispatch_key_excluded(c10::DispatchKey::AutogradFunctionality))
    return false;
  for (const OperandRef& ref : all_operands(call)) {
    if (operand(call, ref).requires_grad()) return true;
  }
  return false;
}

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

void answer(const Call& call, const Violation& violation, bool unseen) {
  if (policy() == Policy::kRaise) raise_violation(call, violation);
  if (unseen && is_recorded(call)) report_and_raise(call, violation);
  report_and_move(call, violation);
}

void worded_composite_kernel(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack* stack) {
  const OperatorPlan& plan = plan_of(op);
  is_unseen();
  const Call call{plan, op, *stack, stack->size() - plan.arguments.size()};
  if (policy() == Policy::kRaise && on_two_devices(call)) raise_in_own_words(call);
  op.callBoxedForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd, *stack);
}
void checked_composite_kernel(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack* stack) {
  const OperatorPlan& plan = plan_of(op);
  const bool unseen = is_unseen();
  const Call call{plan, op, *stack, stack->size() - plan.arguments.size()};
  Violation violation;
  if (find_violation(call, &violation)) answer(call, violation, unseen);
  op.callBoxedForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd, *stack);
}

}  // namespace locus::bridge
