// Puts the kernels behind dispatch key CUDA: the boxed one for every operator that PyTorch can run on the
// CPU, hand-written ones for allocation, views and copies.
#include <ATen/Context.h>
#include <ATen/core/Tensor.h>
#include <ATen/native/TensorFactories.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/copy_ops.h>
#include <ATen/ops/set_native.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_as_complex_native.h>
#include <ATen/ops/view_as_real_native.h>
#include <ATen/ops/view_native.h>
#include <c10/core/DefaultDtype.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/library.h>

#include <map>
#include <unordered_set>

#include "locus/bridge/door/check.h"
#include "locus/bridge/door/origins.h"
#include "locus/bridge/door/rules.h"
#include "locus/bridge/door/watch.h"
#include "locus/bridge/dry/host.h"
#include "locus/bridge/dry/knowledge.h"
#include "locus/bridge/kernels/cuda_only.h"
#include "locus/bridge/kernels/kernels.h"
#include "locus/bridge/kernels/plan.h"
#include "locus/bridge/kernels/typed_kernels.h"
#include "locus/bridge/memory/host_room.h"
#include "locus/bridge/memory/memory.h"
#include "locus/bridge/memory/purpose.h"
#include "locus/bridge/state.h"
#include "locus/bridge/streams/graphs.h"
#include "locus/bridge/streams/pinned.h"

namespace locus::bridge {
namespace {

using at::Tensor;
using c10::Device;
using c10::DispatchKey;
using c10::DispatchKeySet;
using std::optional;

caffe2::TypeMeta type_or_default(optional<at::ScalarType> dtype) {
  return dtype.has_value() ? c10::scalarTypeToTypeMeta(*dtype) : c10::get_default_dtype();
}

/// With torch.use_deterministic_algorithms, new memory is not left as it is.
Tensor deterministic(Tensor&& made) {
  if (dry::on() && !dry::is_small(dry::bytes_of_storage(made), made.scalar_type(), /*on_host=*/false)) {
    dry::set_knowledge(made, dry::Knowledge::kUnknown);
    return std::move(made);
  }
  const auto& context = at::globalContext();
  if (context.deterministicAlgorithms() && context.deterministicFillUninitializedMemory()) {
    c10::impl::ExcludeDispatchKeyGuard below(c10::autograd_dispatch_keyset_with_ADInplaceOrView |
                                             DispatchKeySet(kCheckKey));
    Tensor host = host_alias(made);
    at::native::fill_empty_deterministic_(host);
  }
  return std::move(made);
}

Tensor empty(c10::SymIntArrayRef size, optional<at::ScalarType> dtype, optional<at::Layout>, optional<Device> device,
             optional<bool> pin_memory, optional<at::MemoryFormat> format) {
  TORCH_CHECK(!pin_memory.value_or(false), "Only dense CPU tensors can be pinned");
  const auto sizes = C10_AS_INTARRAYREF_SLOW(size);
  for (const int64_t extent : sizes) {
    TORCH_CHECK(extent >= 0, "Trying to create tensor with negative dimension ", extent, ": ", sizes);
  }
  is_unseen();
  static const engine::OperatorId number = operator_number("aten::empty.memory_format");
  OperatorScope scope(t_operator != 0 ? t_operator : number);
  const int index = resolve_device(device.value_or(Device(c10::kCUDA)));
  const auto type = type_or_default(dtype);
  c10::SmallVector<int64_t, 6> strides(sizes.size());
  int64_t step = 1;
  for (size_t i = sizes.size(); i-- > 0;) {
    strides[i] = step;
    step *= std::max<int64_t>(sizes[i], 1);
  }
  Tensor t = empty_on_device(sizes, strides, type, index);
  if (format.has_value() && *format != at::MemoryFormat::Contiguous) {
    t.unsafeGetTensorImpl()->empty_tensor_restride(*format);
  }
  return deterministic(std::move(t));
}

Tensor empty_strided(c10::SymIntArrayRef size, c10::SymIntArrayRef stride, optional<at::ScalarType> dtype,
                     optional<at::Layout>, optional<Device> device, optional<bool>) {
  is_unseen();
  static const engine::OperatorId number = operator_number("aten::empty_strided");
  OperatorScope scope(t_operator != 0 ? t_operator : number);
  const int index = resolve_device(device.value_or(Device(c10::kCUDA)));
  return deterministic(
      empty_on_device(C10_AS_INTARRAYREF_SLOW(size), C10_AS_INTARRAYREF_SLOW(stride), type_or_default(dtype), index));
}

/// Host to device, device to host, device to device: one copy between host addresses.
Tensor& copy_(Tensor& self, const Tensor& source, bool non_blocking) {
  is_unseen();
  if (capturing() && capture_copy(self, source, non_blocking)) return self;
  if (watching()) {
    note_transfer(self, source, non_blocking);
    if (!is_simulated(source) && self.has_storage())
      is_for(*self.storage().unsafeGetStorageImpl(), engine::MemoryKind::kData);
  }
  const PinnedWindow window(self, source);
  if (dry::on() && dry::copy_dry(self, source)) return self;
  const Tensor to = is_simulated(self) ? host_alias(self) : self;
  const Tensor from = is_simulated(source) ? host_alias(source) : source;
  c10::impl::ExcludeDispatchKeyGuard below(c10::autograd_dispatch_keyset_with_ADInplaceOrView |
                                           DispatchKeySet(kCheckKey));
  if (is_simulated(self) && machine().host().tight()) need_room_to_fill(to, self.device().index());
  Tensor target = to;
  at::_ops::copy_::redispatch(DispatchKeySet(DispatchKey::CPU), target, from, false);
  return self;
}

Tensor as_strided(const Tensor& self, c10::SymIntArrayRef size, c10::SymIntArrayRef stride,
                  optional<c10::SymInt> offset) {
  is_unseen();
  return at::native::as_strided_tensorimpl(self, C10_AS_INTARRAYREF_SLOW(size), C10_AS_INTARRAYREF_SLOW(stride),
                                           offset.has_value() ? optional<int64_t>(offset->expect_int()) : std::nullopt);
}
Tensor view(const Tensor& self, c10::SymIntArrayRef size) {
  is_unseen();
  return at::native::view(self, C10_AS_INTARRAYREF_SLOW(size));
}
Tensor reshape_alias(const Tensor& self, c10::SymIntArrayRef size, c10::SymIntArrayRef stride) {
  is_unseen();
  return at::native::_reshape_alias(self, C10_AS_INTARRAYREF_SLOW(size), C10_AS_INTARRAYREF_SLOW(stride));
}

void check_same_device(const Tensor& self, const at::Storage& storage) {
  TORCH_CHECK(self.device() == storage.device(), "Attempted to set the storage of a tensor on device \"", self.device(),
              "\" to a storage on different device \"", storage.device(),
              "\".  This is no longer allowed; the devices must match.");
}
Tensor& set_range(Tensor& self, at::Storage storage, c10::SymInt offset, c10::SymIntArrayRef size,
                  c10::SymIntArrayRef stride) {
  check_same_device(self, storage);
  auto* impl = self.unsafeGetTensorImpl();
  impl->set_storage_keep_dtype(std::move(storage));
  impl->set_storage_offset(offset.expect_int());
  if (stride.data() == nullptr) {
    impl->set_sizes_contiguous(C10_AS_INTARRAYREF_SLOW(size));
  } else {
    impl->set_sizes_and_strides(C10_AS_INTARRAYREF_SLOW(size), C10_AS_INTARRAYREF_SLOW(stride));
  }
  return self;
}
Tensor& set_storage(Tensor& self, at::Storage storage) {
  check_same_device(self, storage);
  const auto count = static_cast<int64_t>(storage.nbytes() / self.dtype().itemsize());
  auto* impl = self.unsafeGetTensorImpl();
  impl->set_storage_keep_dtype(std::move(storage));
  impl->set_storage_offset(0);
  impl->set_sizes_contiguous({count});
  return self;
}
Tensor& set_tensor(Tensor& self, const Tensor& source) {
  if (self.is_same(source)) return self;
  check_same_device(self, source.storage());
  auto* impl = self.unsafeGetTensorImpl();
  impl->set_storage_keep_dtype(source.storage());
  impl->set_storage_offset(source.storage_offset());
  impl->set_sizes_and_strides(source.sizes(), source.strides());
  return self;
}
Tensor& set_nothing(Tensor& self) {
  return set_storage(self, at::Storage(new_device_storage(0, self.device().index())));
}

void record_stream(Tensor& t, at::Stream stream) {
  record_on_stream(t.storage().data_ptr(), stream.device_index(), stream.id());
}
bool no_cudnn_ctc(const Tensor&, const Tensor&, c10::IntArrayRef, c10::IntArrayRef, int64_t) { return false; }
bool no_cudnn_ctc_tensor(const Tensor&, const Tensor&, const Tensor&, const Tensor&, int64_t) { return false; }

/// isfinite() and isinf() in a dry run.
void healthy_kernel(const c10::OperatorHandle& op, DispatchKeySet, torch::jit::Stack* stack) {
  const auto composite = op.hasKernelForDispatchKey(DispatchKey::CompositeImplicitAutograd)
                             ? DispatchKey::CompositeImplicitAutograd
                             : DispatchKey::CompositeExplicitAutograd;
  const bool finite = plan_of(op).dry == dry::Kind::kAllTrue;
  op.callBoxedForDispatchKey(composite, *stack);
  const Tensor result = stack->back().toTensor();
  if (dry::on() && dry::is_unknown(result)) dry::make_uniform(result, finite);
}

/// PyTorch warns when a kernel is registered twice, which is the point on a CUDA build.
class Silence final : public c10::WarningHandler {
  void process(const c10::Warning&) override {}
};

/// What became of each operator, for whoever asks.
std::map<std::string, const char*>& kinds() {
  static auto* kinds = new std::map<std::string, const char*>;
  return *kinds;
}

}  // namespace

const std::map<std::string, const char*>& operator_kinds() { return kinds(); }

int install_kernels() {
  static Silence silence;
  c10::WarningUtils::WarningHandlerGuard quiet(&silence);
  static auto* aten = new torch::Library(torch::Library::IMPL, "aten", DispatchKey::CUDA, __FILE__, __LINE__);
  static auto* any = new torch::Library(torch::Library::IMPL, "_", DispatchKey::CUDA, __FILE__, __LINE__);
  static auto* sparse = new torch::Library(torch::Library::IMPL, "_", DispatchKey::SparseCUDA, __FILE__, __LINE__);
  static auto* compressed =
      new torch::Library(torch::Library::IMPL, "_", DispatchKey::SparseCsrCUDA, __FILE__, __LINE__);
  static auto* nested =
      new torch::Library(torch::Library::IMPL, "_", DispatchKey::NestedTensorCUDA, __FILE__, __LINE__);
  static auto* quantized =
      new torch::Library(torch::Library::IMPL, "_", DispatchKey::QuantizedCUDA, __FILE__, __LINE__);

  std::unordered_set<std::string> done;
  const auto by_hand = [&](const char* name, auto&& function) {
    aten->impl(name, std::forward<decltype(function)>(function));
    done.insert(name);
  };
  by_hand("empty.memory_format", TORCH_FN(empty));
  by_hand("empty_strided", TORCH_FN(empty_strided));
  by_hand("copy_", TORCH_FN(copy_));
  by_hand("as_strided", TORCH_FN(as_strided));
  by_hand("view", TORCH_FN(view));
  by_hand("_reshape_alias", TORCH_FN(reshape_alias));
  by_hand("unfold", TORCH_FN(at::native::unfold));
  by_hand("view_as_real", TORCH_FN(at::native::view_as_real));
  by_hand("view_as_complex", TORCH_FN(at::native::view_as_complex));
  by_hand("set_.source_Storage_storage_offset", TORCH_FN(set_range));
  by_hand("set_.source_Storage", TORCH_FN(set_storage));
  by_hand("set_.source_Tensor", TORCH_FN(set_tensor));
  by_hand("set_", TORCH_FN(set_nothing));
  by_hand("record_stream", TORCH_FN(record_stream));
  by_hand("_use_cudnn_ctc_loss", TORCH_FN(no_cudnn_ctc));
  by_hand("_use_cudnn_ctc_loss.Tensor", TORCH_FN(no_cudnn_ctc_tensor));
  by_hand("_use_miopen_ctc_loss", TORCH_FN(no_cudnn_ctc));
  by_hand("_use_miopen_ctc_loss.Tensor", TORCH_FN(no_cudnn_ctc_tensor));
  add_cell_kernels(*aten, done);
  add_attention_kernels(*aten, done);
  add_softmax_kernels(*aten, done);
  add_product_kernels(*aten, done);
  add_sync_norm_kernels(*aten, done);
  static auto* learning =
      new torch::Library(torch::Library::IMPL, "aten", DispatchKey::AutogradCUDA, __FILE__, __LINE__);
  add_one_piece_kernels(*aten, *learning, done);

  // Composite operators that PyTorch routes by device type: on the CPU they take the CPU's path in one piece.
  static const std::unordered_set<std::string> undivided = {"convolution",    "convolution_backward",
                                                            "_convolution",   "convolution_overrideable",
                                                            "_grouped_mm",    "_chunk_cat",
                                                            "_chunk_cat.out", "split_with_sizes_copy.out",
                                                            "ldexp.Tensor",   "ldexp.out",
                                                            "ldexp_",         "mode.values",
                                                            "conj_physical_"};
  int count = static_cast<int>(done.size());
  auto& dispatcher = c10::Dispatcher::singleton();
  // A card has these in one piece, the CPU in parts: checked as a whole, also where a gradient is needed.
  aten->impl("_batch_norm_impl_index", torch::CppFunction::makeFromBoxedFunction<&worded_composite_kernel>());
  learning->impl("_batch_norm_impl_index", torch::CppFunction::makeFromBoxedFunction<&worded_composite_kernel>());
  done.insert("_batch_norm_impl_index");
  // Taken apart they are comparisons of unknown values; what comes out is that of a healthy run.
  for (const char* name : {"isfinite", "isinf"}) {
    if (!dry::on()) continue;
    aten->impl(name, torch::CppFunction::makeFromBoxedFunction<&healthy_kernel>());
    done.insert(name);
  }
  for (const auto& name : dispatcher.getAllOpNames()) {
    if (name.name.compare(0, 6, "aten::") != 0) continue;
    std::string full = name.name.substr(6);
    if (!name.overload_name.empty()) full += "." + name.overload_name;
    if (done.count(full) != 0) continue;
    const auto op = dispatcher.findOp(name);
    if (!op.has_value() || !op->hasSchema()) continue;
    const OperatorTraits traits = traits_for("aten::" + full);
    const bool on_cpu = op->hasKernelForDispatchKey(DispatchKey::CPU);
    const bool on_cuda = op->hasKernelForDispatchKey(DispatchKey::CUDA);
    const bool composite = op->hasKernelForDispatchKey(DispatchKey::CompositeExplicitAutograd) ||
                           op->hasKernelForDispatchKey(DispatchKey::CompositeExplicitAutogradNonFunctional) ||
                           op->hasKernelForDispatchKey(DispatchKey::CompositeImplicitAutograd);
    // Where PyTorch takes it apart above autograd (ldexp in 2.6), the parts have the gradient.
    const bool above_autograd = op->hasKernelForDispatchKey(DispatchKey::CompositeImplicitAutograd);
    const bool in_one_piece = (undivided.count(full) != 0 && !above_autograd) || full.compare(0, 9, "_foreach_") == 0;
    if (on_cuda && !on_cpu && !composite) {
      aten->impl(full.c_str(), torch::CppFunction::makeFromBoxedFunction<&refusing_kernel>());
      kinds()[full] = "refused";
    } else if ((on_cpu || in_one_piece) && !dry::on() && install_typed_kernel(*op)) {
      // Takes its arguments as they are. A dry run computes little, and is served by the boxed one alone.
    } else if (on_cuda || in_one_piece || (on_cpu && composite)) {
      // Without a composite the one fallback below serves: registering less keeps the start quick.
      aten->impl(full.c_str(), torch::CppFunction::makeFromBoxedFunction<&simulated_kernel>());
    } else if (!on_cpu) {
      if (!composite && traits.device_only) kinds()[full] = "refused";
      if (composite) kinds()[full] = "simulated";
      continue;
    }
    if (kinds().count(full) == 0) kinds()[full] = traits.host_only ? "host only" : "simulated";
    ++count;
  }
  for (const auto& name : done) kinds()[name] = "written";
  // A CUDA build has kernels of its own for sparse, nested and quantized tensors, which come before any fallback.
  static auto* aten_sparse =
      new torch::Library(torch::Library::IMPL, "aten", DispatchKey::SparseCUDA, __FILE__, __LINE__);
  static auto* aten_compressed =
      new torch::Library(torch::Library::IMPL, "aten", DispatchKey::SparseCsrCUDA, __FILE__, __LINE__);
  static auto* aten_nested =
      new torch::Library(torch::Library::IMPL, "aten", DispatchKey::NestedTensorCUDA, __FILE__, __LINE__);
  static auto* aten_quantized =
      new torch::Library(torch::Library::IMPL, "aten", DispatchKey::QuantizedCUDA, __FILE__, __LINE__);
  for (const auto& name : dispatcher.getAllOpNames()) {
    if (name.name.compare(0, 6, "aten::") != 0) continue;
    const auto op = dispatcher.findOp(name);
    if (!op.has_value() || !op->hasSchema()) continue;
    std::string full = name.name.substr(6);
    if (!name.overload_name.empty()) full += "." + name.overload_name;
    const auto override_in = [&](torch::Library* library, DispatchKey cuda, DispatchKey cpu) {
      const bool composite = op->hasKernelForDispatchKey(DispatchKey::CompositeExplicitAutograd) ||
                             op->hasKernelForDispatchKey(DispatchKey::CompositeExplicitAutogradNonFunctional) ||
                             op->hasKernelForDispatchKey(DispatchKey::CompositeImplicitAutograd);
      if (op->hasKernelForDispatchKey(cuda) || (composite && op->hasKernelForDispatchKey(cpu))) {
        library->impl(full.c_str(), torch::CppFunction::makeFromBoxedFunction<&simulated_special_kernel>());
      }
    };
    override_in(aten_sparse, DispatchKey::SparseCUDA, DispatchKey::SparseCPU);
    override_in(aten_compressed, DispatchKey::SparseCsrCUDA, DispatchKey::SparseCsrCPU);
    override_in(aten_nested, DispatchKey::NestedTensorCUDA, DispatchKey::NestedTensorCPU);
    if (op->hasKernelForDispatchKey(DispatchKey::QuantizedCUDA)) {
      aten_quantized->impl(full.c_str(), torch::CppFunction::makeFromBoxedFunction<&refusing_quantized_kernel>());
    }
  }
  // Collectives go to the process group's own backend, see carrier.h; those that PyTorch has for the CPU only refuse.
  static auto* collectives = new torch::Library(torch::Library::IMPL, "c10d", DispatchKey::CUDA, __FILE__, __LINE__);
  for (const auto& name : dispatcher.getAllOpNames()) {
    if (name.name.compare(0, 6, "c10d::") != 0) continue;
    const auto op = dispatcher.findOp(name);
    if (!op.has_value() || op->hasKernelForDispatchKey(DispatchKey::CUDA)) continue;
    const std::string full = name.name.substr(6) + (name.overload_name.empty() ? "" : "." + name.overload_name);
    collectives->impl(full.c_str(), torch::CppFunction::makeFromBoxedFunction<&refusing_kernel>());
  }
  any->fallback(torch::CppFunction::makeFromBoxedFunction<&simulated_kernel>());
  sparse->fallback(torch::CppFunction::makeFromBoxedFunction<&simulated_special_kernel>());
  compressed->fallback(torch::CppFunction::makeFromBoxedFunction<&simulated_special_kernel>());
  nested->fallback(torch::CppFunction::makeFromBoxedFunction<&simulated_special_kernel>());
  quantized->fallback(torch::CppFunction::makeFromBoxedFunction<&refusing_quantized_kernel>());
  return count;
}

}  // namespace locus::bridge
