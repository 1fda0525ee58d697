// See host.h.
#include "locus/bridge/dry/host.h"

#include <ATen/EmptyTensor.h>
#include <ATen/ops/copy_ops.h>
#include <ATen/ops/empty_native.h>
#include <ATen/ops/empty_strided_native.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/library.h>

#include <atomic>
#include <string>

#include "locus/bridge/door/check.h"
#include "locus/bridge/door/door.h"
#include "locus/bridge/door/origins.h"
#include "locus/bridge/dry/call.h"
#include "locus/bridge/streams/pending.h"

namespace locus::bridge::dry {
namespace {

using at::Tensor;
using c10::DispatchKey;
using c10::DispatchKeySet;
using std::optional;
using torch::jit::Stack;

/// Host data that the program has made of values stays as it is, up to this size each and in all.
constexpr std::size_t kKeptAtOnce = std::size_t{64} << 20, kKeptInAll = std::size_t{512} << 20;
std::atomic<std::size_t> g_kept{0};

bool keep_bytes(std::size_t bytes) {
  if (settings().keep == 0 || bytes > kKeptAtOnce) return false;
  if (g_kept.fetch_add(bytes, std::memory_order_relaxed) + bytes <= kKeptInAll) return true;
  g_kept.fetch_sub(bytes, std::memory_order_relaxed);
  return false;
}

/// Operators that pass the door without stopping are seen by the memory that they write; here nobody writes any.
void check_written(const Arguments& arguments) {
  for (std::size_t i = 0; i < arguments.plan.arguments.size(); ++i) {
    const c10::IValue& value = arguments.stack[arguments.base + i];
    if (!arguments.plan.arguments[i].written || !value.isTensor()) continue;
    check_host_write(arguments.plan.name, value.toTensor(), static_cast<int>(i));
  }
}

void host_kernel(const c10::OperatorHandle& op, DispatchKeySet keys, Stack* stack) {
  const OperatorPlan& plan = plan_of(op);
  settle_lists(plan, stack);
  const Arguments arguments{op, plan, *stack, stack->size() - plan.arguments.size()};
  const DispatchKeySet below = keys.remove(kHostKey);
  for (const Tensor& t : operands_of(arguments)) {
    if (!t.device().is_cpu()) return op.redispatchBoxed(below, stack);  // the device's kernel looks at them
  }
  OperatorScope scope(t_operator != 0 ? t_operator : plan.number);
  if (copies_pending()) check_written(arguments);
  Call call(arguments, -1);
  switch (call.answer()) {
    case Answer::kDone:
      return;
    case Answer::kCompute:
      return op.redispatchBoxed(below, stack);
    case Answer::kComputeUnknown:
      op.redispatchBoxed(below, stack);
      return call.finish();
    case Answer::kTakeApart:
      return call.take_apart();
  }
}

Tensor& host_copy(DispatchKeySet keys, Tensor& self, const Tensor& source, bool non_blocking) {
  if (!self.device().is_cpu() || !source.device().is_cpu()) {
    return at::_ops::copy_::redispatch(keys.remove(kHostKey), self, source, non_blocking);
  }
  if (!copy_dry(self, source))
    at::_ops::copy_::redispatch(DispatchKeySet(DispatchKey::CPU), self, source, non_blocking);
  return self;
}

/// What torch.tensor(data) makes is filled by Python, element by element: it has its values. PyTorch's code for that
/// is the only one that allocates while it keeps Python's dispatch out.
bool is_filled_by_python() { return c10::impl::tls_is_dispatch_key_excluded(DispatchKey::Python); }

Tensor without_values(Tensor made) {
  if (!on() || t_kernel_device >= 0 || is_filled_by_python() || !made.device().is_cpu()) return made;
  if (!is_small(bytes_of_storage(made), made.scalar_type(), /*on_host=*/true)) set_knowledge(made, Knowledge::kUnknown);
  return made;
}

Tensor empty(c10::SymIntArrayRef size, optional<at::ScalarType> type, optional<at::Layout> layout,
             optional<c10::Device> device, optional<bool> pinned, optional<at::MemoryFormat> format) {
  return without_values(at::native::empty_cpu(C10_AS_INTARRAYREF_SLOW(size), type, layout, device, pinned, format));
}

Tensor empty_strided(c10::SymIntArrayRef size, c10::SymIntArrayRef stride, optional<at::ScalarType> type,
                     optional<at::Layout> layout, optional<c10::Device> device, optional<bool> pinned) {
  return without_values(at::native::empty_strided_cpu(C10_AS_INTARRAYREF_SLOW(size), C10_AS_INTARRAYREF_SLOW(stride),
                                                      type, layout, device, pinned));
}

/// "add.Tensor", of aten::add.Tensor.
std::string full_of(const c10::OperatorName& name) {
  return name.name.substr(6) + (name.overload_name.empty() ? "" : "." + name.overload_name);
}

class Silence final : public c10::WarningHandler {
  void process(const c10::Warning&) override {}
};

}  // namespace

bool copy_dry(const Tensor& to, const Tensor& from) {
  const Knowledge source = knowledge_of(from);
  const bool on_host = to.device().is_cpu(), whole = covers_storage(to);
  const bool small = is_small(bytes_of_storage(to), to.scalar_type(), on_host);
  if (source == Knowledge::kKnown) {
    if (!is_unknown(to)) {
      if (small || on_host) return false;
      set_knowledge(to, Knowledge::kUnknown);  // large, and on a device
      return true;
    }
    // Known values over all of it make it known again, where it may have bytes.
    if (whole && (small || (on_host && keep_bytes(to.nbytes())))) {
      set_knowledge(to, Knowledge::kKnown);
      return false;
    }
    set_knowledge(to, Knowledge::kUnknown);
    return true;
  }
  const bool uniform = source == Knowledge::kZeros || source == Knowledge::kOnes;
  if (uniform && whole && (small || !on_host)) {
    set_knowledge(to, small ? Knowledge::kKnown : source);
    if (small) fill_for_real(to, at::Scalar(source == Knowledge::kOnes ? 1 : 0));
    return true;
  }
  if (on_host && is_small(to.nbytes(), to.scalar_type(), true)) {
    if (from.device().is_cuda() && !uniform) note(engine::MadeUpKind::kValue);  // it has reached the host
    const bool ones = source == Knowledge::kOnes || source == Knowledge::kLikely;
    fill_for_real(to, uniform || ones ? at::Scalar(ones ? 1 : 0) : made_up_value(to.scalar_type()));
  }
  const std::int64_t bound = whole ? bound_of(from) : 0;
  set_knowledge(to, Knowledge::kUnknown);
  set_bound(to, bound);
  return true;
}

void install_host_kernels() {
  static bool done = false;
  if (done) return;
  done = true;
  static Silence silence;
  c10::WarningUtils::WarningHandlerGuard quiet(&silence);
  static auto* any = new torch::Library(torch::Library::IMPL, "_", kHostKey, __FILE__, __LINE__);
  any->fallback(torch::CppFunction::makeFromBoxedFunction<&host_kernel>());
  static auto* aten = new torch::Library(torch::Library::IMPL, "aten", kHostKey, __FILE__, __LINE__);
  aten->impl("copy_", TORCH_FN(host_copy));
  // A key of this kind takes PyTorch's way to make an operator out of others rather than a fallback, also where the
  // host has a kernel of its own.
  for (const c10::OperatorName& name : c10::Dispatcher::singleton().getAllOpNames()) {
    const auto op = c10::Dispatcher::singleton().findOp(name);
    if (name.getNamespace() != "aten" || !op.has_value()) continue;
    const bool composed = op->hasKernelForDispatchKey(DispatchKey::CompositeExplicitAutogradNonFunctional) ||
                          op->hasKernelForDispatchKey(DispatchKey::CompositeExplicitAutograd);
    if (!composed || !op->hasKernelForDispatchKey(DispatchKey::CPU) || full_of(name) == "copy_") continue;
    aten->impl(full_of(name).c_str(), torch::CppFunction::makeFromBoxedFunction<&host_kernel>());
  }
  static auto* cpu = new torch::Library(torch::Library::IMPL, "aten", DispatchKey::CPU, __FILE__, __LINE__);
  cpu->impl("empty.memory_format", TORCH_FN(empty));
  cpu->impl("empty_strided", TORCH_FN(empty_strided));
}

}  // namespace locus::bridge::dry
