// See call.h.
#include "locus/bridge/dry/call.h"

#include <ATen/EmptyTensor.h>
#include <ATen/core/enum_tag.h>
#include <c10/core/CPUAllocator.h>

#include <algorithm>
#include <atomic>

#include "locus/bridge/dry/kinds.h"
#include "locus/bridge/dry/memory.h"
#include "locus/bridge/memory/scratch.h"

namespace locus::bridge::dry {

using at::Tensor;
using c10::IValue;
using engine::MadeUpKind;
using Source = TensorGeometry::Source;

namespace {

/// Random numbers up to so many bytes at a time, and in all, are drawn for real, so that generators go on as with
/// values.
constexpr std::size_t kDrawnAtOnce = std::size_t{8} << 20, kDrawnInAll = std::size_t{256} << 20;
std::atomic<std::size_t> g_drawn{0};
/// Operators without a shape rule are computed on operands up to this size.
constexpr std::size_t kComputedAtMost = std::size_t{2} << 30;

std::size_t bytes_of(const Operands& operands) {
  std::size_t sum = 0;
  for (const Tensor& t : operands) sum += t.layout() == c10::kStrided ? t.nbytes() : 0;
  return sum;
}

IValue twin_of_result(const ReturnGeometry& returned) {
  if (returned.other.has_value() || returned.is_list || returned.tensors[0].source == Source::kNone) return {};
  const TensorGeometry& each = returned.tensors[0];
  return at::detail::empty_strided_meta(each.sizes, each.strides, each.type);
}

/// The tensors in a result, lists of lists too, are unknown.
void forget(const IValue& value) {
  if (value.isTensor()) set_knowledge(value.toTensor(), Knowledge::kUnknown);
  if (!value.isList()) return;
  for (const IValue& each : value.toListRef()) forget(each);
}

}  // namespace

bool Call::has_unknown_input() const {
  const auto& schema = arguments_.op.schema();
  for (const std::uint16_t i : arguments_.plan.holders) {
    if (schema.arguments()[i].is_out()) continue;  // what is there is not read
    const IValue& value = argument(i);
    if (value.isTensor()) {
      if (is_unknown(value.toTensor())) return true;
    } else if (value.isTensorList()) {
      for (const auto& each : value.toTensorList()) {
        if (is_unknown(Tensor(each))) return true;
      }
    } else if (value.isOptionalTensorList()) {
      for (const std::optional<Tensor>& each : value.toOptionalTensorList()) {
        if (each.has_value() && is_unknown(*each)) return true;
      }
    }
  }
  return false;
}

bool Call::result_is_small(const Geometry& geometry) const {
  for (std::size_t i = 0; i < geometry.storages.size(); ++i) {
    if (!is_small(geometry.storages[i], geometry.types[i], device_ < 0)) return false;
  }
  return std::ranges::all_of(
      geometry.resized, [&](const ResizedOperand& each) { return is_small(each.bytes, each.after.type, device_ < 0); });
}

Answer Call::answer() {
  const Answer answer = decide();
  if (answer == Answer::kDone) keep_bound();
  return answer;
}

Answer Call::decide() {
  const OperatorPlan& plan = arguments_.plan;
  operands_ = operands_of(arguments_);
  TORCH_CHECK_NOT_IMPLEMENTED(plan.dry != Kind::kRefused, "locus: the operator '", plan.name,
                              "' can't be dry: it takes values for addresses. Run without --dry, or guard this part.");
  for (const Tensor& t : operands_) {
    if (is_plain_for_dry(t)) continue;
    // Shape rules do not speak of sparse and nested tensors: they are computed, on indices that are in range.
    bool unknown = has_unknown_input();
    for (const Tensor& each : operands_) unknown = make_parts_harmless(each) || unknown;
    learns_ = false;
    return unknown ? compute_unknown() : Answer::kCompute;
  }
  for (std::size_t i = 0; i < plan.arguments.size(); ++i) {
    if (!plan.arguments[i].written) continue;
    if (argument(i).isTensor()) written_.push_back(argument(i).toTensor());
    if (argument(i).isTensorList()) {
      for (const auto& each : argument(i).toTensorList()) written_.push_back(Tensor(each));
    }
  }
  bound_ = bound_of_result();
  if (plan.dry == Kind::kFill || plan.dry == Kind::kOverwrites) return answer_overwrite();
  const bool unknown = has_unknown_input();
  if (plan.dry == Kind::kCollective) {  // of host tensors: the bytes travel, and the others wait for them
    learns_ = false;
    return unknown ? compute_unknown(/*quietly=*/true) : Answer::kCompute;
  }
  if (unknown) {
    if (const auto decided = answer_decided()) return *decided;
    switch (plan.dry) {
      case Kind::kReadsValue: {
        const Tensor t = argument(0).toTensor();
        const Knowledge knowledge = knowledge_of(t);
        if (knowledge == Knowledge::kUnknown || knowledge == Knowledge::kLikely) note_value_read();
        if (device_ < 0 && is_small(bytes_of_storage(t), t.scalar_type(), true) &&
            !answer_for_this_line().has_value()) {
          return Answer::kCompute;  // made up when it came to the host
        }
        const bool answered = knowledge == Knowledge::kLikely && answer_for_this_line().has_value();
        const at::Scalar value = knowledge == Knowledge::kZeros                 ? at::Scalar(0)
                                 : knowledge == Knowledge::kUnknown || answered ? made_up_value(t.scalar_type())
                                                                                : at::Scalar(1);
        arguments_.stack.resize(arguments_.base);
        arguments_.stack.emplace_back(as_read(value, t.scalar_type()));
        return Answer::kDone;
      }
      case Kind::kEqual: {
        const bool same = argument(0).toTensor().sizes() == argument(1).toTensor().sizes() &&
                          argument(0).toTensor().is_alias_of(argument(1).toTensor());
        if (!same) note_value_read();
        arguments_.stack.resize(arguments_.base);
        arguments_.stack.emplace_back(same);
        return Answer::kDone;
      }
      case Kind::kNothing:
        arguments_.stack.resize(arguments_.base);
        return Answer::kDone;
      case Kind::kUnscale:
        arguments_.stack.resize(arguments_.base);
        for (const Tensor& t : operands_) {
          if (is_unknown(t)) t.unsafeGetTensorImpl()->bump_version();
        }
        return Answer::kDone;
      case Kind::kAllFalse:
        return answer_uniform(Knowledge::kZeros);
      case Kind::kAllTrue:
        return answer_uniform(Knowledge::kOnes);
      case Kind::kKeepsUniform:
      case Kind::kAll:
      case Kind::kNegates: {
        Knowledge knowledge = knowledge_of(operands_[0]);
        if (knowledge == Knowledge::kUnknown && plan.dry == Kind::kAll) knowledge = Knowledge::kLikely;
        if (knowledge == Knowledge::kLikely && plan.dry == Kind::kNegates) break;
        if (operands_.size() != 1 || knowledge == Knowledge::kUnknown) break;
        if (plan.dry == Kind::kNegates) {
          knowledge = knowledge == Knowledge::kZeros ? Knowledge::kOnes : Knowledge::kZeros;
        }
        if (operands_[0].numel() != 0) return answer_uniform(knowledge);
        break;
      }
      default:
        break;
    }
  }
  const bool reads = plan.dry == Kind::kReadsValue || plan.dry == Kind::kEqual || plan.dry == Kind::kNothing;
  if (!unknown && reads) return Answer::kCompute;
  if (plan.dry >= Kind::kNonzero && plan.dry < Kind::kRefused) {
    if (!unknown) {
      learns_ = false;
      return plan.dry == Kind::kIndex ? answer_index(false) : Answer::kCompute;
    }
    return answer_by_values();
  }
  if (plan.elementwise_list) return answer_list(unknown);
  return answer_by_shape(unknown);
}

Answer Call::answer_by_shape(bool unknown) {
  const OperatorPlan& plan = arguments_.plan;
  // Small host tensors have bytes, if only made-up ones: what is computed from them agrees with them.
  if (device_ < 0 && unknown && !operands_.empty() &&
      std::ranges::all_of(
          operands_, [](const Tensor& t) { return is_small(bytes_of_storage(t), t.scalar_type(), true); })) {
    learns_ = false;
    return compute_unknown(/*quietly=*/true);
  }
  if (!unknown && returns_only_operands(plan) && written_fits()) return Answer::kCompute;
  key_ = key_of(arguments_);
  auto geometry = plan.dry == Kind::kComputedForReal ? recall_geometry(key_) : geometry_of(arguments_, key_, operands_);
  if (geometry != nullptr && plan.dry == Kind::kBatchNorm && !argument(5).toBool()) {
    auto evaluation = std::make_shared<Geometry>(*geometry);
    for (const std::size_t saved : {1, 2}) {
      TensorGeometry& each = evaluation->returns[saved].tensors[0];
      each.sizes.assign(1, 0), each.strides.assign(1, 1);
      evaluation->storages[static_cast<std::size_t>(each.index)] = 0;
    }
    geometry = evaluation;
  }
  if (geometry == nullptr) return unknown ? compute_unknown() : Answer::kCompute;
  if (!unknown && result_is_small(*geometry)) return Answer::kCompute;
  if (plan.draws && draws_for_real(*geometry)) {
    if (plan.dry == Kind::kDrawsFrom) fill_unknown();
    return compute_unknown(/*quietly=*/true);
  }
  materialize(*geometry, Knowledge::kUnknown);
  return Answer::kDone;
}

bool Call::written_fits() const {
  return std::ranges::all_of(
      written_, [&](const Tensor& t) { return is_small(bytes_of_storage(t), t.scalar_type(), device_ < 0); });
}

bool Call::returns_only_operands(const OperatorPlan& plan) const {
  const std::size_t count = arguments_.op.schema().returns().size();
  return !written_.empty() && (count == 0 || plan.aliases == (std::uint32_t{1} << count) - 1) &&
         std::ranges::none_of(arguments_.op.schema().arguments(), [](const auto& each) { return each.is_out(); });
}

/// Random numbers of moderate size are drawn all the same, so that the generator goes on as in a run with values.
bool Call::draws_for_real(const Geometry& geometry) const {
  std::size_t bytes = 0;
  for (const Tensor& t : written_) bytes += t.nbytes();
  for (const std::size_t each : geometry.storages) bytes += each;
  if (bytes <= kDrawnAtOnce && g_drawn.load(std::memory_order_relaxed) + bytes <= kDrawnInAll) {
    g_drawn.fetch_add(bytes, std::memory_order_relaxed);
    return true;
  }
  note(MadeUpKind::kDraw);
  return false;
}

Answer Call::answer_overwrite() {
  const Tensor self = argument(0).toTensor();
  const bool fill = arguments_.plan.dry == Kind::kFill;
  bool unknown_value = false;
  for (std::size_t i = 1; i < operands_.size(); ++i) unknown_value = unknown_value || is_unknown(operands_[i]);
  const bool whole = covers_storage(self);
  if (is_small(bytes_of_storage(self), self.scalar_type(), device_ < 0) && !unknown_value &&
      (whole || !is_unknown(self))) {
    set_knowledge(self, Knowledge::kKnown);
    return Answer::kCompute;
  }
  Knowledge knowledge = Knowledge::kUnknown;
  if (fill && device_ >= 0) {
    const bool has_value = arguments_.plan.arguments.size() > 1;
    const at::Scalar value = has_value ? argument(1).toScalar() : at::Scalar(0);
    const double number = value.isComplex() ? 2.0 : value.toDouble();
    const auto uniform = number == 0.0 ? Knowledge::kZeros : number == 1.0 ? Knowledge::kOnes : Knowledge::kUnknown;
    if (whole || uniform == knowledge_of(self)) knowledge = uniform;
  }
  if (arguments_.plan.draws && draws_for_real(Geometry())) return compute_unknown(/*quietly=*/true);
  set_knowledge(self, knowledge);
  arguments_.stack.resize(arguments_.base);
  arguments_.stack.emplace_back(self);
  return Answer::kDone;
}

Answer Call::answer_uniform(Knowledge knowledge) {
  key_ = key_of(arguments_);
  const auto geometry = geometry_of(arguments_, key_, operands_);
  if (geometry == nullptr) return compute_unknown();
  materialize(*geometry, knowledge);
  return Answer::kDone;
}

/// _foreach_*: element by element, so that what is known stays known. Where all is unknown, marks are all it takes.
Answer Call::answer_list(bool unknown) {
  if (!unknown && std::ranges::all_of(operands_, [&](const Tensor& t) {
        return is_small(bytes_of_storage(t), t.scalar_type(), device_ < 0);
      })) {
    return Answer::kCompute;
  }
  if (!written_.empty() && arguments_.op.schema().returns().empty() &&
      std::ranges::all_of(written_, [](const Tensor& t) { return is_unknown(t); })) {
    for (const Tensor& t : written_) {
      set_knowledge(t, Knowledge::kUnknown);
      t.unsafeGetTensorImpl()->bump_version();
    }
    arguments_.stack.resize(arguments_.base);
    return Answer::kDone;
  }
  return arguments_.op.hasKernelForDispatchKey(c10::DispatchKey::CompositeExplicitAutograd) ? Answer::kTakeApart
                                                                                            : compute_unknown();
}

Answer Call::compute_unknown(bool quietly) {
  const std::size_t bytes = bytes_of(operands_);
  TORCH_CHECK_NOT_IMPLEMENTED(
      bytes <= kComputedAtMost, "locus: the operator '", arguments_.plan.name,
      "' can't be dry: PyTorch has no rule for the shape of its result, and its operands (", bytes,
      " bytes) are too large to compute it. Run without --dry, with smaller operands, or guard this part.");
  if (!quietly && bytes > settings().keep) note(MadeUpKind::kReal);
  if (!quietly && device_ >= 0) fill_unknown();
  make_pivots_valid();
  return Answer::kComputeUnknown;
}

void Call::finish() {
  const std::size_t returns = arguments_.op.schema().returns().size();
  for (std::size_t i = arguments_.stack.size() - returns; i < arguments_.stack.size(); ++i) forget(arguments_.stack[i]);
  for (const Tensor& t : written_) set_knowledge(t, Knowledge::kUnknown);
  keep_bound();
  const bool by_values =
      arguments_.op.hasTag(at::Tag::dynamic_output_shape) || arguments_.op.hasTag(at::Tag::data_dependent_output);
  if (learns_ && !by_values && !arguments_.plan.draws && written_.empty()) {
    learn_geometry(key_, operands_, arguments_.stack, returns);
  }
}

void Call::take_apart() {
  arguments_.op.callBoxedForDispatchKey(c10::DispatchKey::CompositeExplicitAutograd, arguments_.stack);
  for (const Tensor& t : written_) t.unsafeGetTensorImpl()->bump_version();
}

// --- Results ---------------------------------------------------------------------------------------------------------

Tensor Call::make(const TensorGeometry& geometry, Storages& storages, const Geometry& all, Knowledge knowledge) {
  switch (geometry.source) {
    case Source::kNone:
      return {};
    case Source::kOperand:
      return operands_[static_cast<std::size_t>(geometry.index)];
    case Source::kView: {
      const Tensor& base = operands_[static_cast<std::size_t>(geometry.index)];
      return tensor_on(base.storage(), !base.is_cuda(), is_unknown(base), geometry);
    }
    case Source::kNew:
      break;
  }
  auto& storage = storages[static_cast<std::size_t>(geometry.index)];
  if (!storage) {
    const std::size_t bytes = all.storages[static_cast<std::size_t>(geometry.index)];
    storage = device_ >= 0 ? new_untouched_storage(bytes, device_, counted_) : new_host_storage(bytes);
  }
  Tensor made = tensor_on(c10::Storage(storage), device_ < 0, knowledge != Knowledge::kKnown, geometry);
  const bool uniform = knowledge == Knowledge::kZeros || knowledge == Knowledge::kOnes;
  const bool small = is_small(bytes_of_storage(made), geometry.type, device_ < 0);
  if (uniform && small) {
    fill_for_real(made, at::Scalar(knowledge == Knowledge::kOnes ? 1 : 0));
    set_knowledge(made, Knowledge::kKnown);
  } else {
    set_knowledge(made, knowledge);
    if (device_ < 0 && small) {
      fill_for_real(made, knowledge == Knowledge::kLikely ? at::Scalar(1) : made_up_value(geometry.type));
    }
  }
  return made;
}

IValue Call::make(const ReturnGeometry& returned, Storages& storages, const Geometry& all, Knowledge knowledge) {
  if (returned.other.has_value()) return *returned.other;
  if (!returned.is_list) return make(returned.tensors[0], storages, all, knowledge);
  c10::List<Tensor> list;
  list.reserve(returned.tensors.size());
  for (const TensorGeometry& each : returned.tensors) list.push_back(make(each, storages, all, knowledge));
  return list;
}

void Call::materialize(const Geometry& geometry, Knowledge knowledge) {
  for (const ResizedOperand& each : geometry.resized) {
    const Tensor& t = operands_[static_cast<std::size_t>(each.index)];
    c10::TensorImpl* impl = t.unsafeGetTensorImpl();
    if (each.bytes > bytes_of_storage(t)) grow_storage(t, each.bytes);
    impl->set_sizes_and_strides(each.after.sizes, each.after.strides);
    impl->set_storage_offset(each.after.offset);
  }
  for (const Tensor& t : written_) set_knowledge(t, knowledge);
  Storages storages(geometry.storages.size());
  const std::size_t count = geometry.returns.size();
  c10::SmallVector<IValue, 4> results(count);
  const auto make_result = [&](std::size_t i, std::int64_t counted) {
    counted_ = static_cast<std::size_t>(counted);
    results[i] = make(geometry.returns[i], storages, geometry, knowledge);
  };
  if (device_ >= 0 && arguments_.plan.memory != sim::MemoryRule::kNone) {
    CardMemory memory(arguments_.plan, arguments_.stack, arguments_.base, device_);
    // What the card takes is asked with the results in view: their geometry is all that matters.
    torch::jit::Stack in_view;
    for (const ReturnGeometry& each : geometry.returns) in_view.push_back(twin_of_result(each));
    memory.play(in_view, count, make_result);
  } else {
    for (std::size_t i = 0; i < count; ++i) make_result(i, 0);
  }
  arguments_.stack.resize(arguments_.base);
  for (IValue& each : results) arguments_.stack.push_back(std::move(each));
  if (arguments_.plan.elementwise_list) {
    for (const Tensor& t : written_) t.unsafeGetTensorImpl()->bump_version();
  }
}

}  // namespace locus::bridge::dry
