// What follows though not all operands are known: flags that one side decides, and how many values an index can have.
#include <ATen/ops/count_nonzero.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <string_view>

#include "locus/bridge/door/check.h"
#include "locus/bridge/dry/call.h"
#include "locus/bridge/dry/kinds.h"

namespace locus::bridge::dry {

using at::Tensor;

namespace {

/// Tensors of more elements are not looked through for what they all are.
constexpr std::int64_t kLookedThrough = std::int64_t{1} << 20;

/// Whether every element is known to be zero, or not to be.
bool is_all(const Tensor& t, bool zero) {
  switch (knowledge_of(t)) {
    case Knowledge::kZeros:
      return zero;
    case Knowledge::kOnes:
      return !zero;
    case Knowledge::kUnknown:
    case Knowledge::kLikely:
      return false;
    case Knowledge::kKnown:
      break;
  }
  if (t.numel() == 0 || t.numel() > kLookedThrough) return false;
  c10::impl::ExcludeDispatchKeyGuard below(c10::autograd_dispatch_keyset_with_ADInplaceOrView |
                                           c10::DispatchKeySet(kCheckKey));
  const Tensor host = is_simulated(t) ? host_alias(t) : t;
  return at::count_nonzero(host).item<std::int64_t>() == (zero ? 0 : t.numel());
}

bool is_integral(const Tensor& t) { return c10::isIntegralType(t.scalar_type(), /*includeBool=*/true); }

}  // namespace

std::optional<Answer> Call::answer_decided() {
  const Kind kind = arguments_.plan.dry;
  if (kind != Kind::kAnd && kind != Kind::kOr && kind != Kind::kTimes && kind != Kind::kWhere) return std::nullopt;
  if (kind == Kind::kWhere) {
    const Tensor condition = argument(0).toTensor();
    const bool first = is_all(condition, /*zero=*/false);
    if (!first && !is_all(condition, /*zero=*/true)) return std::nullopt;
    const Tensor chosen = argument(first ? 1 : 2).toTensor();
    const Knowledge knowledge = knowledge_of(chosen);
    if (knowledge == Knowledge::kZeros || knowledge == Knowledge::kOnes) return answer_uniform(knowledge);
    if (knowledge != Knowledge::kKnown) return std::nullopt;
    key_ = key_of(arguments_);
    const auto geometry = geometry_of(arguments_, key_, operands_);
    // The bytes of the other side may be anything: none of them gets into the result.
    if (geometry == nullptr || !result_is_small(*geometry)) return std::nullopt;
    return Answer::kCompute;
  }
  const Tensor one = argument(0).toTensor(), other = argument(1).toTensor();
  const bool logical = std::string_view(arguments_.op.schema().name()).starts_with("aten::logical_");
  if (kind == Kind::kTimes && !(is_integral(one) && is_integral(other))) return std::nullopt;
  if (kind == Kind::kOr && !logical && (one.scalar_type() != at::kBool || other.scalar_type() != at::kBool)) {
    return std::nullopt;  // bits: 1 | x is not 1
  }
  const bool ones = kind == Kind::kOr;
  if (!is_all(one, !ones) && !is_all(other, !ones)) return std::nullopt;
  if (written_.empty()) return answer_uniform(ones ? Knowledge::kOnes : Knowledge::kZeros);
  key_ = key_of(arguments_);
  const auto geometry = geometry_of(arguments_, key_, operands_);
  if (geometry == nullptr) return std::nullopt;
  materialize(*geometry, Knowledge::kUnknown);
  for (const Tensor& t : written_) {
    if (covers_storage(t)) make_uniform(t, ones);
  }
  return Answer::kDone;
}

std::int64_t Call::bound_of_result() const {
  const Kind kind = arguments_.plan.dry;
  if (operands_.empty() || arguments_.op.schema().arguments().empty() || !argument(0).isTensor()) return 0;
  const Tensor self = argument(0).toTensor();
  const std::string_view name = arguments_.op.schema().name();
  if (kind == Kind::kIndicesOf) {
    for (std::size_t i = 1; i < arguments_.plan.arguments.size(); ++i) {
      if (arguments_.op.schema().arguments()[i].name() != "dim") continue;
      if (!argument(i).isInt()) break;
      return self.dim() == 0 ? 1 : self.size(at::maybe_wrap_dim(argument(i).toInt(), self.dim()));
    }
    return self.numel();
  }
  if (name == "aten::multinomial") return self.dim() == 0 ? 0 : self.size(-1);
  if (name == "aten::random_" && arguments_.plan.arguments.size() > 2 && covers_storage(self)) {
    const std::string_view overload = arguments_.op.schema().overload_name();
    if (overload == "to" && argument(1).isInt()) return argument(1).toInt();
    // torch.randint(0, n) and torch.randint(n)
    if (overload == "from" && argument(1).isInt() && argument(1).toInt() >= 0 && argument(2).isInt()) {
      return argument(2).toInt();
    }
    return 0;
  }
  // What is picked or copied from such values is one of them.
  return kind == Kind::kKeepsUniform || kind == Kind::kIndex ? bound_of(self) : 0;
}

void Call::keep_bound() {
  if (bound_ <= 0 || arguments_.stack.size() <= arguments_.base) return;
  const c10::IValue& last = arguments_.stack.back();
  if (last.isTensor()) set_bound(last.toTensor(), bound_);
}

}  // namespace locus::bridge::dry
