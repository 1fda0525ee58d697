// The C++ signatures of what trainings call most. Operators that have one of them are served with their arguments as
// they are: at the door, and by the kernels of simulated devices. The rest gets its arguments in boxes.
#pragma once

#include <ATen/core/IListRef.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "locus/bridge/kernels/plan.h"

namespace locus::bridge {

using MaybeTensor = std::optional<at::Tensor>;
using MaybeScalar = std::optional<at::Scalar>;
using MaybeType = std::optional<at::ScalarType>;
using MaybeLayout = std::optional<at::Layout>;
using MaybeDevice = std::optional<c10::Device>;
using MaybeFormat = std::optional<at::MemoryFormat>;

/// The word that a schema has for a C++ type.
template <class T>
constexpr std::string_view word_of() {
  using Type = std::decay_t<T>;
  if constexpr (std::is_same_v<Type, at::Tensor>) return "Tensor";
  if constexpr (std::is_same_v<Type, MaybeTensor>) return "Tensor?";
  if constexpr (std::is_same_v<Type, at::TensorList> || std::is_same_v<Type, at::ITensorListRef> ||
                std::is_same_v<Type, std::vector<at::Tensor>>)
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
    text += std::is_same_v<Arguments, at::Tensor&> ? "!" : ""),
   ...);
  return text + "->" + Returned<Result>::words();
}

inline std::string words_of(const c10::FunctionSchema& schema) {
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

/// Registers a `Kernel<Signature>` of the operator behind `key`, where PyTorch knows the operator by that signature.
template <template <class> class Kernel, class Signature>
bool register_typed(const c10::OperatorHandle& op, const OperatorPlan& plan, c10::DispatchKey key) {
  if constexpr (!Kernel<Signature>::kServes) {
    return false;
  } else
    try {
      auto kernel = std::make_unique<Kernel<Signature>>(op, plan);  // raises where PyTorch knows another signature
      static auto* kept = new std::vector<c10::RegistrationHandleRAII>;
      kept->push_back(c10::Dispatcher::singleton().registerImpl(
          op.operator_name(), key,
          c10::KernelFunction::makeFromUnboxedFunctor<false, Kernel<Signature>>(std::move(kernel)),
          c10::impl::CppSignature::make<Signature>(), nullptr, "locus"));
      return true;
    } catch (const c10::Error&) {
      return false;
    }
}

template <class... Signatures>
struct SignatureList {
  /// True: the operator has one of the signatures, and a `Kernel` of it behind `key` from now on.
  template <template <class> class Kernel>
  static bool install(const c10::OperatorHandle& op, const OperatorPlan& plan, c10::DispatchKey key) {
    using Register = bool (*)(const c10::OperatorHandle&, const OperatorPlan&, c10::DispatchKey);
    static const auto* const by_words = [] {
      auto* found = new std::unordered_multimap<std::string, Register>;
      (found->emplace(words_of(static_cast<Signatures*>(nullptr)), &register_typed<Kernel, Signatures>), ...);
      return found;
    }();
    const auto [first, last] = by_words->equal_range(words_of(op.schema()));
    for (auto entry = first; entry != last; ++entry) {
      if (entry->second(op, plan, key)) return true;
    }
    return false;
  }
};

namespace signatures {

using at::Tensor;
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

}  // namespace signatures

using KnownSignatures = signatures::Known;

}  // namespace locus::bridge
