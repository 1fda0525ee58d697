// See typed_door.h. Hot path: most operator calls of a checked program.
#include "locus/bridge/door/typed_door.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <tuple>

#include "locus/bridge/door/door.h"
#include "locus/bridge/door/passage.h"
#include "locus/bridge/door/places.h"
#include "locus/bridge/kernels/signatures.h"
#include "locus/bridge/streams/card_calls.h"
#include "locus/bridge/streams/pending.h"

namespace locus::bridge {
namespace {

using at::Tensor;
using c10::DispatchKeySet;

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
  static constexpr bool kServes = true;

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
    if (card_ordering()) return false;                                 // what it touches is told
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

int g_typed_doors = 0;

/// What a typed door sees to by itself. The rest is for the common one: generators, arguments that belong on the CPU.
bool may_be_typed(const OperatorPlan& plan) { return plan.generator < 0 && !has_cpu_argument(plan); }

}  // namespace

void install_typed_door(const c10::OperatorHandle& op) {
  const OperatorPlan& plan = plan_of(op);
  if (may_be_typed(plan) && KnownSignatures::install<TypedDoor>(op, plan, kCheckKey)) g_typed_doors += 1;
}

int typed_doors() { return g_typed_doors; }

}  // namespace locus::bridge
