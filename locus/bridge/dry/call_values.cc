// Operators whose results have as many elements as the values say: a stated choice, counted by line.
#include <ATen/EmptyTensor.h>
#include <ATen/ops/count_nonzero.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <algorithm>
#include <numeric>

#include "locus/bridge/door/check.h"
#include "locus/bridge/door/watch.h"
#include "locus/bridge/dry/call.h"
#include "locus/bridge/dry/endless.h"
#include "locus/bridge/dry/kinds.h"

namespace locus::bridge::dry {

using at::Tensor;
using c10::IValue;
using engine::MadeUpKind;
using Source = TensorGeometry::Source;

namespace {

bool is_mask(const Tensor& t) { return t.scalar_type() == at::kBool || t.scalar_type() == at::kByte; }

/// Counts a shape that is made up at the line that runs now.
void note_shape() {
  note(MadeUpKind::kShape);
  count_made_up(current_site(), "has made up", "shapes");
}

/// How many elements a mask selects: as many as its values say, where they are known.
std::int64_t selected(const Tensor& mask, std::int64_t possible) {
  switch (knowledge_of(mask)) {
    case Knowledge::kZeros:
      return 0;
    case Knowledge::kOnes:
      return possible;
    case Knowledge::kUnknown:
    case Knowledge::kLikely:
      note_shape();
      return made_up_count(possible);
    case Knowledge::kKnown:
      break;
  }
  c10::impl::ExcludeDispatchKeyGuard below(c10::autograd_dispatch_keyset_with_ADInplaceOrView |
                                           c10::DispatchKeySet(kCheckKey));
  const Tensor host = is_simulated(mask) ? host_alias(mask) : mask;
  const auto count = at::count_nonzero(host).item<std::int64_t>();
  return mask.numel() == 0 || possible == mask.numel() ? count : count * (possible / mask.numel());
}

TensorGeometry fresh(int index, c10::IntArrayRef sizes, at::ScalarType type) {
  TensorGeometry made;
  made.source = Source::kNew;
  made.index = index;
  made.type = type;
  made.sizes.append(sizes.begin(), sizes.end());
  made.strides.resize(sizes.size());
  std::int64_t step = 1;
  for (std::size_t i = sizes.size(); i-- > 0;) {
    made.strides[i] = step;
    step *= std::max<std::int64_t>(sizes[i], 1);
  }
  return made;
}

/// Whatever the strides: an expanded tensor, which fill_() refuses, too.
void fill_all(const Tensor& host, std::int32_t value) {
  auto* values = host.data_ptr<std::int32_t>();
  for (std::int64_t i = 0; i < host.numel(); ++i) {
    std::int64_t at = 0, rest = i;
    for (std::int64_t d = host.dim() - 1; d >= 0; --d) {
      at += rest % host.size(d) * host.stride(d);
      rest /= host.size(d);
    }
    values[at] = value;
  }
}

/// Different values below a bound: 0, 1, 2 … are as good as any, and fit to be indices.
void number_from_zero(const Tensor& t) {
  if (t.scalar_type() != at::kLong || !t.is_contiguous() || !is_simulated(t) ||
      !is_small(bytes_of_storage(t), at::kLong, /*on_host=*/false)) {
    return;
  }
  auto* values = host_alias(t).data_ptr<std::int64_t>();
  std::iota(values, values + t.numel(), std::int64_t{0});
  set_knowledge(t, Knowledge::kKnown);
}

}  // namespace

void Call::fill_unknown() const {
  for (const Tensor& t : operands_) {
    if (is_unknown(t) && t.layout() == c10::kStrided && t.is_non_overlapping_and_dense()) {
      fill_for_real(t, c10::isFloatingType(t.scalar_type()) ? at::Scalar(0.5) : at::Scalar(0));
    }
  }
}

void Call::make_pivots_valid() const {
  const auto& arguments = arguments_.op.schema().arguments();
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    IValue& given = arguments_.stack[arguments_.base + i];
    if (!std::string_view(arguments[i].name()).ends_with("pivots") || !given.isTensor()) continue;
    const Tensor pivots = given.toTensor();
    if (!pivots.defined() || pivots.scalar_type() != at::kInt || !is_unknown(pivots)) continue;
    if (is_simulated(pivots)) {
      fill_all(host_alias(pivots), 1);
    } else {  // the program's own tensor stays as it is: what was read of it may not change
      const Tensor valid = at::detail::empty_cpu(pivots.sizes(), at::kInt);
      fill_all(valid, 1);
      given = valid;
    }
  }
}

void Call::give(std::initializer_list<TensorGeometry> results) {
  Geometry geometry;
  for (const TensorGeometry& each : results) {
    geometry.storages.push_back(
        at::detail::computeStorageNbytes(each.sizes, each.strides, c10::elementSize(each.type)));
    geometry.types.push_back(each.type);
    ReturnGeometry returned;
    returned.tensors.push_back(each);
    geometry.returns.push_back(std::move(returned));
  }
  materialize(geometry, Knowledge::kUnknown);
}

Answer Call::answer_by_values() {
  const Tensor self = argument(0).toTensor();
  const std::int64_t numel = self.numel();
  const auto choose = [](std::int64_t possible) {
    note_shape();
    return made_up_count(possible);
  };
  switch (arguments_.plan.dry) {
    case Kind::kNonzero: {
      const std::int64_t count = selected(self, numel);
      TensorGeometry indices = fresh(0, {count, self.dim()}, at::kLong);
      give({indices});
      return Answer::kDone;
    }
    case Kind::kMaskedSelect: {
      const Tensor mask = argument(1).toTensor();
      std::int64_t possible = 1;
      for (const std::int64_t size : at::infer_size_dimvector(self.sizes(), mask.sizes())) possible *= size;
      give({fresh(0, {selected(mask, possible)}, self.scalar_type())});
      return Answer::kDone;
    }
    case Kind::kIndex:
      return answer_index(/*unknown=*/true);
    case Kind::kUnique: {
      const std::int64_t bound = bound_of(self), most = choose(numel), count = bound > 0 ? std::min(most, bound) : most;
      const bool inverse = argument(2).toBool() || argument(3).toBool(), counts = argument(3).toBool();
      give({fresh(0, {count}, self.scalar_type()),
            inverse ? fresh(1, self.sizes(), at::kLong) : fresh(1, {0}, at::kLong),
            fresh(2, {counts ? count : 0}, at::kLong)});
      if (bound > 0) number_from_zero(arguments_.stack[arguments_.base].toTensor());
      if (inverse) set_bound(arguments_.stack[arguments_.base + 1].toTensor(), count);
      return Answer::kDone;
    }
    case Kind::kUniqueAlong: {
      const std::int64_t dim = at::maybe_wrap_dim(argument(1).toInt(), self.dim());
      const std::int64_t possible = self.dim() == 0 ? 1 : self.size(dim), count = choose(possible);
      auto sizes = self.sizes().vec();
      if (!sizes.empty()) sizes[static_cast<std::size_t>(dim)] = count;
      give({fresh(0, sizes, self.scalar_type()), fresh(1, {possible}, at::kLong), fresh(2, {count}, at::kLong)});
      return Answer::kDone;
    }
    case Kind::kUniqueConsecutive: {
      const bool inverse = argument(1).toBool(), counts = argument(2).toBool();
      if (!argument(3).isNone()) {
        const std::int64_t dim = at::maybe_wrap_dim(argument(3).toInt(), self.dim());
        const std::int64_t count = choose(self.size(dim));
        auto sizes = self.sizes().vec();
        sizes[static_cast<std::size_t>(dim)] = count;
        give(
            {fresh(0, sizes, self.scalar_type()), fresh(1, {self.size(dim)}, at::kLong), fresh(2, {count}, at::kLong)});
        return Answer::kDone;
      }
      const std::int64_t count = choose(numel);
      give({fresh(0, {count}, self.scalar_type()),
            inverse ? fresh(1, self.sizes(), at::kLong) : fresh(1, {0}, at::kLong),
            fresh(2, {counts ? count : 0}, at::kLong)});
      return Answer::kDone;
    }
    case Kind::kBincount: {
      // Who says how many there are at least knows how many there are.
      const std::int64_t least = argument(2).toInt(), bound = bound_of(self), most = choose(numel);
      const std::int64_t chosen = bound > 0 ? std::min(most, bound) : most;
      const std::int64_t count = least > 0 && settings().shapes != Shapes::kMost ? least : std::max(least, chosen);
      const bool weighted = argument(1).isTensor() && argument(1).toTensor().defined();
      const auto type = !weighted                                            ? at::kLong
                        : argument(1).toTensor().scalar_type() == at::kFloat ? at::kFloat
                                                                             : at::kDouble;
      give({fresh(0, {count}, type)});
      return Answer::kDone;
    }
    case Kind::kRepeatInterleave: {
      const std::int64_t count =
          argument(1).isInt() ? argument(1).toInt() : std::max<std::int64_t>(choose(2 * numel), numel);
      give({fresh(0, {count}, self.scalar_type())});
      return Answer::kDone;
    }
    case Kind::kSuppression:
      give({fresh(0, {choose(self.size(0))}, at::kLong)});
      return Answer::kDone;
    default:
      return compute_unknown();
  }
}

/// Indexing: masks become as many indices as they select, and the shape rule does the rest.
Answer Call::answer_index(bool unknown) {
  const auto given = argument(1).toOptionalTensorList();
  bool masked = false;
  for (const std::optional<Tensor>& each : given)
    masked = masked || (each.has_value() && each->defined() && is_mask(*each));
  has_mask_ = masked;
  if (!masked) return answer_by_shape(unknown);
  if (!unknown) return Answer::kCompute;
  c10::List<std::optional<Tensor>> indices;
  for (const std::optional<Tensor>& each : given) {
    if (!each.has_value() || !each->defined() || !is_mask(*each)) {
      indices.push_back(each);
      continue;
    }
    const std::int64_t count = selected(*each, each->numel());
    for (std::int64_t dim = 0; dim < each->dim(); ++dim) {
      indices.push_back(std::optional<Tensor>(at::detail::empty_strided_meta({count}, {1}, at::kLong)));
    }
  }
  torch::jit::Stack stack{argument(0), IValue(std::move(indices))};
  const auto geometry = geometry_by(arguments_.op, std::move(stack));
  if (geometry == nullptr) return compute_unknown();
  materialize(*geometry, Knowledge::kUnknown);
  return Answer::kDone;
}

}  // namespace locus::bridge::dry
