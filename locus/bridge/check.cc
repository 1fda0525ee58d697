// See check.h.
#include "locus/bridge/check.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/op_registration/adaption.h>

namespace locus::bridge {
namespace {

using at::Tensor;
using c10::Device;
using c10::IValue;
using engine::ArgumentRule;
using engine::RuleKind;

/// Calls `visit(const Tensor&)` on each defined tensor of one argument, until it returns false.
template <class Visit>
bool each_tensor(ArgumentKind kind, const IValue& value, Visit&& visit) {
  if (kind == ArgumentKind::kTensor) {
    return !value.isTensor() || !value.toTensor().defined() || visit(value.toTensor());
  }
  if (kind == ArgumentKind::kTensorList && value.isTensorList()) {
    const auto list = value.toTensorList();
    for (size_t i = 0; i < list.size(); ++i) {
      const Tensor t = list.get(i);
      if (t.defined() && !visit(t)) return false;
    }
  } else if (kind == ArgumentKind::kOptionalTensorList && value.isOptionalTensorList()) {
    const auto list = value.toOptionalTensorList();
    for (size_t i = 0; i < list.size(); ++i) {
      const std::optional<Tensor> t = list.get(i);
      if (t.has_value() && t->defined() && !visit(*t)) return false;
    }
  }
  return true;
}

bool is_cpu_scalar(const Tensor& t) { return t.device().is_cpu() && t.dim() == 0; }

/// PyTorch names the generated wrapper in its message: wrapper_CUDA_mm, wrapper_CUDA_add_Tensor.
std::string wrapper_name(const c10::FunctionSchema& schema) {
  std::string name = "wrapper_CUDA_" + schema.operator_name().name.substr(6);
  if (!schema.overload_name().empty()) name += "_" + schema.overload_name();
  return name;
}

class Judge {
 public:
  Judge(const OperatorPlan& plan, const c10::OperatorHandle& op, const torch::jit::Stack& stack, size_t base)
      : plan_(plan), schema_(op.schema()), stack_(stack), base_(base) {}

  void judge() {
    for (size_t i = 0; i < plan_.arguments.size(); ++i) {
      if (plan_.rule.argument(static_cast<int>(i)) == ArgumentRule::kIndex) check_indices(i);
    }
    if (plan_.rule.kind == RuleKind::kExact) return exact();
    iterator();
  }

 private:
  template <class Visit>
  void each_ruled(Visit&& visit) {
    for (size_t i = 0; i < plan_.arguments.size(); ++i) {
      const ArgumentRule rule = plan_.rule.argument(static_cast<int>(i));
      if (rule == ArgumentRule::kFree || rule == ArgumentRule::kIndex || rule == ArgumentRule::kMustBeCpu) continue;
      each_tensor(plan_.arguments[i].kind, stack_[base_ + i], [&](const Tensor& t) {
        if (!(rule == ArgumentRule::kScalarOk && is_cpu_scalar(t))) visit(i, t);
        return true;
      });
    }
  }

  /// The check that PyTorch generates into the CUDA wrapper: the first operand sets the device.
  void exact() {
    std::optional<Device> common;
    each_ruled([&](size_t i, const Tensor& t) {
      if (!common.has_value()) {
        common = t.device();
      } else if (t.device() != *common) {
        c10::impl::common_device_check_failure(*common, t, wrapper_name(schema_).c_str(),
                                               schema_.arguments()[i].name().c_str());
      }
    });
  }

  /// TensorIterator's check: the first operand that is not on the CPU sets the device.
  void iterator() {
    Device common(c10::kCPU);
    each_ruled([&](size_t, const Tensor& t) {
      if (common.is_cpu() && !t.device().is_cpu()) common = t.device();
    });
    int scalars = 0;
    each_ruled([&](size_t i, const Tensor& t) {
      if (t.device() == common) return;
      if (plan_.rule.kind == RuleKind::kIteratorScalar && is_cpu_scalar(t) && !plan_.arguments[i].written) {
        TORCH_CHECK(++scalars == 1, "Trying to pass too many CPU scalars to non-CPU kernel!");
        return;
      }
      if (plan_.arguments[i].written && schema_.arguments()[i].kwarg_only()) {
        TORCH_CHECK(false, "Expected out tensor to have device ", common, ", but got ", t.device(), " instead");
      }
      TORCH_CHECK(false, "Expected all tensors to be on the same device, but found at least two devices, ", common, " and ",
                  t.device(), "!");
    });
  }

  void check_indices(size_t position) {
    const IValue& self = stack_[base_];
    if (!self.isTensor()) return;
    const Device home = self.toTensor().device();
    each_tensor(plan_.arguments[position].kind, stack_[base_ + position], [&](const Tensor& index) {
      TORCH_CHECK(index.device().is_cpu() || index.device() == home,
                  "indices should be either on cpu or on the same device as the indexed tensor (", home, ")");
      return true;
    });
  }

  const OperatorPlan& plan_;
  const c10::FunctionSchema& schema_;
  const torch::jit::Stack& stack_;
  size_t base_;
};

}  // namespace

void check_operands(const OperatorPlan& plan, const c10::OperatorHandle& op, const torch::jit::Stack& stack, size_t base) {
  if (plan.rule.kind == RuleKind::kAnywhere) return;
  std::optional<Device> first;
  bool mixed = false;
  for (size_t i = 0; i < plan.arguments.size() && !mixed; ++i) {
    if (plan.arguments[i].kind == ArgumentKind::kOther) continue;
    each_tensor(plan.arguments[i].kind, stack[base + i], [&](const Tensor& t) {
      if (!first.has_value()) first = t.device();
      mixed = t.device() != *first;
      return !mixed;
    });
  }
  if (mixed) Judge(plan, op, stack, base).judge();
}

}  // namespace locus::bridge
