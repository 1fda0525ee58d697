// The kernels of the simulated devices. One boxed kernel serves nearly all operators: operands are seen at their host
// addresses, PyTorch's CPU kernel runs, results are handed back as device tensors. No arithmetic here.
#include "locus/bridge/kernels/kernels.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/util/SmallVector.h>
#include <torch/library.h>

#include <optional>
#include <string>

#include "locus/bridge/door/check.h"
#include "locus/bridge/door/door.h"
#include "locus/bridge/door/origins.h"
#include "locus/bridge/door/visiting.h"
#include "locus/bridge/door/watch.h"
#include "locus/bridge/door/wording.h"
#include "locus/bridge/dry/call.h"
#include "locus/bridge/kernels/generator.h"
#include "locus/bridge/kernels/plan.h"
#include "locus/bridge/kernels/results.h"
#include "locus/bridge/kernels/special.h"
#include "locus/bridge/memory/host_room.h"
#include "locus/bridge/memory/library_handles.h"
#include "locus/bridge/memory/memory.h"
#include "locus/bridge/memory/scratch.h"
#include "locus/bridge/state.h"
#include "locus/bridge/streams/graphs.h"

namespace locus::bridge {
namespace {

using at::Tensor;
using c10::DispatchKey;
using c10::DispatchKeySet;
using c10::IValue;
using torch::jit::Stack;

/// An operand on a simulated device, and the CPU tensor that stands for it during the call.
struct Operand {
  Tensor device;
  Tensor host;   ///< held until the results are known by their addresses: no other tensor may get this one's
  bool written;  ///< the kernel may change its sizes
  int argument = 0;

  const Tensor& tensor() const { return device; }
};
using Operands = c10::SmallVector<Operand, 6>;

[[noreturn]] void refuse(const OperatorPlan& plan, const char* why) {
  TORCH_CHECK_NOT_IMPLEMENTED(
      false, "locus: the operator '", plan.name, "' is not simulated: ", why,
      " Run this part on the CPU (x.cpu()), or guard it so that it is skipped where no real GPU is present.");
}

class HostCall {
 public:
  HostCall(const c10::OperatorHandle& op, const OperatorPlan& plan, Stack* stack, bool dispatch_by_operands)
      : op_(op),
        plan_(plan),
        stack_(stack),
        base_(stack->size() - plan.arguments.size()),
        dispatch_by_operands_(dispatch_by_operands) {}

  void run() {
    if (plan_.elementwise_list && on_two_devices(Call{plan_, op_, *stack_, base_})) {
      // Taken apart, each element is checked and computed where it is, as PyTorch's slow path does.
      return op_.callBoxedForDispatchKey(DispatchKey::CompositeExplicitAutograd, *stack_);
    }
    check_operands();
    find_device();
    if (plan_.libraries.may_set_up != 0) set_up_libraries(plan_.libraries, device_);
    if (dry::on()) return run_dry();
    compute();
  }

 private:
  void run_dry() {
    dry::Call call({op_, plan_, *stack_, base_}, device_);
    const bool followed = ordering() && !plan_.is_view;
    if (followed) hold_operands();
    const dry::Answer answer = call.answer();
    if (followed && answer == dry::Answer::kDone) note_dry_work();
    operands_.clear();
    switch (answer) {
      case dry::Answer::kDone:
        if (watching() && (plan_.synchronizes || call.has_mask())) wait_on_host();
        return;
      case dry::Answer::kCompute:
        return compute();
      case dry::Answer::kComputeUnknown:
        compute();
        return call.finish();
      case dry::Answer::kTakeApart: {
        c10::impl::ExcludeDispatchKeyGuard below(kAboveKernels);
        return call.take_apart();
      }
    }
  }

  void compute() {
    for (size_t i = 0; i < plan_.arguments.size(); ++i) {
      const Argument& argument = plan_.arguments[i];
      if (argument.kind == ArgumentKind::kOther) continue;
      bring_to_host(argument, (*stack_)[base_ + i]);
    }
    if (machine().host().tight() && !plan_.writes_part) need_room();
    std::optional<CardMemory> memory;
    if (plan_.memory != sim::MemoryRule::kNone) memory.emplace(plan_, *stack_, base_, device_);
    call();
    for (auto& operand : operands_) {
      if (!operand.written) continue;
      follow_metadata(operand);
      // Of these no wrapper above the kernel counts the writes, by which autograd knows of changed operands.
      if (plan_.elementwise_list) operand.device.unsafeGetTensorImpl()->bump_version();
    }
    const size_t returns = op_.schema().returns().size();
    const size_t first = stack_->size() - returns;
    if (memory.has_value()) {
      memory->play(*stack_, returns, [&](size_t i, std::int64_t bytes) {
        counted_ = static_cast<size_t>(bytes);
        bring_to_device((*stack_)[first + i]);
      });
    } else {
      for (size_t i = first; i < stack_->size(); ++i) bring_to_device((*stack_)[i]);
    }
    if (ordering() && !plan_.is_view) note_work();
    if (watching() && (plan_.synchronizes || has_mask_)) wait_on_host();
  }

  /// On a card the host waits for the result, or for how much a mask selects. Masked writes may do without that.
  void wait_on_host() const {
    host_waits(device_, current_stream(device_));
    if (!plan_.arguments[0].written) note_synchronization(device_, plan_.number);
  }

  /// What the kernel has read, written and made, for whoever follows streams.
  void note_work() {
    StreamWork work(device_, plan_.number);
    for (const Operand& each : operands_) work.touches(each.device, each.written, each.argument);
    for (const auto& [host, device] : adopted_) work.touches(*device, /*written=*/true);
    work.finish();
  }

  /// In a dry run nobody brings them to the host.
  void hold_operands() {
    const Call call{plan_, op_, *stack_, base_};
    for (const OperandRef& ref : all_operands(call)) {
      Tensor t = operand(call, ref);
      const bool written = plan_.arguments[static_cast<size_t>(ref.argument)].written;
      if (is_simulated(t)) operands_.push_back({std::move(t), Tensor(), written, ref.argument});
    }
  }
  /// The same for what a dry run has answered: the results are on the stack.
  void note_dry_work() {
    for (size_t i = base_; i < stack_->size(); ++i) {
      look_at_tensors((*stack_)[i], [&](const Tensor& t) {
        if (!is_simulated(t) || !is_plain(t)) return;
        for (const Operand& each : operands_) {
          if (is_plain(each.device) && storage_behind(each.device) == storage_behind(t)) return;
        }
        adopted_.emplace_back(nullptr, c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(storage_behind(t)));
      });
    }
    note_work();
  }

  /// As a real GPU does, in the kernel. While a program is checked the door has seen most calls before; what
  /// gets here (operators that other operators call, the first call of a thread that nobody watched) is reported too.
  void check_operands() {
    const bool unseen = is_unseen();
    const Call call{plan_, op_, *stack_, base_};
    Violation violation;
    if (!find_violation(call, &violation)) return;
    if (violation.kind == Violation::Kind::kDevices && policy() == Policy::kRaise) raise_shapes_first(call);
    answer(call, violation, unseen);
  }

  /// The device of the call: that of its CUDA operands, else the one named, else the current one.
  void find_device() {
    for (size_t i = 0; i < plan_.arguments.size() && device_ < 0; ++i) {
      const IValue& value = (*stack_)[base_ + i];
      if (value.isTensor()) {
        const Tensor& t = value.toTensor();
        if (is_simulated(t)) device_ = t.device().index();
      } else if (plan_.arguments[i].kind == ArgumentKind::kTensorList && value.isTensorList()) {
        const auto list = value.toTensorList();
        for (size_t k = 0; k < list.size() && device_ < 0; ++k) {
          const Tensor& t = list.get(k);
          if (is_simulated(t)) device_ = t.device().index();
        }
      } else if (value.isDevice() && value.toDevice().is_cuda()) {
        device_ = resolve_device(value.toDevice());
      }
    }
    if (device_ >= 0) return;
    // Nothing but the generator brought the call here: it belongs to the CPU, and the generator does not.
    TORCH_CHECK(plan_.generator < 0 || !(*stack_)[base_ + plan_.generator].isGenerator(),
                "Expected a 'cpu' device type for generator but found 'cuda'");
    device_ = t_current_device;
  }

  void bring_to_host(const Argument& argument, IValue& value) {
    if (argument.kind == ArgumentKind::kDevice) {
      if (value.isDevice() && value.toDevice().is_cuda()) value = c10::Device(c10::kCPU);
    } else if (argument.kind == ArgumentKind::kGenerator) {
      if (value.isGenerator() && value.toGenerator().defined()) {
        value = cpu_generator_of(value.toGenerator());
      } else if (plan_.draws) {
        value = cpu_generator_of(default_generator(device_));
      }
    } else {
      argument_ = static_cast<int>(&argument - plan_.arguments.data());
      visit_tensors(argument.kind, value, [&](Tensor& t) {
        if (!is_simulated(t)) return;
        has_mask_ = has_mask_ || (argument.kind == ArgumentKind::kOptionalTensorList &&
                                  (t.scalar_type() == at::kBool || t.scalar_type() == at::kByte));
        t = to_host(std::move(t), argument.written);
      });
    }
  }

  /// More was handed out than this machine's memory can hold: it must not run out while the kernel writes.
  void need_room() const {
    for (const auto& operand : operands_) {
      if (operand.written && is_plain(operand.device)) need_room_to_fill(operand.host, device_);
    }
  }

  Tensor to_host(Tensor&& t, bool written) {
    if (!is_plain(t)) {
      dispatch_by_operands_ = true;
      Tensor host = special_to_host(t, [this](const Tensor& part) { return to_host(Tensor(part), false); });
      learn_as(t, host);
      operands_.push_back({std::move(t), host, written, argument_});
      return host;
    }
    for (auto& known : operands_) {
      if (!known.device.is_same(t)) continue;
      known.written |= written;
      return known.host;
    }
    Tensor host = host_alias(t);
    if (dispatch_by_operands_) learn_as(t, host);
    operands_.push_back({std::move(t), host, written, argument_});
    return host;
  }

  /// Some sparse kernels ask whether an operand needs a gradient, and prepare for the backward pass then.
  static void learn_as(const Tensor& device, const Tensor& host) {
    if (device.requires_grad()) host.unsafeGetTensorImpl()->set_requires_grad(true);
  }

  void call() {
    KernelScope scope(device_);
    c10::impl::ExcludeDispatchKeyGuard below(kAboveKernels);
    if (plan_.draws && plan_.generator < 0) {
      BorrowDefaultGenerator borrowed(device_);
      call_host_kernel();
    } else if (plan_.wide_types != WideTypes::kNone) {
      WideCall wide(plan_, *stack_, base_);
      call_host_kernel();
      wide.finish(*stack_, op_.schema().returns().size());
    } else {
      call_host_kernel();
    }
  }

  void call_host_kernel() {
    if (!dispatch_by_operands_) return op_.redispatchBoxed(DispatchKeySet(DispatchKey::CPU), stack_);
    try {
      op_.callBoxed(stack_);
    } catch (const c10::NotImplementedError& error) {  // "Could not run … with arguments from the 'SparseCPU' backend"
      std::string words = error.what_without_backtrace();
      const size_t end = words.find("CPU' backend");
      if (words.rfind("Could not run '", 0) != 0 || end == std::string::npos) throw;
      TORCH_CHECK_NOT_IMPLEMENTED(false, words.replace(end, 3, "CUDA"));
    }
  }

  /// resize_ and out= may have given the host twin other sizes or other memory.
  void follow_metadata(Operand& operand) {
    if (!is_plain(operand.device)) {
      return special_follow(operand.device, operand.host, [this](Tensor part) { return to_device(std::move(part)); });
    }
    follow_twin(operand.device, operand.host);
  }

  void bring_to_device(IValue& value) {
    if (value.isTensor()) {
      Tensor t = std::move(value).toTensor();
      value = to_device(std::move(t));
    } else if (value.isTensorList()) {
      auto list = std::move(value).toTensorList();
      c10::List<Tensor> fresh;
      fresh.reserve(list.size());
      for (size_t i = 0; i < list.size(); ++i) fresh.push_back(to_device(list.extract(i)));
      value = std::move(fresh);
    }
  }

  Tensor to_device(Tensor&& t) {
    if (!t.defined() || !t.device().is_cpu()) return std::move(t);
    c10::TensorImpl* impl = t.unsafeGetTensorImpl();
    for (auto& operand : operands_) {
      if (operand.host.unsafeGetTensorImpl() == impl) return operand.device;
    }
    if (!is_plain(t)) {
      return special_to_device(t, device_, [this](Tensor part) { return to_device(std::move(part)); });
    }
    return adopt_result(std::move(t), operands_, &adopted_, device_, counted_);
  }

  const c10::OperatorHandle& op_;
  const OperatorPlan& plan_;
  Stack* stack_;
  size_t base_;
  int device_ = -1;
  int argument_ = 0;       ///< the one at hand
  bool has_mask_ = false;  ///< among the indices
  size_t counted_ = 0;     ///< what the result in hand counts for on the card; 0: its size
  Operands operands_;
  Adopted adopted_;
  bool dispatch_by_operands_;  ///< sparse operands or results: PyTorch picks the CPU kernel
};

/// A card looks at the operands before it does anything; so does what can't do more.
[[noreturn]] void refuse_call(const c10::OperatorHandle& op, Stack* stack) {
  const OperatorPlan& plan = plan_of(op);
  const bool unseen = is_unseen();
  const Call call{plan, op, *stack, stack->size() - plan.arguments.size()};
  Violation violation;
  if (find_violation(call, &violation)) {
    if (unseen) report_and_raise(call, violation);
    raise_violation(call, violation);
  }
  refuse(plan, "PyTorch has it for real CUDA devices only.");
}

void run_on_host(const c10::OperatorHandle& op, Stack* stack, bool dispatch_by_operands) {
  const OperatorPlan& plan = plan_of(op);
  settle_lists(plan, stack);
  if (!plan.has_host_kernel) refuse_call(op, stack);
  // In PyTorch's words: a card has no such kernel either.
  TORCH_CHECK_NOT_IMPLEMENTED(
      !plan.host_only && (plan.has_dense_host_kernel || dispatch_by_operands), "Could not run '", plan.name,
      "' with arguments from the 'CUDA' backend. This could be "
      "because the operator doesn't exist for this backend, or was omitted during the selective/custom build "
      "process (if using custom build). '",
      plan.name, "' is only available for these backends: [", plan.host_only ? "CPU" : "sparse or nested tensors",
      "].");
  OperatorScope scope(plan.number);
  const auto run = [&] { HostCall(op, plan, stack, dispatch_by_operands).run(); };
  capturing() ? capture_call(op, plan, stack, run) : run();
}

}  // namespace

void simulated_kernel(const c10::OperatorHandle& op, DispatchKeySet, Stack* stack) { run_on_host(op, stack, false); }
void simulated_special_kernel(const c10::OperatorHandle& op, DispatchKeySet, Stack* stack) {
  run_on_host(op, stack, true);
}
void refusing_kernel(const c10::OperatorHandle& op, DispatchKeySet, Stack* stack) { refuse_call(op, stack); }
void refusing_quantized_kernel(const c10::OperatorHandle& op, DispatchKeySet, Stack*) {
  refuse(plan_of(op), "quantized tensors are not.");
}

}  // namespace locus::bridge
