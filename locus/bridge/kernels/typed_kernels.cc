// See typed_kernels.h. Hot path: most operator calls of a program on simulated devices.
#include "locus/bridge/kernels/typed_kernels.h"

#include <c10/core/impl/LocalDispatchKeySet.h>

#include <tuple>
#include <type_traits>
#include <utility>

#include "locus/bridge/door/origins.h"
#include "locus/bridge/door/places.h"
#include "locus/bridge/door/policy.h"
#include "locus/bridge/dry/knowledge.h"
#include "locus/bridge/kernels/kernels.h"
#include "locus/bridge/kernels/results.h"
#include "locus/bridge/kernels/signatures.h"
#include "locus/bridge/kernels/special.h"
#include "locus/bridge/memory/scratch.h"
#include "locus/bridge/streams/graphs.h"

namespace locus::bridge {
namespace {

using at::Tensor;
using c10::DispatchKey;
using c10::DispatchKeySet;

/// An operand of the device, and the CPU tensor that stands for it during the call. The operand is the caller's: a copy
/// would be one more holder, which may cost the interpreter's lock.
struct Twin {
  const Tensor* device;
  Tensor host;
  bool written;
  int argument;

  const Tensor& tensor() const { return *device; }
};

class Twins {
 public:
  /// The number of an operand's twin; -1: undefined tensors and numbers of the CPU stand for themselves.
  int add(const Tensor& t, bool written, int argument) {
    if (!is_simulated(t)) return -1;
    for (size_t i = 0; i < all_.size(); ++i) {
      if (!all_[i].device->is_same(t)) continue;
      all_[i].written |= written;
      return static_cast<int>(i);
    }
    all_.push_back({&t, host_alias(t), written, argument});
    return static_cast<int>(all_.size()) - 1;
  }
  /// Elements of lists have one each: nobody asks which of hundreds are the same.
  const Tensor& add_element(const Tensor& t, bool written, int argument) {
    if (!is_simulated(t)) return t;
    all_.push_back({&t, host_alias(t), written, argument});
    return all_.back().host;
  }
  Tensor& operator[](int i) { return all_[static_cast<size_t>(i)].host; }
  auto begin() const { return all_.begin(); }
  auto end() const { return all_.end(); }

 private:
  c10::SmallVector<Twin, 4> all_;
};

/// An argument as the CPU's kernel gets it. All are made before the first is passed on: twins stay where they are then.
template <class Argument>
struct Given {
  Argument argument;
  Given(Argument from, bool, int, Twins&) : argument(std::forward<Argument>(from)) {}
  Argument pass(Twins&) { return std::forward<Argument>(argument); }
};
template <>
struct Given<const Tensor&> {
  const Tensor& given;
  int twin;
  Given(const Tensor& from, bool written, int argument, Twins& twins)
      : given(from), twin(twins.add(from, written, argument)) {}
  const Tensor& pass(Twins& twins) const { return twin < 0 ? given : twins[twin]; }
};
template <>
struct Given<Tensor&> {
  Tensor& given;
  int twin;
  Given(Tensor& from, bool, int argument, Twins& twins) : given(from), twin(twins.add(from, true, argument)) {}
  Tensor& pass(Twins& twins) const { return twin < 0 ? given : twins[twin]; }
};
template <>
struct Given<const MaybeTensor&> {
  const MaybeTensor& given;
  int twin;
  MaybeTensor host;
  Given(const MaybeTensor& from, bool written, int argument, Twins& twins)
      : given(from), twin(from.has_value() ? twins.add(*from, written, argument) : -1) {}
  const MaybeTensor& pass(Twins& twins) { return twin < 0 ? given : host = twins[twin]; }
};
struct GivenList {
  c10::SmallVector<Tensor, 8> hosts;
  template <class List>
  GivenList(const List& from, bool written, int argument, Twins& twins) {
    hosts.reserve(from.size());
    for (const Tensor& t : from) hosts.push_back(twins.add_element(t, written, argument));
  }
};
template <>
struct Given<at::TensorList> : GivenList {
  using GivenList::GivenList;
  at::TensorList pass(Twins&) const { return hosts; }
};
template <>
struct Given<const at::ITensorListRef&> : GivenList {
  using GivenList::GivenList;
  at::ITensorListRef pass(Twins&) const { return at::ITensorListRef(at::TensorList(hosts)); }
};

/// The results of a call, by number: what the card's memory is asked about, and what becomes the device's.
template <class Result>
struct Returns {
  static constexpr size_t kCount = 1;
  static const Tensor* look(const Result& result, size_t) {
    if constexpr (std::is_same_v<Result, Tensor>) return &result;
    return nullptr;
  }
  template <class Adopt>
  static void adopt(Result& result, size_t, Adopt&& adopt) {
    if constexpr (std::is_same_v<Result, Tensor>) {
      result = adopt(std::move(result));
    } else {
      for (Tensor& each : result) each = adopt(std::move(each));
    }
  }
};
template <class... T>
struct Returns<std::tuple<T...>> {
  static constexpr size_t kCount = sizeof...(T);
  static const Tensor* look(const std::tuple<T...>& results, size_t number) {
    const Tensor* found = nullptr;
    each(results, number, [&](const Tensor& t) { found = &t; });
    return found;
  }
  template <class Adopt>
  static void adopt(std::tuple<T...>& results, size_t number, Adopt&& adopt) {
    each(results, number, [&](Tensor& t) { t = adopt(std::move(t)); });
  }

 private:
  template <class Results, class See>
  static void each(Results& results, size_t number, See&& see) {
    std::apply(
        [&](auto&... one) {
          size_t at = 0;
          const auto look_at = [&](auto& value) {
            if constexpr (std::is_same_v<std::decay_t<decltype(value)>, Tensor>) {
              if (at == number) see(value);
            }
            at += 1;
          };
          (look_at(one), ...);
        },
        results);
  }
};

template <class Signature>
class TypedKernel;

template <class Result, class... Arguments>
class TypedKernel<Result(Arguments...)> final : public c10::OperatorKernel {
 public:
  using Signature = Result(Arguments...);
  /// Numbers for the host, and calls that name a device, are the common kernel's.
  static constexpr bool kServes =
      !std::is_same_v<Result, at::Scalar> && (!std::is_same_v<std::decay_t<Arguments>, MaybeDevice> && ...);

  TypedKernel(const c10::OperatorHandle& op, const OperatorPlan& plan)
      : op_(op.typed<Signature>()),
        plan_(plan),
        one_scalar_is_welcome_(plan.rule.kind == engine::RuleKind::kIteratorScalar && plan.rule.arguments == 0) {}

  Result operator()(DispatchKeySet keys, Arguments... arguments) {
    const int device = device_if_plain(arguments...);
    if (device < 0 || capturing() || dry::on() || machine().host().tight()) {
      static const auto common = c10::BoxedKernel::makeFromFunction<&simulated_kernel>();
      return c10::impl::BoxedKernelWrapper<Signature>::call(common, op_, keys, std::forward<Arguments>(arguments)...);
    }
    is_unseen();  // nothing to judge, but the next call of this thread is seen at the door
    return compute(device, std::index_sequence_for<Arguments...>(), std::forward<Arguments>(arguments)...);
  }

 private:
  /// The device of a call that has nothing to judge, all of whose operands are dense; -1: another call.
  template <class... Given_>
  int device_if_plain(Given_&... given) const {
    Places places;
    bool dense = true;
    const auto see = [&](const Tensor& t, bool written) {
      places.add(t, written);
      dense = dense && (!is_simulated(t) || is_plain(t));
    };
    (each_tensor_of(given, see), ...);
    return dense && places.plain(one_scalar_is_welcome_) ? places.card() : -1;
  }

  template <size_t... I>
  Result compute(int device, std::index_sequence<I...>, Arguments... arguments) {
    const OperatorScope scope(plan_.number);
    std::optional<CardMemory> memory;
    if (plan_.memory != sim::MemoryRule::kNone) memory.emplace(plan_.memory, device, arguments...);
    Twins twins;
    std::tuple<Given<Arguments>...> given{Given<Arguments>(std::forward<Arguments>(arguments),
                                                           plan_.arguments[I].written, static_cast<int>(I), twins)...};
    Adopted adopted;
    if constexpr (std::is_void_v<Result>) {
      call(device, [&] { op_.redispatch(kHost, std::get<I>(given).pass(twins)...); });
      follow(twins);
      if (memory.has_value()) memory->play(0, [](size_t) { return nullptr; }, [](size_t, std::int64_t) {});
      if (ordering()) note_work(device, twins, adopted);
    } else if constexpr (std::is_same_v<Result, Tensor&>) {
      const Tensor* host = nullptr;
      call(device, [&] { host = &op_.redispatch(kHost, std::get<I>(given).pass(twins)...); });
      follow(twins);
      if (memory.has_value()) memory->play(1, [&](size_t) { return host; }, [](size_t, std::int64_t) {});
      if (ordering()) note_work(device, twins, adopted);
      return std::get<0>(given).given;
    } else {
      std::optional<Result> made;
      call(device, [&] { made.emplace(op_.redispatch(kHost, std::get<I>(given).pass(twins)...)); });
      follow(twins);
      const auto adopt = [&](size_t number, std::int64_t counted) {
        Returns<Result>::adopt(*made, number, [&](Tensor&& t) {
          return to_device(std::move(t), twins, &adopted, device, static_cast<size_t>(counted));
        });
      };
      if (memory.has_value()) {
        memory->play(
            Returns<Result>::kCount, [&](size_t number) { return Returns<Result>::look(*made, number); }, adopt);
      } else {
        for (size_t number = 0; number < Returns<Result>::kCount; ++number) adopt(number, 0);
      }
      if (ordering()) note_work(device, twins, adopted);
      return std::move(*made);
    }
  }

  template <class Call>
  static void call(int device, Call&& host_kernel) {
    const KernelScope scope(device);
    const c10::impl::ExcludeDispatchKeyGuard below(kAboveKernels);
    host_kernel();
  }

  void follow(const Twins& twins) const {
    for (const Twin& twin : twins) {
      if (!twin.written) continue;
      follow_twin(*twin.device, twin.host);
      // Of these no wrapper above the kernel counts the writes, by which autograd knows of changed operands.
      if (plan_.elementwise_list) twin.device->unsafeGetTensorImpl()->bump_version();
    }
  }

  static Tensor to_device(Tensor&& t, const Twins& twins, Adopted* adopted, int device, size_t counted) {
    if (!t.defined() || !t.device().is_cpu()) return std::move(t);
    for (const Twin& twin : twins) {
      if (twin.host.is_same(t)) return *twin.device;
    }
    return adopt_result(std::move(t), twins, adopted, device, counted);
  }

  void note_work(int device, const Twins& twins, const Adopted& adopted) const {
    StreamWork work(device, plan_.number);
    for (const Twin& twin : twins) work.touches(*twin.device, twin.written, twin.argument);
    for (const auto& [host, made] : adopted) work.touches(*made, /*written=*/true);
    work.finish();
  }

  static constexpr DispatchKeySet kHost{DispatchKey::CPU};
  c10::TypedOperatorHandle<Signature> op_;
  const OperatorPlan& plan_;
  bool one_scalar_is_welcome_;
};

int g_typed_kernels = 0;

/// What a typed kernel sees to by itself. The rest is for the common one: random numbers, views, what the host waits
/// for, libraries that are set up, types that the CPU has no kernel for, arguments that belong on the CPU.
bool may_be_typed(const OperatorPlan& plan) {
  return plan.has_dense_host_kernel && !plan.host_only && plan.generator < 0 && !plan.draws && !plan.is_view &&
         !plan.synchronizes && (plan.libraries.may_set_up == 0 || plan.libraries.says_so) &&
         plan.wide_types == WideTypes::kNone && !has_cpu_argument(plan);
}

}  // namespace

bool install_typed_kernel(const c10::OperatorHandle& op) {
  const OperatorPlan& plan = plan_of(op);
  if (!may_be_typed(plan) || !KnownSignatures::install<TypedKernel>(op, plan, DispatchKey::CUDA)) return false;
  g_typed_kernels += 1;
  return true;
}

int typed_kernels() { return g_typed_kernels; }

}  // namespace locus::bridge
