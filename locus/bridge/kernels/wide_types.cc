// See wide_types.h.
#include "locus/bridge/kernels/wide_types.h"

#include <algorithm>
#include <span>

#include "locus/bridge/kernels/plan.h"

namespace locus::bridge {

using at::ScalarType;
using at::Tensor;

namespace {

// PyTorch's own lists of types by device (torch.testing's operator database) differ in these.
// clang-format off
constexpr std::string_view kInHalf[] = {
    "rrelu_with_noise", "rrelu_with_noise_", "rrelu_with_noise_backward", "round", "round_", "polygamma", "polygamma_",
    "_fft_c2c", "_fft_r2c", "_fft_c2r",
};
constexpr std::string_view kInBothHalves[] = {
    "avg_pool3d", "avg_pool3d_backward", "multi_margin_loss", "multi_margin_loss_backward",
    "multilabel_margin_loss_forward", "multilabel_margin_loss_backward", "_upsample_bilinear2d_aa",
    "_upsample_bilinear2d_aa_backward",
};
// clang-format on
constexpr std::string_view kInIntegers[] = {"histc"};

bool names(std::span<const std::string_view> list, std::string_view name) {
  return std::ranges::find(list, name) != list.end();
}

ScalarType wider(WideTypes types, ScalarType type) {
  if (types == WideTypes::kIntegers) return c10::isIntegralType(type, /*includeBool=*/false) ? at::kDouble : type;
  if (type == at::kHalf || (type == at::kBFloat16 && types == WideTypes::kBothHalves)) return at::kFloat;
  return type == at::kComplexHalf ? at::kComplexFloat : type;
}

}  // namespace

WideTypes wide_types_of(std::string_view name) {
  if (name.substr(0, 6) != "aten::") return WideTypes::kNone;
  name = name.substr(6, name.find('.') == std::string_view::npos ? std::string_view::npos : name.find('.') - 6);
  if (names(kInHalf, name)) return WideTypes::kHalf;
  if (names(kInBothHalves, name)) return WideTypes::kBothHalves;
  if (names(kInIntegers, name)) return WideTypes::kIntegers;
  return WideTypes::kNone;
}

WideCall::WideCall(const OperatorPlan& plan, torch::jit::Stack& stack, size_t base) {
  for (size_t i = 0; i < plan.arguments.size(); ++i) {
    if (plan.arguments[i].kind != ArgumentKind::kTensor || !stack[base + i].isTensor()) continue;
    const Tensor given = stack[base + i].toTensor();
    if (!given.defined() || given.layout() != c10::kStrided) continue;
    const ScalarType type = wider(plan.wide_types, given.scalar_type());
    if (type == given.scalar_type()) continue;
    if (narrow_ == ScalarType::Undefined) narrow_ = c10::toRealValueType(given.scalar_type());
    Tensor wide = given.to(type);
    if (plan.arguments[i].written) written_.push_back({given, wide});
    stack[base + i] = std::move(wide);
  }
}

void WideCall::finish(torch::jit::Stack& stack, size_t returns) {
  if (narrow_ == ScalarType::Undefined) return;
  for (const Written& each : written_) {
    if (each.given.sizes() != each.wide.sizes()) each.given.resize_(each.wide.sizes());
    each.given.copy_(each.wide);
  }
  for (size_t i = stack.size() - returns; i < stack.size(); ++i) {
    if (!stack[i].isTensor()) continue;
    const Tensor result = stack[i].toTensor();
    if (!result.defined()) continue;
    const auto same = std::ranges::find_if(written_, [&](const Written& each) { return each.wide.is_same(result); });
    if (same != written_.end()) {
      stack[i] = same->given;
    } else if (result.scalar_type() == at::kFloat || result.scalar_type() == at::kDouble) {
      stack[i] = result.to(narrow_);
    } else if (result.scalar_type() == at::kComplexFloat) {
      stack[i] = result.to(at::kComplexHalf);
    }
  }
}

}  // namespace locus::bridge
