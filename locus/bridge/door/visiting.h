// The tensors of an argument, one after another.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <optional>
#include <utility>

#include "locus/bridge/kernels/plan.h"

namespace locus::bridge {

/// Calls `visit(Tensor&)` on each defined tensor of an argument; a true return value writes the tensor back.
template <class Visit>
void visit_tensors(ArgumentKind kind, c10::IValue& value, Visit&& visit) {
  if (kind == ArgumentKind::kTensor) {
    if (!value.isTensor()) return;
    at::Tensor t = std::move(value).toTensor();
    if (t.defined()) visit(t);
    value = std::move(t);
  } else if (kind == ArgumentKind::kTensorList) {
    if (!value.isTensorList()) return;
    c10::List<at::Tensor> fresh;
    auto list = std::move(value).toTensorList();
    fresh.reserve(list.size());
    for (size_t i = 0; i < list.size(); ++i) {
      at::Tensor t = list.get(i);
      if (t.defined()) visit(t);
      fresh.push_back(std::move(t));
    }
    value = std::move(fresh);
  } else if (kind == ArgumentKind::kOptionalTensorList) {
    if (!value.isOptionalTensorList()) return;
    c10::List<std::optional<at::Tensor>> fresh;
    auto list = std::move(value).toOptionalTensorList();
    fresh.reserve(list.size());
    for (size_t i = 0; i < list.size(); ++i) {
      std::optional<at::Tensor> t = list.get(i);
      if (t.has_value() && t->defined()) visit(*t);
      fresh.push_back(std::move(t));
    }
    value = std::move(fresh);
  }
}

/// Calls `visit(const Tensor&)` on each defined tensor of a value.
template <class Visit>
void look_at_tensors(const c10::IValue& value, Visit&& visit) {
  if (value.isTensor()) {
    if (value.toTensor().defined()) visit(value.toTensor());
  } else if (value.isTensorList()) {
    for (const at::Tensor& t : value.toTensorVector()) {
      if (t.defined()) visit(t);
    }
  }
}

}  // namespace locus::bridge
