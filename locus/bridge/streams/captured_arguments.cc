// See captured_arguments.h.
#include "locus/bridge/streams/captured_arguments.h"

#include <array>
#include <cstdio>
#include <optional>
#include <utility>

#include "locus/bridge/memory/library_handles.h"
#include "locus/bridge/memory/memory.h"
#include "locus/bridge/state.h"

namespace locus::bridge {

using at::Tensor;
using c10::IValue;
using torch::jit::Stack;

int device_of(const OperatorPlan& plan, const Stack& stack, size_t base) {
  for (size_t i = 0; i < plan.arguments.size(); ++i) {
    const IValue& value = stack[base + i];
    if (value.isTensor() && value.toTensor().defined() && value.toTensor().is_cuda()) {
      return value.toTensor().device().index();
    }
    if (value.isDevice() && value.toDevice().is_cuda()) return resolve_device(value.toDevice());
    if (!value.isTensorList()) continue;
    for (const Tensor& t : value.toTensorVector()) {
      if (t.defined() && t.is_cuda()) return t.device().index();
    }
  }
  return t_current_device;
}

bool waits_for_mask(const OperatorPlan& plan, const Stack& stack, size_t base) {
  for (size_t i = 0; i < plan.arguments.size(); ++i) {
    if (plan.arguments[i].kind != ArgumentKind::kOptionalTensorList || !stack[base + i].isOptionalTensorList())
      continue;
    for (const std::optional<Tensor>& t : stack[base + i].toOptionalTensorVector()) {
      if (!t.has_value() || !t->defined()) continue;
      if (t->scalar_type() != at::kBool && t->scalar_type() != at::kByte) continue;
      const bool one_value = plan.arguments[0].written && stack.size() > base + i + 1 &&
                             stack[base + i + 1].isTensor() && stack[base + i + 1].toTensor().numel() == 1;
      return !one_value;
    }
  }
  return false;
}

std::string numbers_of(const c10::OperatorHandle& op, const Stack& stack, size_t base) {
  const auto number_in = [](const IValue& value) -> std::optional<double> {
    if (value.isDouble()) return value.toDouble();
    if (value.isInt()) return static_cast<double>(value.toInt());
    if (!value.isTensor() || !value.toTensor().defined()) return std::nullopt;
    const Tensor& t = value.toTensor();
    if (!t.unsafeGetTensorImpl()->is_wrapped_number() || !t.device().is_cpu()) return std::nullopt;
    if (t.scalar_type() == at::kDouble) return *t.const_data_ptr<double>();
    if (t.scalar_type() == at::kLong) return static_cast<double>(*t.const_data_ptr<int64_t>());
    return std::nullopt;
  };
  std::string numbers;
  const auto& arguments = op.schema().arguments();
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::optional<double> number = number_in(stack[base + i]);
    if (!number.has_value()) continue;
    const std::optional<IValue>& usual = arguments[i].default_value();
    if (usual.has_value() && number_in(*usual) == number) continue;
    std::array<char, 40> text{};
    std::snprintf(text.data(), text.size(), "%s%.17g", numbers.empty() ? "" : " ", *number);
    numbers += text.data();
  }
  return numbers;
}

sim::LibraryWords refused_for_library(const OperatorPlan& plan, const Stack& stack, size_t base, int device,
                                      bool forbids_set_up) {
  const sim::LibraryUse& use = plan.libraries;
  if (!use.first.has_value() || in_uncounted_scope()) return {};
  bool is_first = true;
  for (size_t i = 0; i < plan.arguments.size(); ++i) {
    const IValue& value = stack[base + i];
    if (!value.isTensor() || !value.toTensor().defined() || plan.arguments[i].written) continue;
    const Tensor& t = value.toTensor();
    if (t.layout() != at::kStrided || t.numel() == 0) return {};
    if (std::exchange(is_first, false) && use.one_matrix && t.dim() != 2) return {};
  }
  if (forbids_set_up && !has_library_handle(*use.first, device)) return sim::library_words(*use.first);
  return use.never_captured;
}

}  // namespace locus::bridge
