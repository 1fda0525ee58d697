// See door.h. Hot path: everything in door() runs for each operator call of a checked program.
#include "locus/bridge/door/door.h"

#include <ATen/SequenceNumber.h>
#include <ATen/core/enum_tag.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>
#include <torch/library.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "locus/bridge/door/composites.h"
#include "locus/bridge/door/passage.h"
#include "locus/bridge/door/real.h"
#include "locus/bridge/door/repair.h"
#include "locus/bridge/door/typed_door.h"
#include "locus/bridge/door/watch.h"
#include "locus/bridge/kernels/generator.h"
#include "locus/bridge/memory/memory.h"
#include "locus/bridge/streams/card_work.h"
#include "locus/bridge/streams/ordering.h"
#include "locus/bridge/streams/pending.h"

namespace locus::bridge {
namespace {

namespace py = pybind11;
using at::Tensor;
using c10::Device;
using c10::DispatchKey;
using c10::DispatchKeySet;
using c10::IValue;
using engine::Origin;
using engine::OriginId;
using engine::Placement;
using torch::jit::Stack;

/// Same line, same operator, same operands odd for the same reason: the same mistake.
uint64_t key_of(const Call& call, const Violation& violation, engine::SiteId site) {
  uint64_t key = engine::mix((uint64_t{site} << 20) ^ call.plan.number);
  for (const OperandRef& ref : violation.odd) {
    const Tensor t = operand(call, ref);
    if (!t.defined()) continue;
    const Origin& origin = origins().at(origin_of_tensor(t));
    key = engine::mix(key ^ (uint64_t{origin.site} << 24) ^ (static_cast<uint64_t>(ref.argument) << 12) ^
                      static_cast<uint64_t>(t.device().index() + 1));
  }
  return engine::mix(key ^ (uint64_t{static_cast<uint8_t>(violation.device.index())} << 8));
}

/// Reports the first of its kind, counts the others.
Decision report_once(const Call& call, const Violation& violation) {
  const engine::SiteId site = current_site();
  return decide(key_of(call, violation, site), {false, violation.device},
                [&](uint64_t key) { return report_violation(call, violation, site, key); });
}

/// A copy back to a device is the device's own read, in the order of its stream, unless the host has to convert or to
/// gather the values first.
bool is_read_by_device(const Call& call, const Tensor& source) {
  if (!call.plan.moves && !call.plan.copies) return false;
  bool to_device = false, converts = false;
  if (call.plan.copies) {
    const Tensor& to = call.stack[call.base].toTensor();
    to_device = to.is_cuda();
    converts = to.scalar_type() != source.scalar_type();
  } else {
    const IValue& type = call.stack[call.base + 1];  // _to_copy(self, dtype, layout, device, …)
    const IValue& device = call.stack[call.base + 3];
    to_device = device.isDevice() && device.toDevice().is_cuda();
    converts = type.isInt() && type.toScalarType() != source.scalar_type();
  }
  return to_device && !converts && source.is_contiguous();
}

/// A copy from a device writes in the order of its stream; a temporary one of the host's is waited for.
bool is_written_by_device(const Call& call) {
  return call.plan.copies && call.stack[call.base + 1].isTensor() && call.stack[call.base + 1].toTensor().is_cuda();
}

/// A host operand that a copy still writes, and nobody waited for; or one that is written while a copy still reads it.
void check_pending(const Call& call) {
  if (!reads_values(call.plan) || leaves_values(call)) return;
  for (const std::uint16_t i : call.plan.holders) {
    const IValue& value = call.stack[call.base + i];
    if (!value.isTensor() || !value.toTensor().defined() || !value.toTensor().device().is_cpu()) continue;
    const Tensor& t = value.toTensor();
    if (call.plan.arguments[i].written) {
      if (!is_written_by_device(call)) check_host_write(call.plan.name, t, static_cast<int>(i));
    } else if (!is_read_by_device(call, t)) {
      check_host_read(call.plan.name, t, static_cast<int>(i), /*by_operator=*/true);
    }
  }
}

/// A generator of another device type than the call's: reported, and the device's own used instead.
void check_generator(const Call& call) {
  IValue& value = call.stack[call.base + call.plan.generator];
  if (!value.isGenerator() || !value.toGenerator().defined()) return;
  Device device(c10::kCPU);
  for (size_t i = 0; i < call.plan.arguments.size(); ++i) {
    const IValue& argument = call.stack[call.base + i];
    if (argument.isTensor() && argument.toTensor().defined()) {
      device = argument.toTensor().device();
      break;
    }
    if (argument.isDevice()) device = argument.toDevice();
  }
  const Device have = value.toGenerator().device();
  if (have.type() == device.type() || device.is_meta()) return;
  Violation violation;
  violation.kind = Violation::Kind::kGenerator;
  violation.device = device;
  violation.odd.push_back({call.plan.generator, -1});
  report_and_move(call, violation);
}

/// The call itself. What was moved may have left the card for the host: then PyTorch chooses the kernel anew, and new
/// results go to the card, where the program means to go on with them.
void go_on(const c10::OperatorHandle& op, const OperatorPlan& plan, DispatchKeySet next, Stack* stack,
           const std::optional<Device>& card) {
  if (!card.has_value()) return op.redispatchBoxed(next, stack);
  op.callBoxed(stack);
  if (card->is_cpu()) return;
  const size_t returns = op.schema().returns().size();
  for (size_t i = 0; i < returns && i < 32; ++i) {
    IValue& value = (*stack)[stack->size() - returns + i];
    if ((plan.aliases >> i & 1) != 0 || !value.isTensor() || !value.toTensor().defined()) continue;
    if (value.toTensor().device().is_cpu()) value = value.toTensor().to(*card);
  }
}

/// The card among a call's operands.
std::optional<Device> card_of(const Call& call) {
  for (const OperandRef& ref : all_operands(call)) {
    const Tensor t = operand(call, ref);
    if (t.device().is_cuda()) return t.device();
  }
  return std::nullopt;
}

/// Reports and moves. The card that the call must be taken from: a real one, whose operators look at their operands
/// themselves, or one that no operand is left on.
std::optional<Device> report_and_leave(const Call& call, const Violation& violation,
                                       const std::exception_ptr& refusal = nullptr) {
  const std::optional<Device> card = card_of(call);
  report_and_move(call, violation, refusal);
  if (!on_real_devices() && card_of(call).has_value()) return std::nullopt;
  // Lengths belong on the host, and so does what becomes of them.
  return violation.kind == Violation::Kind::kMustBeCpu && !card_of(call).has_value() ? Device(c10::kCPU) : card;
}

/// Tries a composite. True: it is done, its results are on the stack. False: a part refused; that is reported, the
/// operands are moved, and the call is still to be made.
bool try_whole(const Call& call, DispatchKeySet next, std::optional<Device>* card) {
  const Stack operands(call.stack.begin() + static_cast<std::ptrdiff_t>(call.base), call.stack.end());
  const std::exception_ptr refusal = refusal_of_parts([&] {
    const InsideComposite inside;
    call.op.redispatchBoxed(next, &call.stack);
  });
  if (refusal == nullptr) return true;
  call.stack.resize(call.base);
  call.stack.insert(call.stack.end(), operands.begin(), operands.end());
  *card = report_and_leave(call, violation_of_whole(call), refusal);
  return false;
}

/// The tensors whose history a result may have: a list stands for its first one.
void look_at_operands(const Call& call, Passage* passage) {
  for (const std::uint16_t i : call.plan.holders) {
    const IValue& value = call.stack[call.base + i];
    if (call.plan.arguments[i].kind == ArgumentKind::kTensor && value.isTensor()) {
      passage->look_at(value.toTensor());
    } else if (call.plan.arguments[i].kind == ArgumentKind::kTensorList && value.isTensorList()) {
      const auto list = value.toTensorList();
      if (!list.empty()) passage->look_at(list.get(0));
    }
  }
}

void note_result(const IValue& value, size_t number, Passage* passage) {
  if (value.isTensor()) {
    passage->note(value.toTensor(), number);
  } else if (value.isTensorList()) {
    const auto list = value.toTensorList();
    for (size_t i = 0; i < list.size(); ++i) passage->note(list.get(i), number);
  }
}

/// Nobody stands behind the door of a real card: there the parts of a composite must pass it too. PyTorch's own
/// composites mix nothing that came from one device.
bool opens_again(const Call& call) {
  if (!call.plan.composite || call.plan.tensors < 2 || call.plan.moves) return false;
  return call.plan.name.compare(0, 6, "aten::") != 0 || on_two_devices(call);
}

}  // namespace

void door(const c10::OperatorHandle& op, DispatchKeySet keys, Stack* stack) {
  const DispatchKeySet next = keys & DispatchKeySet(DispatchKeySet::FULL_AFTER, kCheckKey);
  if (t_reporting) {
    c10::impl::ExcludeDispatchKeyGuard closed{DispatchKeySet(kCheckKey)};
    return op.redispatchBoxed(next, stack);
  }
  const OperatorPlan& plan = plan_of(op);
  settle_lists(plan, stack);
  const bool judging = g_judging.load(std::memory_order_relaxed);
  const Call call{plan, op, *stack, stack->size() - plan.arguments.size()};
  Violation violation;
  if (plan.decomposes) {
    // A composite with a check of its own (LSTM, attention): judged here, its parts come back to the door.
    if (judging && find_violation(call, &violation)) {
      c10::impl::ExcludeDispatchKeyGuard closed{DispatchKeySet(kCheckKey)};
      report_and_move(call, violation);
    }
    return op.redispatchBoxed(next, stack);
  }
  const bool real = on_real_devices();
  if (real && judging && plan.elementwise_list && on_two_devices(call)) {
    // Taken apart, each element comes back to the door; on simulated devices the kernel does so.
    return op.callBoxedForDispatchKey(DispatchKey::CompositeExplicitAutograd, *stack);
  }
  const bool reopened = real && judging && opens_again(call);
  std::optional<c10::impl::ExcludeDispatchKeyGuard> closed;
  if (!reopened) closed.emplace(DispatchKeySet(kCheckKey));
  Passage passage(plan);
  std::optional<Device> card;  // that the operands were moved away from
  std::optional<Averages> averages;
  if (judging) {
    if (plan.tensors > 1 && find_violation(call, &violation)) {
      averages.emplace(call);
      card = report_and_leave(call, violation);
      averages->compare();
    }
    if (plan.generator >= 0) check_generator(call);
    if (copies_pending()) check_pending(call);
  }
  look_at_operands(call, &passage);
  std::optional<CardWork> work;
  if (real && judging && follows_on_card(plan)) work.emplace(call);
  if (judging && needs_trial(call) && try_whole(call, next, &card)) {
    // done
  } else if (real && (plan.moves || plan.copies || plan.synchronizes)) {
    const RealCrossing crossing(call);
    go_on(op, plan, next, stack, card);
    crossing.note(*stack);
  } else if (reopened) {
    const InsideComposite inside;
    go_on(op, plan, next, stack, card);
  } else {
    go_on(op, plan, next, stack, card);
  }
  if (averages.has_value()) averages->bring_back();
  passage.end();
  const size_t returns = op.schema().returns().size();
  if (work.has_value()) work->finish(returns);
  for (size_t i = stack->size() - returns; i < stack->size(); ++i) {
    note_result((*stack)[i], i + returns - stack->size(), &passage);
  }
}

namespace {

/// In place, and with a backward pass that makes memory: the line is asked for then.
constexpr std::array<std::string_view, 12> kActivations = {
    "aten::relu_",     "aten::leaky_relu_", "aten::elu_",     "aten::silu_", "aten::mish_", "aten::hardswish_",
    "aten::hardtanh_", "aten::threshold_",  "aten::sigmoid_", "aten::tanh_", "aten::exp_",  "aten::hardsigmoid_",
};

/// Nothing to check and nothing to remember: views, in-place operators of one tensor, composites without a check of
/// their own. They pass the door without stopping.
bool may_pass(const c10::OperatorHandle& op) {
  const OperatorPlan& plan = plan_of(op);
  if (plan.decomposes) return plan.rule.kind == engine::RuleKind::kAnywhere && plan.rule.arguments == 0;
  if (plan.tensors > 1 || plan.moves || plan.generator >= 0) return false;
  if (std::ranges::find(kActivations, op.schema().name()) != kActivations.end()) return false;
  const auto& returns = op.schema().returns();
  return plan.tensors == 1 && returns.size() == 1 && returns[0].alias_info() != nullptr;
}

/// On a real card only the door sees what is written in place.
bool only_on_simulated(const c10::OperatorHandle& op) {
  const OperatorPlan& plan = plan_of(op);
  return !plan.decomposes && !plan.is_view && !op.hasTag(at::Tag::inplace_view);
}

torch::Library* g_in_place = nullptr;  ///< lets those pass

}  // namespace

void install_door() {
  static bool done = false;
  if (done) return;
  done = true;
  static auto* any = new torch::Library(torch::Library::IMPL, "_", kCheckKey, __FILE__, __LINE__);
  const auto part = [] { return new torch::Library(torch::Library::IMPL, "aten", kCheckKey, __FILE__, __LINE__); };
  static auto* views = part();
  if (!on_real_devices()) g_in_place = part();
  auto& dispatcher = c10::Dispatcher::singleton();
  for (const auto& name : dispatcher.getAllOpNames()) {
    if (name.name.compare(0, 6, "aten::") != 0) continue;
    const auto op = dispatcher.findOp(name);
    if (!op.has_value() || !op->hasSchema()) continue;
    torch::Library* const passing = only_on_simulated(*op) ? g_in_place : views;
    if (!may_pass(*op) || passing == nullptr) {
      install_typed_door(*op);
      continue;
    }
    std::string full = name.name.substr(6);
    if (!name.overload_name.empty()) full += "." + name.overload_name;
    passing->impl(full.c_str(), torch::CppFunction::makeFallthrough());
  }
  any->fallback(torch::CppFunction::makeFromBoxedFunction<&door>());
}

void see_in_place() {
  delete g_in_place;
  g_in_place = nullptr;
}

void check_host_read(const std::string& op, const Tensor& t, int argument, bool by_operator) {
  if (policy() == Policy::kRaise || policy() == Policy::kMove) return;
  if (!on_real_devices()) return order_host_access(op, t, order::Kind::kRead, argument);
  // A view of its memory may be made before the copy is done; there the card says what is too early.
  const bool early = by_operator && order_card_host_access(op, t, order::Kind::kRead, argument);
  const std::optional<int> device = take_pending(t);  // it is waited for in any case
  if (!early && device.has_value()) report_early_read(op, t, argument, *device);
}

void check_host_write(const std::string& op, const Tensor& t, int argument) {
  if (policy() == Policy::kRaise || policy() == Policy::kMove) return;
  if (on_real_devices()) {
    order_card_host_access(op, t, order::Kind::kWrite, argument);
    return;
  }
  order_host_access(op, t, order::Kind::kWrite, argument);
}

uint64_t calls_seen() { return g_calls.load(); }

KeptErrors& kept_errors() {
  static auto* errors = new KeptErrors;  // never destroyed: threads may raise to the very end
  return *errors;
}

void KeptErrors::note(std::string words) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (words_.size() < kMost) words_.insert(std::move(words));
}

bool KeptErrors::take(const std::string& words) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = words_.find(words);
  if (found == words_.end()) return false;
  words_.erase(found);
  return true;
}

void report_and_raise(const Call& call, const Violation& violation) {
  if (policy() != Policy::kRaise) {
    report_once(call, violation);
    kept_errors().note(violation_message(call, violation));
  }
  raise_violation(call, violation);
}

void report_and_move(const Call& call, const Violation& violation, const std::exception_ptr& refusal) {
  if (policy() == Policy::kRaise) return;  // the kernel raises, in the operator's own words
  refuse_in_trial(call, violation);
  const Decision decision = report_once(call, violation);
  if (decision.raise) {
    if (refusal != nullptr) std::rethrow_exception(refusal);
    if (on_real_devices()) return;  // the card has its own word on it
    raise_violation(call, violation);
  }
  try {
    move_operands(call, violation, decision.device);
    // On a real card what is still mixed would end the program; on simulated ones the kernel sees to it.
    Violation rest;
    if (on_real_devices() && find_violation(call, &rest)) move_operands(call, rest, rest.device);
  } catch (const c10::OutOfMemoryError&) {
    raise_violation(call, violation);  // no room to go on: the program gets what it would have got without us
  }
}

}  // namespace locus::bridge
