// See typed_door.h. Hot path: most operator calls of a checked program.
#include "locus/bridge/door/typed_door.h"

#include <ATen/core/IListRef.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>

#include "locus/bridge/door/door.h"
#include "locus/bridge/door/passage.h"
#include "locus/bridge/streams/pending.h"

namespace locus::bridge {
namespace {

using at::Tensor;
using c10::Device;
using c10::DispatchKeySet;
using MaybeTensor = std::optional<Tensor>;
using MaybeScalar = std::optional<at::Scalar>;
using MaybeType = std::optional<at::ScalarType>;
using MaybeLayout = std::optional<at::Layout>;
using MaybeDevice = std::optional<Device>;
using MaybeFormat = std::optional<at::MemoryFormat>;

/// Where the operands of a call are. 0-dim tensors of the CPU are counted by themselves: they may stand among others.
class Places {
 public:
  void add(const Tensor& t, bool written) {
    const Device device = t.device();
    if (device.is_cpu() && !written && t.unsafeGetTensorImpl()->dim() == 0) {
      scalars_ += 1;
    } else if (!known_) {
      known_ = true;
      home_ = device;
    } else if (device != home_) {
      mixed_ = true;
    }
  }
  /// The call asks for a device by itself.
  void ask_for(Device device) {
    asked_ = true;
    wanted_ = device;
  }
  bool any_on_the_cpu() const { return mixed_ || scalars_ != 0 || (known_ && home_.is_cpu()); }
  bool any_off_the_cpu() const { return mixed_ || (known_ && !home_.is_cpu()); }
  /// Nothing to judge and nothing that crosses from one device to another.
  bool plain(bool one_scalar_is_welcome) const {
    if (mixed_) return false;
    if (asked_ && known_ && (wanted_ != home_ || scalars_ != 0)) return false;
    if (asked_ && !known_ && scalars_ != 0 && !wanted_.is_cpu()) return false;
    if (scalars_ == 0 || !known_ || home_.is_cpu()) return true;
    return scalars_ == 1 && one_scalar_is_welcome;
  }

 private:
  bool known_ = false, mixed_ = false, asked_ = false;
  int scalars_ = 0;
  Device home_{c10::kCPU}, wanted_{c10::kCPU};
};

/// Calls `see(tensor, written)` on each defined tensor among the arguments.
template <class See>
void each_tensor_of(Tensor& t, See&& see) {
  if (t.defined()) see(t, true);
}
template <class See>
void each_tensor_of(const Tensor& t, See&& see) {
  if (t.defined()) see(t, false);
}
template <class See>
void each_tensor_of(const MaybeTensor& t, See&& see) {
  if (t.has_value() && t->defined()) see(*t, false);
}
template <class See>
void each_tensor_of(at::TensorList list, See&& see) {
  for (const Tensor& t : list) {
    if (t.defined()) see(t, false);
  }
}
template <class See>
void each_tensor_of(const at::ITensorListRef& list, See&& see) {
  for (const Tensor& t : list) {
    if (t.defined()) see(t, false);
  }
}
template <class Other, class See>
void each_tensor_of(const Other&, See&&) {}

template <class Other>
void look_at_argument(Passage* passage, const Other& argument) {
  using Type = std::decay_t<Other>;
  if constexpr (std::is_same_v<Type, Tensor>) {
    passage->look_at(argument);
  } else if constexpr (std::is_same_v<Type, MaybeTensor>) {
    if (argument.has_value()) passage->look_at(*argument);
  } else if constexpr (std::is_same_v<Type, at::TensorList>) {
    if (!argument.empty()) passage->look_at(argument.front());
  } else if constexpr (std::is_same_v<Type, at::ITensorListRef>) {
    if (argument.size() != 0) passage->look_at(argument.front());
  }
}

void note_result(Passage* passage, const Tensor& t, size_t number = 0) { passage->note(t, number); }
void note_result(Passage*, const at::Scalar&) {}
void note_result(Passage*, const c10::SymInt&, size_t) {}
void note_result(Passage* passage, const std::vector<Tensor>& list) {
  for (const Tensor& t : list) passage->note(t, 0);
}
template <class... T>
void note_result(Passage* passage, const std::tuple<T...>& results) {
  std::apply(
      [&](const auto&... one) {
        size_t number = 0;
        (note_result(passage, one, number++), ...);
      },
      results);
}

template <class Signature>
class TypedDoor;

template <class Result, class... Arguments>
class TypedDoor<Result(Arguments...)> final : public c10::OperatorKernel {
 public:
  using Signature = Result(Arguments...);

  TypedDoor(const c10::OperatorHandle& op, const OperatorPlan& plan)
      : op_(op.typed<Signature>()),
        plan_(plan),
        one_scalar_is_welcome_(plan.rule.kind == engine::RuleKind::kIteratorScalar && plan.rule.arguments == 0) {}

  Result operator()(DispatchKeySet keys, Arguments... arguments) {
    if (!is_plain(arguments...)) {
      static const auto common = c10::BoxedKernel::makeFromFunction<&door>();
      return c10::impl::BoxedKernelWrapper<Signature>::call(common, op_, keys, std::forward<Arguments>(arguments)...);
    }
    const DispatchKeySet next = keys & DispatchKeySet(DispatchKeySet::FULL_AFTER, kCheckKey);
    if (plan_.decomposes) return op_.redispatch(next, std::forward<Arguments>(arguments)...);  // its parts come back
    const c10::impl::ExcludeDispatchKeyGuard closed{DispatchKeySet(kCheckKey)};
    Passage passage(plan_);
    (look_at_argument(&passage, arguments), ...);
    if constexpr (std::is_void_v<Result>) {
      op_.redispatch(next, std::forward<Arguments>(arguments)...);
      passage.end();
    } else {
      Result result = op_.redispatch(next, std::forward<Arguments>(arguments)...);
      passage.end();
      note_result(&passage, result);
      return result;
    }
  }

 private:
  template <class... Given>
  bool is_plain(Given&... given) const {
    if (t_reporting) return false;
    Places places;
    (each_tensor_of(given, [&](const Tensor& t, bool written) { places.add(t, written); }), ...);
    (ask(&places, given), ...);
    if (plan_.synchronizes && places.any_off_the_cpu()) return false;  // the host waits: that is measured
    if (copies_pending() && places.any_on_the_cpu()) return false;     // the host may read too early
    return places.plain(one_scalar_is_welcome_);
  }
  template <class Other>
  static void ask(Places* places, const Other& argument) {
    if constexpr (std::is_same_v<Other, MaybeDevice>) {
      if (argument.has_value()) places->ask_for(*argument);
    }
  }

  c10::TypedOperatorHandle<Signature> op_;
  const OperatorPlan& plan_;
  bool one_scalar_is_welcome_;
};

/// The word that a schema has for a C++ type.
template <class T>
constexpr std::string_view word_of() {
  using Type = std::decay_t<T>;
  if constexpr (std::is_same_v<Type, Tensor>) return "Tensor";
  if constexpr (std::is_same_v<Type, MaybeTensor>) return "Tensor?";
  if constexpr (std::is_same_v<Type, at::TensorList> || std::is_same_v<Type, at::ITensorListRef> ||
                std::is_same_v<Type, std::vector<Tensor>>)
    return "Tensor[]";
  if constexpr (std::is_same_v<Type, at::Scalar>) return "Scalar";
  if constexpr (std::is_same_v<Type, MaybeScalar>) return "Scalar?";
  if constexpr (std::is_same_v<Type, at::ArrayRef<at::Scalar>>) return "Scalar[]";
  if constexpr (std::is_same_v<Type, int64_t>) return "int";
  if constexpr (std::is_same_v<Type, c10::SymInt>) return "SymInt";
  if constexpr (std::is_same_v<Type, double>) return "float";
  if constexpr (std::is_same_v<Type, bool>) return "bool";
  if constexpr (std::is_same_v<Type, std::string_view> || std::is_same_v<Type, c10::string_view>) return "str";
  if constexpr (std::is_same_v<Type, at::ScalarType>) return "ScalarType";
  if constexpr (std::is_same_v<Type, MaybeType>) return "ScalarType?";
  if constexpr (std::is_same_v<Type, MaybeLayout>) return "Layout?";
  if constexpr (std::is_same_v<Type, MaybeDevice>) return "Device?";
  if constexpr (std::is_same_v<Type, MaybeFormat>) return "MemoryFormat?";
  if constexpr (std::is_same_v<Type, std::optional<bool>>) return "bool?";
  if constexpr (std::is_same_v<Type, std::optional<double>>) return "float?";
  if constexpr (std::is_same_v<Type, std::optional<int64_t>>) return "int?";
  if constexpr (std::is_same_v<Type, at::IntArrayRef>) return "int[]";
  if constexpr (std::is_same_v<Type, c10::SymIntArrayRef>) return "SymInt[]";
  if constexpr (std::is_same_v<Type, at::OptionalIntArrayRef>) return "int[]?";
  if constexpr (std::is_same_v<Type, at::OptionalSymIntArrayRef>) return "SymInt[]?";
  if constexpr (std::is_same_v<Type, std::array<bool, 3>>) return "bool[]";
}

template <class Result>
struct Returned {
  static std::string words() { return std::string(word_of<Result>()); }
};
template <>
struct Returned<void> {
  static std::string words() { return ""; }
};
template <class... T>
struct Returned<std::tuple<T...>> {
  static std::string words() {
    std::string text;
    ((text += text.empty() ? "" : ",", text += word_of<T>()), ...);
    return text;
  }
};

template <class Result, class... Arguments>
std::string words_of(Result (*)(Arguments...)) {
  std::string text;
  ((text += text.empty() ? "" : ",", text += word_of<Arguments>(),
    text += std::is_same_v<Arguments, Tensor&> ? "!" : ""),
   ...);
  return text + "->" + Returned<Result>::words();
}

std::string words_of(const c10::FunctionSchema& schema) {
  const auto written = [](const c10::Argument& argument) {
    return argument.alias_info() != nullptr && argument.alias_info()->isWrite();
  };
  std::string arguments, returns;
  for (const c10::Argument& argument : schema.arguments()) {
    arguments += arguments.empty() ? "" : ",";
    arguments += argument.real_type()->str();
    if (written(argument) && argument.real_type()->kind() == c10::TypeKind::TensorType) arguments += '!';
  }
  for (const c10::Argument& argument : schema.returns()) {
    returns += returns.empty() ? "" : ",";
    returns += argument.real_type()->str();
  }
  return arguments + "->" + returns;
}

using Register = bool (*)(const c10::OperatorHandle&, const OperatorPlan&);

template <class Signature>
bool register_one(const c10::OperatorHandle& op, const OperatorPlan& plan) {
  try {
    auto kernel = std::make_unique<TypedDoor<Signature>>(op, plan);  // raises where PyTorch knows another signature
    static auto* kept = new std::vector<c10::RegistrationHandleRAII>;
    kept->push_back(c10::Dispatcher::singleton().registerImpl(
        op.operator_name(), kCheckKey,
        c10::KernelFunction::makeFromUnboxedFunctor<false, TypedDoor<Signature>>(std::move(kernel)),
        c10::impl::CppSignature::make<Signature>(), nullptr, "locus"));
    return true;
  } catch (const c10::Error&) {
    return false;
  }
}

template <class... Signatures>
struct SignatureList {
  static std::unordered_multimap<std::string, Register> table() {
    std::unordered_multimap<std::string, Register> found;
    (found.emplace(words_of(static_cast<Signatures*>(nullptr)), &register_one<Signatures>), ...);
    return found;
  }
};

using Strings = c10::string_view;
/// The signatures of what trainings call most; each serves every operator that has it.
using Known = SignatureList<
    // one tensor
    at::Scalar(const Tensor&), Tensor(const Tensor&), Tensor(const Tensor&, MaybeType),
    Tensor(const Tensor&, const at::Scalar&), Tensor(const Tensor&, int64_t, bool), Tensor(const Tensor&, Strings),
    Tensor(const Tensor&, MaybeFormat), Tensor(const Tensor&, int64_t, MaybeType),
    Tensor(const Tensor&, at::OptionalIntArrayRef, bool, MaybeType),
    Tensor(const Tensor&, const MaybeScalar&, const MaybeScalar&),
    Tensor(const Tensor&, const at::Scalar&, at::OptionalIntArrayRef, bool, MaybeType),
    Tensor(const Tensor&, c10::SymIntArrayRef, int64_t, c10::SymInt),
    Tensor(const Tensor&, MaybeType, MaybeLayout, MaybeDevice, std::optional<bool>, MaybeFormat),
    Tensor(const Tensor&, MaybeType, MaybeLayout, MaybeDevice, std::optional<bool>, bool, MaybeFormat),
    // two and more
    Tensor(const Tensor&, const Tensor&), Tensor(const Tensor&, const Tensor&, const at::Scalar&),
    Tensor(const Tensor&, const Tensor&, const Tensor&),
    Tensor(const Tensor&, const Tensor&, const Tensor&, const at::Scalar&, const at::Scalar&),
    Tensor(const Tensor&, const Tensor&, const Tensor&, const at::Scalar&),
    Tensor(const Tensor&, const Tensor&, Strings), Tensor(const Tensor&, const Tensor&, int64_t),
    Tensor(const Tensor&, const Tensor&, const Tensor&, int64_t),
    Tensor(const Tensor&, const Tensor&, int64_t, at::ScalarType),
    Tensor(const Tensor&, const Tensor&, c10::SymInt, bool, bool),
    Tensor(const Tensor&, const Tensor&, c10::SymInt, c10::SymInt, bool), Tensor(const at::ITensorListRef&, int64_t),
    Tensor(at::TensorList, int64_t),
    // written in place
    Tensor&(Tensor&), Tensor&(Tensor&, const Tensor&), Tensor&(Tensor&, const Tensor&, const at::Scalar&),
    Tensor&(Tensor&, const Tensor&, const Tensor&, const at::Scalar&), Tensor&(Tensor&, const Tensor&, bool),
    // lists of tensors, as optimizers have them
    void(at::TensorList), void(at::TensorList, const at::Scalar&), void(at::TensorList, at::ArrayRef<at::Scalar>),
    void(at::TensorList, const Tensor&), void(at::TensorList, at::TensorList),
    void(at::TensorList, at::TensorList, const at::Scalar&),
    void(at::TensorList, at::TensorList, at::TensorList, const at::Scalar&),
    void(at::TensorList, at::TensorList, at::TensorList, at::ArrayRef<at::Scalar>), std::vector<Tensor>(at::TensorList),
    std::vector<Tensor>(at::TensorList, const at::Scalar&), std::vector<Tensor>(at::TensorList, at::TensorList),
    std::vector<Tensor>(at::TensorList, at::TensorList, const at::Scalar&),
    std::vector<Tensor>(at::TensorList, const at::Scalar&, MaybeType),
    void(at::TensorList, at::TensorList, at::TensorList, at::TensorList, at::TensorList, at::TensorList, double, double,
         double, double, double, bool, bool, const MaybeTensor&, const MaybeTensor&),
    void(at::TensorList, at::TensorList, at::TensorList, double, double, double, double, bool, bool, bool,
         const MaybeTensor&, const MaybeTensor&),
    // attention
    Tensor(const Tensor&, const Tensor&, const Tensor&, const MaybeTensor&, double, bool, std::optional<double>, bool),
    std::tuple<Tensor, Tensor, Tensor, Tensor, c10::SymInt, c10::SymInt, Tensor, Tensor, Tensor>(
        const Tensor&, const Tensor&, const Tensor&, const MaybeTensor&, bool, double, bool, bool,
        std::optional<double>),
    std::tuple<Tensor, Tensor, Tensor, Tensor, c10::SymInt, c10::SymInt, Tensor, Tensor, Tensor>(
        const Tensor&, const Tensor&, const Tensor&, double, bool, bool, std::optional<double>),
    std::tuple<Tensor, Tensor, Tensor, Tensor>(const Tensor&, const Tensor&, const Tensor&, const MaybeTensor&, bool,
                                               double, bool, std::optional<double>),
    // layers
    Tensor(const Tensor&, const Tensor&, const MaybeTensor&, c10::SymIntArrayRef, c10::SymIntArrayRef,
           c10::SymIntArrayRef, bool, c10::SymIntArrayRef, c10::SymInt),
    std::tuple<Tensor, Tensor, Tensor>(const Tensor&, const Tensor&, const Tensor&, at::OptionalSymIntArrayRef,
                                       c10::SymIntArrayRef, c10::SymIntArrayRef, c10::SymIntArrayRef, bool,
                                       c10::SymIntArrayRef, c10::SymInt, std::array<bool, 3>),
    std::tuple<Tensor, Tensor, Tensor>(const Tensor&, c10::SymIntArrayRef, const MaybeTensor&, const MaybeTensor&,
                                       double),
    std::tuple<Tensor, Tensor, Tensor>(const Tensor&, const Tensor&, c10::SymIntArrayRef, const Tensor&, const Tensor&,
                                       const MaybeTensor&, const MaybeTensor&, std::array<bool, 3>),
    std::tuple<Tensor, Tensor>(const Tensor&, const Tensor&, const MaybeTensor&, int64_t, c10::SymInt),
    Tensor(const Tensor&, const Tensor&, const Tensor&, const MaybeTensor&, int64_t, c10::SymInt, const Tensor&)>;

int g_typed_doors = 0;

/// What a typed door sees to by itself. The rest is for the common one: generators, arguments that belong on the CPU.
bool may_be_typed(const OperatorPlan& plan) {
  if (plan.generator >= 0) return false;
  for (int i = 0; i < static_cast<int>(plan.arguments.size()); ++i) {
    if (plan.rule.argument(i) == engine::ArgumentRule::kMustBeCpu) return false;
  }
  return true;
}

}  // namespace

void install_typed_door(const c10::OperatorHandle& op) {
  static const auto* const known = new auto(Known::table());
  const OperatorPlan& plan = plan_of(op);
  if (!may_be_typed(plan)) return;
  const auto [first, last] = known->equal_range(words_of(op.schema()));
  for (auto entry = first; entry != last; ++entry) {
    if (!entry->second(op, plan)) continue;
    g_typed_doors += 1;
    return;
  }
}

int typed_doors() { return g_typed_doors; }

}  // namespace locus::bridge
