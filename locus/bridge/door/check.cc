// See check.h.
#include "locus/bridge/door/check.h"

#include <ATen/core/op_registration/adaption.h>

#include "locus/bridge/door/rules.h"
#include "locus/bridge/door/wording.h"
#include "locus/bridge/memory/memory.h"

namespace locus::bridge {
namespace {

using at::Tensor;
using c10::Device;
using c10::IValue;
using engine::ArgumentRule;
using engine::RuleKind;

/// Calls `visit(const Tensor&, element)` on each defined tensor of one argument, until it returns false.
template <class Visit>
bool each_tensor(ArgumentKind kind, const IValue& value, Visit&& visit) {
  if (kind == ArgumentKind::kTensor) {
    return !value.isTensor() || !value.toTensor().defined() || visit(value.toTensor(), -1);
  }
  if (kind == ArgumentKind::kTensorList && value.isTensorList()) {
    const auto list = value.toTensorList();
    for (size_t i = 0; i < list.size(); ++i) {
      const Tensor& t = list.get(i);  // lives as long as the reference
      if (t.defined() && !visit(t, static_cast<int>(i))) return false;
    }
  } else if (kind == ArgumentKind::kOptionalTensorList && value.isOptionalTensorList()) {
    const auto list = value.toOptionalTensorList();
    for (size_t i = 0; i < list.size(); ++i) {
      const std::optional<Tensor> t = list.get(i);
      if (t.has_value() && t->defined() && !visit(*t, static_cast<int>(i))) return false;
    }
  }
  return true;
}

bool is_cpu_scalar(const Tensor& t) { return t.device().is_cpu() && t.dim() == 0; }

class Judge {
 public:
  explicit Judge(const Call& call)
      : call_(call), plan_(call.plan), schema_(call.op.schema()), stack_(call.stack), base_(call.base) {}

  bool judge(Violation* violation) {
    return wrong_index(violation) || wrong_lengths(violation) || wrong_devices(violation);
  }

  /// Raises for wrong_devices() in PyTorch's words.
  [[noreturn]] void raise_devices() {
    raise_in_own_words(call_);
    if (plan_.rule.kind == RuleKind::kExact) raise_exact();
    raise_iterator();
  }

 private:
  /// Results that are given by out= come first, as in PyTorch's checks.
  template <class Visit>
  void each_ruled(Visit&& visit) {
    for (const bool results : {true, false}) each_ruled_of(results, visit);
  }
  template <class Visit>
  void each_ruled_of(bool results, Visit&& visit) {
    for (size_t i = 0; i < plan_.arguments.size(); ++i) {
      if ((plan_.arguments[i].written && schema_.arguments()[i].kwarg_only()) != results) continue;
      const ArgumentRule rule = plan_.rule.argument(static_cast<int>(i));
      if (rule == ArgumentRule::kFree || rule == ArgumentRule::kIndex || rule == ArgumentRule::kMustBeCpu) continue;
      each_tensor(plan_.arguments[i].kind, stack_[base_ + i], [&](const Tensor& t, int element) {
        if (!t.device().is_meta() && !(rule == ArgumentRule::kScalarOk && is_cpu_scalar(t))) {
          visit(OperandRef{static_cast<int>(i), element}, t);
        }
        return true;
      });
    }
  }

  /// TensorIterator lets one 0-dim CPU tensor stand among CUDA tensors, unless it is an output.
  bool may_stand_among(OperandRef ref, const Tensor& t) const {
    if (plan_.rule.argument(ref.argument) == ArgumentRule::kRealScalar && among_complex()) return false;
    return plan_.rule.kind == RuleKind::kIteratorScalar && is_cpu_scalar(t) && !plan_.arguments[ref.argument].written;
  }

  bool among_complex() const {
    for (size_t i = 0; i < plan_.arguments.size(); ++i) {
      const IValue& value = stack_[base_ + i];
      if (value.isTensor() && value.toTensor().defined() && value.toTensor().is_complex()) return true;
    }
    return false;
  }

  bool wrong_devices(Violation* violation) {
    Device common(c10::kCPU);
    each_ruled([&](OperandRef, const Tensor& t) {
      if (common.is_cpu() && t.device().is_cuda()) common = t.device();
    });
    int scalars = 0;
    each_ruled([&](OperandRef ref, const Tensor& t) {
      if (t.device() == common) return;
      if (may_stand_among(ref, t) && ++scalars == 1) return;
      violation->odd.push_back(ref);
    });
    violation->kind = Violation::Kind::kDevices;
    violation->device = common;
    return !violation->odd.empty();
  }

  bool wrong_index(Violation* violation) {
    for (size_t i = 0; i < plan_.arguments.size(); ++i) {
      if (plan_.rule.argument(static_cast<int>(i)) != ArgumentRule::kIndex || !stack_[base_].isTensor()) continue;
      const Device home = stack_[base_].toTensor().device();
      each_tensor(plan_.arguments[i].kind, stack_[base_ + i], [&](const Tensor& index, int element) {
        if (!index.device().is_cpu() && index.device() != home) {
          violation->odd.push_back({static_cast<int>(i), element});
        }
        return true;
      });
      violation->kind = Violation::Kind::kIndex;
      violation->device = home;
    }
    return !violation->odd.empty();
  }

  bool wrong_lengths(Violation* violation) {
    for (size_t i = 0; i < plan_.arguments.size(); ++i) {
      if (plan_.rule.argument(static_cast<int>(i)) != ArgumentRule::kMustBeCpu) continue;
      each_tensor(plan_.arguments[i].kind, stack_[base_ + i], [&](const Tensor& t, int element) {
        if (t.device().is_cuda()) violation->odd.push_back({static_cast<int>(i), element});
        return true;
      });
    }
    violation->kind = Violation::Kind::kMustBeCpu;
    violation->device = Device(c10::kCPU);
    return !violation->odd.empty();
  }

  /// The check that PyTorch generates into the CUDA wrapper: the first operand sets the device.
  [[noreturn]] void raise_exact() {
    std::optional<Device> common;
    each_ruled([&](OperandRef ref, const Tensor& t) {
      if (!common.has_value()) {
        common = t.device();
      } else if (t.device() != *common) {
        c10::impl::common_device_check_failure(*common, t, wrapper_name(schema_).c_str(),
                                               schema_.arguments()[ref.argument].name().c_str());
      }
    });
    raise_iterator();
  }

  /// Shape functions of other kinds (reductions, scans) meet the output by itself, before the kernel.
  void raise_output() {
    std::optional<Device> home;
    each_ruled_of(false, [&](OperandRef, const Tensor& t) {
      if (!home.has_value()) home = t.device();
    });
    each_ruled_of(true, [&](OperandRef, const Tensor& t) {
      if (!home.has_value() || t.device() == *home) return;
      TORCH_CHECK(!home->is_cpu(), "CUDAGuardImpl initialized with non-CUDA DeviceType: cpu");
      TORCH_CHECK(false, "Expected out tensor to have device ", *home, ", but got ", t.device(), " instead");
    });
  }

  /// TensorIterator's check: the first operand that is not on the CPU sets the device.
  [[noreturn]] void raise_iterator() {
    if (plan_.sets_output_first) raise_output();
    Device common(c10::kCPU);
    each_ruled([&](OperandRef, const Tensor& t) {
      if (common.is_cpu() && !t.device().is_cpu()) common = t.device();
    });
    int scalars = 0;
    each_ruled([&](OperandRef ref, const Tensor& t) {
      if (t.device() == common) return;
      if (may_stand_among(ref, t)) {
        TORCH_CHECK(++scalars == 1, "Trying to pass too many CPU scalars to non-CPU kernel!");
        return;
      }
      TORCH_CHECK(false, "Expected all tensors to be on the same device, but found at least two devices, ", common,
                  " and ", t.device(), "!");
    });
    TORCH_CHECK(false, "Expected all tensors to be on the same device");
  }

  const Call& call_;
  const OperatorPlan& plan_;
  const c10::FunctionSchema& schema_;
  const torch::jit::Stack& stack_;
  size_t base_;
};

}  // namespace

bool on_two_devices(const Call& call) {
  std::optional<Device> home;
  for (const std::uint16_t i : call.plan.holders) {
    const bool same = each_tensor(call.plan.arguments[i].kind, call.stack[call.base + i], [&](const Tensor& t, int) {
      const Device device = t.device();
      if (!home.has_value()) home = device;
      return device == *home;
    });
    if (!same) return true;
  }
  return false;
}

bool find_violation(const Call& call, Violation* violation) {
  if (call.plan.rule.kind == RuleKind::kAnywhere && call.plan.rule.arguments == 0) return false;
  if (!on_two_devices(call) && !has_cpu_argument(call.plan)) return false;
  Judge judge(call);
  if (call.plan.rule.kind != RuleKind::kAnywhere) return judge.judge(violation);
  Judge only_arguments(call);
  return only_arguments.judge(violation) && violation->kind != Violation::Kind::kDevices;
}

void raise_violation(const Call& call, const Violation& violation) {
  const Tensor odd = operand(call, violation.odd.front());
  const auto type_name = [](Device device) { return c10::DeviceTypeName(device.type(), /*lower_case=*/true); };
  switch (violation.kind) {
    case Violation::Kind::kIndex:
      TORCH_CHECK(false, "indices should be either on cpu or on the same device as the indexed tensor (",
                  violation.device, ")");
    case Violation::Kind::kMustBeCpu:
      TORCH_CHECK(false, "'lengths' argument should be a 1D CPU int64 tensor, but got ", std::to_string(odd.dim()),
                  "D ", odd.device(), " ", odd.scalar_type(), " tensor");
    case Violation::Kind::kGenerator:
      TORCH_CHECK(false, "Expected a '", type_name(violation.device), "' device type for generator but found '",
                  type_name(call.stack[call.base + call.plan.generator].toGenerator().device()), "'");
    default:
      Judge(call).raise_devices();
  }
}

std::string violation_message(const Call& call, const Violation& violation) {
  try {
    raise_violation(call, violation);
  } catch (const c10::Error& error) {
    const std::string text = error.what_without_backtrace();
    return text.substr(0, text.find('\n'));
  }
}

Tensor operand(const Call& call, OperandRef ref) {
  const IValue& value = call.stack[call.base + ref.argument];
  if (value.isTensor()) return value.toTensor();
  if (value.isTensorList()) return value.toTensorList().get(ref.element);
  if (value.isOptionalTensorList()) {
    const std::optional<Tensor> t = value.toOptionalTensorList().get(ref.element);
    return t.has_value() ? *t : Tensor();
  }
  return Tensor();
}

c10::SmallVector<OperandRef, 8> all_operands(const Call& call) {
  c10::SmallVector<OperandRef, 8> refs;
  for (size_t i = 0; i < call.plan.arguments.size(); ++i) {
    each_tensor(call.plan.arguments[i].kind, call.stack[call.base + i], [&](const Tensor&, int element) {
      refs.push_back({static_cast<int>(i), element});
      return true;
    });
  }
  return refs;
}

}  // namespace locus::bridge
