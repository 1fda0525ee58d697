// See repair.h. Runs only where a rule is broken.
#include "locus/bridge/door/repair.h"

#include <ATen/autocast_mode.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/custom_function.h>

#include "locus/bridge/door/watch.h"

namespace locus::bridge {
namespace {

using at::Tensor;
using c10::Device;
using c10::IValue;

/// Puts a tensor into an argument. Lists are made anew: the caller's must not change.
void replace_operand(const Call& call, OperandRef ref, Tensor&& t) {
  IValue& value = call.stack[call.base + ref.argument];
  if (value.isTensor()) {
    value = std::move(t);
  } else if (value.isTensorList()) {
    auto list = value.toTensorList().copy();
    list.set(ref.element, std::move(t));
    value = std::move(list);
  } else if (value.isOptionalTensorList()) {
    auto list = value.toOptionalTensorList().copy();
    list.set(ref.element, std::optional<Tensor>(std::move(t)));
    value = std::move(list);
  }
}

/// The type that autocast would have given an operand, had it been on the card with the others: where an operator takes
/// one type only, and comes out of autocast. From outside it shows in nothing but the types.
std::optional<at::ScalarType> type_by_autocast(const Call& call, const Tensor& t, Device target) {
  if (call.plan.rule.kind != engine::RuleKind::kExact || !target.is_cuda() || t.scalar_type() != at::kFloat) return {};
  at::autocast::increment_nesting();
  if (at::autocast::decrement_nesting() == 0) return {};
  const at::ScalarType low = at::autocast::get_autocast_dtype(c10::kCUDA);
  for (const OperandRef& ref : all_operands(call)) {
    const Tensor other = operand(call, ref);
    if (other.device().is_cuda() && other.scalar_type() == low) return low;
  }
  return {};
}

/// A move whose gradient may be sparse: that of .to() is for dense ones only, and raises.
struct MoveWithSparseGradient : torch::autograd::Function<MoveWithSparseGradient> {
  static Tensor forward(torch::autograd::AutogradContext* context, const Tensor& t, Device wanted) {
    context->saved_data["from"] = t.device();
    return t.to(wanted);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    return {gradients[0].to(context->saved_data["from"].toDevice()), Tensor()};
  }
};

/// `embedding(weight, indices, sparse=True)`, `gather(x, 1, index, sparse_grad=True)`.
bool gives_sparse_gradients(const Call& call) {
  for (size_t i = 0; i < call.plan.arguments.size(); ++i) {
    const std::string& name = call.op.schema().arguments()[i].name();
    const IValue& value = call.stack[call.base + i];
    if ((name == "sparse" || name == "sparse_grad") && value.isBool() && value.toBool()) return true;
  }
  return false;
}

Tensor moved(const Call& call, const Tensor& t, Device wanted) {
  if (t.requires_grad() && at::GradMode::is_enabled() && gives_sparse_gradients(call)) {
    return MoveWithSparseGradient::apply(t, wanted);
  }
  const auto type = type_by_autocast(call, t, wanted);
  return type.has_value() ? t.to(wanted, *type) : t.to(wanted);
}

}  // namespace

void move_operands(const Call& call, const Violation& violation, Device target) {
  if (violation.kind == Violation::Kind::kGenerator) {
    call.stack[call.base + call.plan.generator] = IValue();
    return;
  }
  const MovingScope moving;
  // In place and out=: the operand that is written decides, or nothing would be written.
  for (const OperandRef& ref : all_operands(call)) {
    if (call.plan.arguments[ref.argument].written && violation.kind != Violation::Kind::kMustBeCpu) {
      target = operand(call, ref).device();
      break;
    }
  }
  if (violation.kind == Violation::Kind::kIndex && target != violation.device && call.stack[call.base].isTensor() &&
      !call.plan.arguments[0].written) {
    return replace_operand(call, {0, -1}, operand(call, {0, -1}).to(target));  // the table is what is wrong
  }
  for (const OperandRef& ref : all_operands(call)) {
    const auto rule = call.plan.rule.argument(ref.argument);
    const bool must_be_cpu = rule == engine::ArgumentRule::kMustBeCpu;
    if (call.plan.arguments[ref.argument].written || rule == engine::ArgumentRule::kFree) continue;
    const Tensor t = operand(call, ref);
    const Device wanted = must_be_cpu ? Device(c10::kCPU) : target;
    if (t.device() == wanted || t.device().is_meta() || (t.dim() == 0 && t.device().is_cpu() && !must_be_cpu)) continue;
    if (violation.kind == Violation::Kind::kIndex && rule != engine::ArgumentRule::kIndex && ref.argument != 0)
      continue;
    if (violation.kind == Violation::Kind::kMustBeCpu && !must_be_cpu) continue;
    replace_operand(call, ref, moved(call, t, wanted));
  }
  if (call.plan.rule.kind != engine::RuleKind::kExact) return;
  // Where PyTorch wants 0-dim tensors on the device too.
  for (const OperandRef& ref : violation.odd) {
    const Tensor t = operand(call, ref);
    if (t.dim() == 0 && t.device() != target && !call.plan.arguments[ref.argument].written) {
      replace_operand(call, ref, t.to(target));
    }
  }
}

Averages::Averages(const Call& call) : call_(call) {
  for (size_t i = 0; i < call.plan.arguments.size(); ++i) {
    const IValue& value = call.stack[call.base + i];
    if (call.op.schema().arguments()[i].name().compare(0, 8, "running_") != 0 || !value.isTensor()) continue;
    if (value.toTensor().defined()) given_.emplace_back(i, value.toTensor());
  }
}

void Averages::compare() {
  for (const auto& [i, t] : given_) {
    const Tensor& now = call_.stack[call_.base + i].toTensor();
    if (!now.is_same(t)) moved_.emplace_back(t, now);
  }
}

void Averages::bring_back() const {
  const at::NoGradGuard unrecorded;
  const MovingScope moving;
  for (const auto& [given, written] : moved_) given.copy_(written);
}

}  // namespace locus::bridge
