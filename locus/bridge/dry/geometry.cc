// See geometry.h.
#include "locus/bridge/dry/geometry.h"

#include <ATen/Context.h>
#include <ATen/EmptyTensor.h>
#include <c10/core/DefaultDtype.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <exception>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "locus/bridge/dry/keys.h"
#include "locus/bridge/dry/knowledge.h"
#include "locus/bridge/dry/rule_scope.h"
#include "locus/engine/intern.h"

namespace locus::bridge::dry {

using at::Tensor;
using c10::IValue;
using torch::jit::Stack;
using Words = GeometryKey;

// --- The key ---------------------------------------------------------------------------------------------------------

void add_tensor(GeometryKey& words, const Tensor& t) {
  if (!t.defined()) return words.push_back(-1);
  const c10::TensorImpl* impl = t.unsafeGetTensorImpl();
  const auto sizes = impl->sizes(), strides = impl->strides();
  words.push_back(static_cast<std::int64_t>(t.scalar_type()) | static_cast<std::int64_t>(sizes.size()) << 8 |
                  std::int64_t{impl->is_conj()} << 32 | std::int64_t{impl->is_neg()} << 33 |
                  std::int64_t{impl->is_wrapped_number()} << 34);
  words.append(sizes.begin(), sizes.end());
  words.append(strides.begin(), strides.end());
  words.push_back(impl->storage_offset());
}

namespace {

/// False for a value that no key can hold.
bool add_value(Words& words, const IValue& value) {
  if (value.isTensor()) {
    add_tensor(words, value.toTensor());
  } else if (value.isNone()) {
    words.push_back(-2);
  } else if (value.isInt()) {
    words.push_back(value.toInt());
  } else if (value.isDouble()) {
    words.push_back(std::bit_cast<std::int64_t>(value.toDouble()));
  } else if (value.isBool()) {
    words.push_back(value.toBool() ? -3 : -4);
  } else if (value.isComplexDouble()) {
    words.push_back(std::bit_cast<std::int64_t>(value.toComplexDouble().real()));
    words.push_back(std::bit_cast<std::int64_t>(value.toComplexDouble().imag()));
  } else if (value.isDevice()) {
    words.push_back(static_cast<std::int64_t>(value.toDevice().type()));
  } else if (value.isString()) {
    const std::string& text = value.toStringRef();
    words.push_back(static_cast<std::int64_t>(std::hash<std::string>()(text)));
    words.push_back(static_cast<std::int64_t>(text.size()));
  } else if (value.isIntList()) {
    const auto list = value.toIntVector();
    words.push_back(-5 - static_cast<std::int64_t>(list.size()) * 16);
    words.append(list.begin(), list.end());
  } else if (value.isGenerator()) {
    words.push_back(-6);
  } else if (value.isList()) {
    const auto list = value.toListRef();
    words.push_back(-7 - static_cast<std::int64_t>(list.size()) * 16);
    return std::all_of(list.begin(), list.end(), [&](const IValue& each) { return add_value(words, each); });
  } else {
    return false;
  }
  return true;
}

using Key = std::vector<std::int64_t>;
struct KeyHash {
  using is_transparent = void;
  std::size_t operator()(const auto& words) const noexcept {
    std::uint64_t hash = words.size();
    for (const std::int64_t word : words) hash = engine::mix(hash ^ static_cast<std::uint64_t>(word));
    return hash;
  }
};
struct KeyEqual {
  using is_transparent = void;
  bool operator()(const auto& a, const auto& b) const noexcept {
    return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin());
  }
};
using Memo = std::unordered_map<Key, std::shared_ptr<const Geometry>, KeyHash, KeyEqual>;
constexpr std::size_t kMaxRemembered = 50'000;
/// A thread's own: no lock. Autograd has a thread for each device, which sees the same shapes step by step.
Memo& memo() {
  thread_local auto* table = new Memo;  // not destroyed: threads may end after what it refers to
  return *table;
}
void remember(const Words& key, std::shared_ptr<const Geometry> geometry) {
  Memo& table = memo();
  if (table.size() >= kMaxRemembered) table.clear();
  table.insert_or_assign(Key(key.begin(), key.end()), std::move(geometry));
}

// --- The shape rules -------------------------------------------------------------------------------------------------

/// Replaces a call's arguments by what a shape rule is to see.
IValue on_meta(const IValue& value, Operands& twins) {
  if (value.isTensor()) {
    const Tensor& t = value.toTensor();
    if (!t.defined()) return value;
    // A Python number: the rules ask for its value, and take it on any device.
    const bool number = t.unsafeGetTensorImpl()->is_wrapped_number() && t.device().is_cpu();
    twins.push_back(number ? t : twin_of(t));
    return twins.back();
  }
  if (value.isDevice()) return c10::Device(c10::kMeta);
  if (value.isGenerator()) return IValue();
  if (value.isTensorList()) {
    c10::List<Tensor> list;
    for (const auto& each : value.toTensorList()) list.push_back(on_meta(IValue(Tensor(each)), twins).toTensor());
    return list;
  }
  if (value.isOptionalTensorList()) {
    c10::List<std::optional<Tensor>> list;
    for (const std::optional<Tensor>& each : value.toOptionalTensorList()) {
      const bool there = each.has_value() && each->defined();
      list.push_back(there ? std::optional<Tensor>(on_meta(IValue(*each), twins).toTensor()) : std::nullopt);
    }
    return list;
  }
  return value;
}

class Reading {
 public:
  explicit Reading(const Operands& twins) : twins_(twins) {}

  TensorGeometry read(const Tensor& t) {
    TensorGeometry geometry;
    if (!t.defined()) return geometry;
    geometry = shape_of(t);
    for (std::size_t i = 0; i < twins_.size(); ++i) {
      if (twins_[i].is_same(t)) {
        geometry.source = TensorGeometry::Source::kOperand;
        geometry.index = static_cast<int>(i);
        return geometry;
      }
    }
    c10::StorageImpl* storage = t.storage().unsafeGetStorageImpl();
    for (std::size_t i = 0; i < twins_.size(); ++i) {
      if (twins_[i].storage().unsafeGetStorageImpl() == storage) {
        geometry.source = TensorGeometry::Source::kView;
        geometry.index = static_cast<int>(i);
        return geometry;
      }
    }
    geometry.source = TensorGeometry::Source::kNew;
    for (std::size_t i = 0; i < storages_.size(); ++i) {
      if (storages_[i] == storage) {
        geometry.index = static_cast<int>(i);
        return geometry;
      }
    }
    geometry.index = static_cast<int>(storages_.size());
    storages_.push_back(storage);
    found_.storages.push_back(storage->nbytes());
    found_.types.push_back(t.scalar_type());
    return geometry;
  }

  static TensorGeometry shape_of(const Tensor& t) {
    TensorGeometry geometry;
    const c10::TensorImpl* impl = t.unsafeGetTensorImpl();
    geometry.type = t.scalar_type();
    geometry.sizes.append(impl->sizes().begin(), impl->sizes().end());
    geometry.strides.append(impl->strides().begin(), impl->strides().end());
    geometry.offset = impl->storage_offset();
    geometry.conjugated = impl->is_conj();
    geometry.negated = impl->is_neg();
    return geometry;
  }

  void read(const IValue& value) {
    ReturnGeometry returned;
    if (value.isTensor()) {
      returned.tensors.push_back(read(value.toTensor()));
    } else if (value.isTensorList()) {
      returned.is_list = true;
      for (const auto& each : value.toTensorList()) returned.tensors.push_back(read(Tensor(each)));
    } else {
      returned.other = value;
    }
    found_.returns.push_back(std::move(returned));
  }

  void read_resized(const Operands& operands) {
    for (std::size_t i = 0; i < twins_.size() && i < operands.size(); ++i) {
      const Tensor &twin = twins_[i], &operand = operands[i];
      const std::size_t bytes = twin.storage().nbytes();
      if (twin.sizes() == operand.sizes() && twin.strides() == operand.strides() &&
          twin.storage_offset() == operand.storage_offset() && bytes <= bytes_of_storage(operand)) {
        continue;
      }
      found_.resized.push_back({static_cast<int>(i), shape_of(twin), bytes});
    }
  }

  Geometry take() { return std::move(found_); }

 private:
  const Operands& twins_;
  std::vector<c10::StorageImpl*> storages_;
  Geometry found_;
};

/// Whether a picture, or several, lies with the channels of a place side by side.
bool has_channels_last(const Tensor& t) {
  return t.dim() == 4 ? t.suggest_memory_format() == at::MemoryFormat::ChannelsLast
                      : t.dim() == 3 && t.stride(0) == 1 && t.size(0) > 1 && t.stride(2) == t.size(0);
}

/// Where a result lies otherwise than its shape rule says: rules are a card's where the CPU's kernel has other strides,
/// and know nothing of what a kernel leaves behind (a mean of losses keeps the memory of all of them, and col2im that
/// of its operand, on a card too).
enum class Layout : std::uint8_t { kRows, kColumns, kLikeOperand, kRoomForAll };
struct LaidOut {
  std::string_view op;
  std::size_t result;
  Layout layout;
};
constexpr std::array kLaidOut = {
    LaidOut{"aten::_linalg_svd", 2, Layout::kColumns},
    LaidOut{"aten::nonzero_static", 0, Layout::kRows},
    LaidOut{"aten::max_unpool2d", 0, Layout::kLikeOperand},
    LaidOut{"aten::mse_loss", 0, Layout::kRoomForAll},
    LaidOut{"aten::smooth_l1_loss", 0, Layout::kRoomForAll},
    LaidOut{"aten::binary_cross_entropy", 0, Layout::kRoomForAll},
    LaidOut{"aten::im2col", 0, Layout::kRoomForAll},
    LaidOut{"aten::col2im", 0, Layout::kRoomForAll},
};

void lay_out_as_computed(const c10::OperatorHandle& op, const Operands& operands, Geometry* geometry) {
  const auto* const found = std::ranges::find(kLaidOut, op.schema().name(), &LaidOut::op);
  if (found == kLaidOut.end() || geometry->returns.size() <= found->result) return;
  TensorGeometry& made = geometry->returns[found->result].tensors.front();
  if (made.source != TensorGeometry::Source::kNew || operands.empty()) return;
  if (found->layout == Layout::kRoomForAll) {
    std::size_t& bytes = geometry->storages[static_cast<std::size_t>(made.index)];
    for (const Tensor& each : operands) bytes = std::max(bytes, each.numel() * c10::elementSize(made.type));
    return;
  }
  const auto dims = static_cast<std::int64_t>(made.sizes.size());
  std::vector<std::int64_t> order(made.sizes.size());  // the dimensions, from the one with the smallest step on
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = dims - 1 - static_cast<std::int64_t>(i);
  if (found->layout == Layout::kColumns && dims >= 2) std::swap(order[0], order[1]);
  const bool has_images = dims == 3 || dims == 4;
  if (found->layout == Layout::kLikeOperand && has_images && has_channels_last(operands.front())) {
    std::rotate(order.begin(), order.begin() + 2, order.begin() + 3);
  }
  std::int64_t step = 1;
  for (const std::int64_t dim : order) {
    made.strides[static_cast<std::size_t>(dim)] = step;
    step *= std::max<std::int64_t>(made.sizes[static_cast<std::size_t>(dim)], 1);
  }
}

std::shared_ptr<const Geometry> ask_rule(const c10::OperatorHandle& op, const Stack& stack, std::size_t base,
                                         const Operands& operands) {
  if (!op.hasComputedKernelForDispatchKey(c10::DispatchKey::Meta)) return nullptr;
  RuleScope scope;
  Operands twins;
  Stack call;
  call.reserve(stack.size() - base);
  for (std::size_t i = base; i < stack.size(); ++i) call.push_back(on_meta(stack[i], twins));
  try {
    op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::Meta), &call);
  } catch (const std::exception&) {  // a wrong shape, or no rule after all: the operator itself has the words
    return nullptr;
  }
  for (const IValue& value : call) {
    const bool foreign = value.isTensor() && value.toTensor().defined() &&
                         (!value.toTensor().is_meta() || !value.toTensor().unsafeGetTensorImpl()->has_storage());
    if (foreign) return nullptr;
  }
  Reading reading(twins);
  for (const IValue& value : call) reading.read(value);
  reading.read_resized(operands);
  Geometry found = reading.take();
  lay_out_as_computed(op, operands, &found);
  return std::make_shared<Geometry>(std::move(found));
}

}  // namespace

Tensor twin_of(const Tensor& t) {
  const c10::TensorImpl* impl = t.unsafeGetTensorImpl();
  Tensor twin = at::detail::empty_strided_meta(t.sizes(), t.strides(), t.scalar_type());
  c10::TensorImpl* made = twin.unsafeGetTensorImpl();
  const std::size_t bytes = bytes_of_storage(t);
  if (made->storage_offset() != impl->storage_offset() || twin.storage().nbytes() != bytes) {
    twin.storage().unsafeGetStorageImpl()->set_nbytes(bytes);
    made->set_storage_offset(impl->storage_offset());
  }
  constexpr auto kBits = c10::DispatchKeySet({c10::DispatchKey::Conjugate, c10::DispatchKey::Negative});
  const auto bits = impl->key_set() & kBits;
  if (!bits.empty()) KeysOf::get(*made) = KeysOf::get(*made) | bits;
  if (impl->is_wrapped_number()) made->set_wrapped_number(true);
  return twin;
}

Operands operands_of(const Arguments& arguments) {
  Operands found;
  const auto add = [&](const Tensor& t) {
    if (t.defined()) found.push_back(t);
  };
  for (const std::uint16_t i : arguments.plan.holders) {
    const IValue& value = arguments.stack[arguments.base + i];
    if (value.isTensor()) {
      add(value.toTensor());
    } else if (value.isTensorList()) {
      for (const auto& each : value.toTensorList()) add(Tensor(each));
    } else if (value.isOptionalTensorList()) {
      for (const std::optional<Tensor>& each : value.toOptionalTensorList()) {
        if (each.has_value()) add(*each);
      }
    }
  }
  return found;
}

GeometryKey key_of(const Arguments& arguments) {
  const auto& context = at::globalContext();
  GeometryKey words;
  words.push_back(std::int64_t{arguments.plan.number} << 16 |
                  static_cast<std::int64_t>(c10::typeMetaToScalarType(c10::get_default_dtype())) << 1 |
                  std::int64_t{context.deterministicAlgorithms()});
  for (std::size_t i = arguments.base; i < arguments.stack.size(); ++i) {
    if (!add_value(words, arguments.stack[i])) return {};
  }
  return words;
}

std::shared_ptr<const Geometry> recall_geometry(const GeometryKey& key) {
  if (key.empty()) return nullptr;
  const auto found = memo().find(key);
  return found != memo().end() ? found->second : nullptr;
}

namespace {

/// With PyTorch 2.11 and before, the shape rule of `div_` lets whole numbers be divided in place, which its kernels
/// refuse.
void refuse_quotient_in_place(const Arguments& arguments, const Operands& operands) {
  if (arguments.plan.name != "aten::div_.Tensor" || !at::isIntegralType(operands[0].scalar_type(), true)) return;
  at::ScalarType type = at::result_type(operands[0], arguments.stack[arguments.base + 1].toTensor());
  if (at::isIntegralType(type, /*includeBool=*/true)) type = at::typeMetaToScalarType(at::get_default_dtype());
  TORCH_CHECK(false, "result type ", type, " can't be cast to the desired output type ", operands[0].scalar_type());
}

}  // namespace

std::shared_ptr<const Geometry> geometry_of(const Arguments& arguments, const GeometryKey& key,
                                            const Operands& operands) {
  if (auto known = recall_geometry(key)) return known;
  refuse_quotient_in_place(arguments, operands);
  auto geometry = ask_rule(arguments.op, arguments.stack, arguments.base, operands);
  if (!key.empty() && geometry != nullptr) remember(key, geometry);
  return geometry;
}

std::shared_ptr<const Geometry> geometry_by(const c10::OperatorHandle& op, Stack stack) {
  const Arguments arguments{op, plan_of(op), stack, 0};
  return geometry_of(arguments, key_of(arguments), operands_of(arguments));
}

void learn_geometry(const GeometryKey& key, const Operands& operands, const Stack& stack, std::size_t returns) {
  if (key.empty()) return;
  Reading reading(operands);
  for (std::size_t i = stack.size() - returns; i < stack.size(); ++i) {
    const IValue& value = stack[i];
    if (value.isTensor() && value.toTensor().defined() && !value.toTensor().unsafeGetTensorImpl()->has_storage())
      return;
    reading.read(value);
  }
  remember(key, std::make_shared<Geometry>(reading.take()));
}

}  // namespace locus::bridge::dry
