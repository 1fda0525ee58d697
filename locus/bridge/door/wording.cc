// See wording.h. Each function says what PyTorch's source says at the place that would raise; nothing here decides
// whether something is wrong.
#include "locus/bridge/door/wording.h"

#include <ATen/Context.h>
#include <ATen/ExpandUtils.h>
#include <ATen/core/op_registration/adaption.h>
#include <ATen/native/ConvUtils.h>

#include <initializer_list>
#include <limits>
#include <string>
#include <unordered_map>

namespace locus::bridge {
namespace {

using at::Tensor;
using at::native::ConvBackend;

struct Named {
  const char* name;
  Tensor tensor;
};

Tensor tensor_at(const Call& call, size_t position) {
  const auto& value = call.stack[call.base + position];
  return value.isTensor() ? value.toTensor() : Tensor();
}

/// The argument of that name; undefined where the operator has none, or none was given.
Tensor tensor_named(const Call& call, const char* name) {
  const auto position = call.op.schema().argumentIndexWithName(name);
  return position.has_value() ? tensor_at(call, *position) : Tensor();
}

/// The check that PyTorch generates into the CUDA wrapper of another operator, which this one calls.
void check_as_wrapper(const std::string& wrapper, std::initializer_list<Named> operands) {
  std::optional<c10::Device> common;
  for (const auto& [name, tensor] : operands) {
    c10::impl::check_and_update_common_device(common, tensor, wrapper.c_str(), name);
  }
}

bool output_padding_is_big(const Call& call) {
  const auto stride = call.stack[call.base + 3].toIntVector(), padding = call.stack[call.base + 7].toIntVector();
  for (size_t i = 0; i < std::min(stride.size(), padding.size()); ++i) {
    if (padding[i] >= stride[i]) return true;
  }
  return false;
}

/// The implementation that a card would pick. PyTorch's own choice, but for cuDNN, which this machine may lack.
ConvBackend convolution_backend(const Call& call, const Tensor& input, const Tensor& weight, const Tensor& bias) {
  const auto& stack = call.stack;
  const auto symbolic = [&](size_t i) {
    c10::SmallVector<c10::SymInt, 3> values;
    for (const int64_t value : stack[call.base + i].toIntVector()) values.emplace_back(value);
    return values;
  };
  const auto stride = symbolic(3), padding = symbolic(4), dilation = symbolic(5), output_padding = symbolic(7);
  const bool transposed = stack[call.base + 6].toBool();
  const ConvBackend backend = at::native::select_conv_backend(
      input, weight, bias.defined() ? std::optional<Tensor>(bias) : std::nullopt, stride, padding, dilation, transposed,
      output_padding, stack[call.base + 8].toInt(), std::nullopt);
  const bool depthwise = backend == ConvBackend::CudaDepthwise2d || backend == ConvBackend::CudaDepthwise3d;
  const bool cudnn = input.is_cuda() && at::globalContext().userEnabledCuDNN() && !output_padding_is_big(call);
  if (cudnn && !depthwise) return transposed ? ConvBackend::CudnnTranspose : ConvBackend::Cudnn;
  return backend;
}

/// Convolutions compare type names, unless the implementation they pick is an operator with a check of its own.
[[noreturn]] void raise_convolution(const Call& call) {
  const Tensor input = tensor_at(call, 0), weight = tensor_at(call, 1), bias = tensor_at(call, 2);
  const ConvBackend backend = convolution_backend(call, input, weight, bias);
  static const std::unordered_map<int, const char*> wrappers = {
      {static_cast<int>(ConvBackend::Slow2d), "wrapper_CUDA___slow_conv2d_forward"},
      {static_cast<int>(ConvBackend::SlowDilated2d), "wrapper_CUDA__slow_conv_dilated2d"},
      {static_cast<int>(ConvBackend::SlowDilated3d), "wrapper_CUDA__slow_conv_dilated3d"},
      {static_cast<int>(ConvBackend::SlowTranspose2d), "wrapper_CUDA_slow_conv_transpose2d"},
      {static_cast<int>(ConvBackend::SlowTranspose3d), "wrapper_CUDA__slow_conv_transpose3d"},
      {static_cast<int>(ConvBackend::CudaDepthwise2d), "wrapper_CUDA___conv_depthwise2d"},
      {static_cast<int>(ConvBackend::CudaDepthwise3d), "wrapper_CUDA__conv_depthwise3d"},
  };
  if (const auto found = wrappers.find(static_cast<int>(backend)); found != wrappers.end()) {
    check_as_wrapper(found->second, {{"self", input}, {"weight", weight}, {"bias", bias}});
  }
  if (backend == ConvBackend::Slow3d) {
    TORCH_CHECK_NOT_IMPLEMENTED(
        false,
        "Could not run 'aten::slow_conv3d_forward' with arguments from the 'CUDA' backend. This could be because the "
        "operator doesn't exist for this backend, or was omitted during the selective/custom build process (if using "
        "custom build).");
  }
  const bool host = input.device().is_cpu();
  const auto compare = [&](const Tensor& other, const char* who) {
    TORCH_CHECK(input.device().type() == other.device().type(), "Input type (", input.toString(), ") and ", who,
                " type (", other.toString(), ") should be the same",
                host ? " or input should be a MKLDNN tensor and " : "", host ? who : "",
                host ? " is a dense tensor" : "");
  };
  compare(weight, "weight");
  if (bias.defined()) compare(bias, "bias");
  // Two CUDA devices have the same type; cuDNN's wrapper tells them apart, and the sum with the bias does.
  check_as_wrapper(backend == ConvBackend::CudnnTranspose ? "wrapper_CUDA__cudnn_convolution_transpose"
                                                          : "wrapper_CUDA__cudnn_convolution",
                   {{"self", input}, {"weight", weight}});
  TORCH_CHECK(false, "Expected all tensors to be on the same device, but found at least two devices, ", input.device(),
              " and ", bias.device(), "!");
}

/// batch_norm hands over to cuDNN where that can do it; the operands are the same, the wrapper's name is not.
void check_batch_norm(const Call& call) {
  const Tensor input = tensor_at(call, 0), weight = tensor_at(call, 1), bias = tensor_at(call, 2);
  const Tensor mean = tensor_at(call, 3), variance = tensor_at(call, 4);
  const bool training = call.stack[call.base + 5].toBool();
  const bool cudnn = input.is_cuda() && at::globalContext().userEnabledCuDNN() && weight.defined() && bias.defined() &&
                     input.scalar_type() != at::kBFloat16 && weight.scalar_type() != at::kBFloat16 &&
                     (input.scalar_type() != at::kHalf || weight.scalar_type() == at::kFloat) && input.dim() >= 3 &&
                     (mean.defined() ? variance.defined() : !variance.defined() && training) &&
                     input.size(0) <= (training ? 880801 : 65535) &&
                     input.numel() < std::numeric_limits<int32_t>::max();
  if (!cudnn) return;
  check_as_wrapper(
      "wrapper_CUDA__cudnn_batch_norm",
      {{"input", input}, {"weight", weight}, {"bias", bias}, {"running_mean", mean}, {"running_var", variance}});
}

void check_masked_fill(const Call& call) {
  const Tensor self = tensor_at(call, 0), mask = tensor_at(call, 1);
  if (call.op.schema().overload_name() == "Tensor") {
    TORCH_CHECK(self.is_cuda(), "masked_fill_: Expected inputs to be on same device");
  }
  TORCH_CHECK(self.device() == mask.device(), "expected self and mask to be on the same device, but got mask on ",
              mask.device(), " and self on ", self.device());
}

/// Sums into an indexed tensor sort the indices first, and ask for the values' device before they do.
void check_index_put(const Call& call) {
  const Tensor self = tensor_at(call, 0), values = tensor_named(call, "values");
  const auto accumulate = call.op.schema().argumentIndexWithName("accumulate");
  if (!self.is_cuda() || !values.defined() || !accumulate.has_value() || !call.stack[call.base + *accumulate].toBool())
    return;
  TORCH_CHECK(values.device() == self.device(), "expected device ", self.device(), " but got device ", values.device(),
              " for value tensor");
}

void check_searchsorted(const Call& call) {
  const Tensor boundaries = tensor_named(call, "sorted_sequence"), sorter = tensor_named(call, "sorter");
  const Tensor values = tensor_named(call, "self");
  if (values.defined() && values.device() != boundaries.device()) return;  // the wrapper has seen these two before
  TORCH_CHECK(!sorter.defined() || sorter.device() == boundaries.device(),
              "torch.searchsorted(): sorter and boundary tensors should have same device type, but got sorter tensor "
              "device type ",
              sorter.device(), " and input value tensor device type ", boundaries.device());
}

void check_segment_reduce(const Call& call) {
  const Tensor data = tensor_named(call, "data");
  for (const char* name : {"lengths", "offsets"}) {
    const Tensor other = tensor_named(call, name);
    TORCH_CHECK(
        !data.defined() || !other.defined() || other.get_device() == data.get_device(),
        "Expected data.get_device() == ", name,
        "_value.get_device() to be true, but got false.  (Could this error message be improved?  If so, please report "
        "an enhancement request to PyTorch.)");
  }
}

bool is_cpu_scalar(const Tensor& t) { return t.defined() && t.device().is_cpu() && t.dim() == 0; }

/// TensorIterator lets a CPU scalar stand; a kernel that can't read it finds out itself.
void check_no_scalar(const Call& call) {
  const auto& arguments = call.op.schema().arguments();
  int position = 0;
  for (size_t i = 0; i < arguments.size() && !arguments[i].kwarg_only(); ++i) {
    const Tensor t = tensor_at(call, i);
    if (!t.defined()) continue;
    ++position;  // the result has the first place
    TORCH_CHECK(!is_cpu_scalar(t) || call.plan.arguments[i].written,
                "iter.device(arg).is_cuda() INTERNAL ASSERT FAILED at \"aten/src/ATen/native/cuda/Loops.cuh\":109, "
                "please report a bug "
                "to PyTorch. argument ",
                position, ": expected a CUDA device but found ", t.device());
  }
}

[[noreturn]] void raise_jitted(const Call& call, size_t position) {
  TORCH_CHECK(false,
              "iter.device(arg).is_cuda() INTERNAL ASSERT FAILED at \"aten/src/ATen/native/cuda/JitLoops.cuh\":78, "
              "please report "
              "a bug to PyTorch. argument ",
              position, ": expected a CUDA device but found ", tensor_at(call, position - 1).device());
}
void check_logical(const Call& call) {
  if (is_cpu_scalar(tensor_at(call, 1)) && tensor_at(call, 0).is_cuda()) raise_jitted(call, 2);
}

void check_addcmul(const Call& call) {
  const Tensor self = tensor_at(call, 0), left = tensor_at(call, 1), right = tensor_at(call, 2);
  TORCH_CHECK(is_cpu_scalar(self) + is_cpu_scalar(left) + is_cpu_scalar(right) < 2,
              "Trying to pass too many CPU scalars to non-CPU kernel!");
  TORCH_CHECK(!is_cpu_scalar(self) || left.device() != right.device(),
              "CPU Scalar support for self argument is not supported when calling addcmul on CUDA tensors.");
  TORCH_CHECK(!is_cpu_scalar(left) || self.device() != right.device(),
              "CPU Scalar support for tensor1 argument is not supported when calling addcmul on CUDA tensors. However, "
              "CPU Scalar "
              "support for tensor2 is supported, please swap your tensor1 and tensor2 terms.");
}

void check_whole_reduction(const Call& call) {
  const Tensor self = tensor_named(call, "self"), out = tensor_named(call, "out");
  TORCH_CHECK(!out.defined() || self.device() == out.device(),
              "Expected self.device() == out.device() to be true, but got false.  (Could this error message be "
              "improved?  If so, "
              "please report an enhancement request to PyTorch.)");
}

void check_mode(const Call& call) {
  const Tensor self = tensor_named(call, "self");
  for (const char* name : {"values", "indices"}) {
    const Tensor out = tensor_named(call, name);
    TORCH_CHECK(!out.defined() || out.device() == self.device(), "expected device '", self.device(), "' but got '",
                out.device(), "' for ", name, " output");
  }
}

void check_mse_loss(const Call& call) {
  const Tensor input = tensor_at(call, 0), target = tensor_at(call, 1);
  TORCH_CHECK(!is_cpu_scalar(input) && !is_cpu_scalar(target),
              "Expected all tensors to be on the same device, but found at least two devices, ", input.device(),
              " and ", target.device(), "!");
}

}  // namespace

void raise_shapes_first(const Call& call) {
  const auto kind = call.plan.rule.kind;
  if (kind != engine::RuleKind::kIteratorScalar && kind != engine::RuleKind::kIterator) return;
  const auto& arguments = call.op.schema().arguments();
  if (call.plan.sets_output_first) return;
  for (int i = 0; i < static_cast<int>(arguments.size()); ++i) {  // indices and the like have shapes of their own
    const auto rule = call.plan.rule.argument(i);
    if (rule != engine::ArgumentRule::kSame && rule != engine::ArgumentRule::kRealScalar) return;
  }
  at::DimVector shape;
  for (size_t i = 0; i < arguments.size() && !arguments[i].kwarg_only(); ++i) {
    if (call.plan.arguments[i].kind != ArgumentKind::kTensor) {
      if (call.plan.arguments[i].kind != ArgumentKind::kOther) return;
      continue;
    }
    const Tensor t = tensor_at(call, i);
    if (t.defined()) shape = at::infer_size_dimvector(shape, t.sizes());
  }
  const Tensor self = tensor_at(call, 0), out = tensor_named(call, "out");
  const bool in_place = call.plan.arguments[0].written || (out.defined() && out.is_same(self));
  TORCH_CHECK(!in_place || !self.defined() || self.sizes() == c10::IntArrayRef(shape), "output with shape ",
              self.sizes(), " doesn't match the broadcast shape ", c10::IntArrayRef(shape));
}

void raise_in_own_words(const Call& call) {
  using Check = void (*)(const Call&);
  static const std::unordered_map<std::string, Check> checks = {
      {"aten::convolution", [](const Call& c) { raise_convolution(c); }},
      {"aten::_convolution", [](const Call& c) { raise_convolution(c); }},
      {"aten::_batch_norm_impl_index", &check_batch_norm},
      {"aten::lerp", &check_no_scalar},
      {"aten::lerp_", &check_no_scalar},
      {"aten::smooth_l1_loss", &check_no_scalar},
      {"aten::mse_loss", &check_mse_loss},
      {"aten::logical_and", &check_logical},
      {"aten::logical_and_", &check_logical},
      {"aten::logical_or", &check_logical},
      {"aten::logical_or_", &check_logical},
      {"aten::logical_xor", &check_logical},
      {"aten::logical_xor_", &check_logical},
      {"aten::addcmul", &check_addcmul},
      {"aten::addcmul_", &check_addcmul},
      {"aten::max", &check_whole_reduction},
      {"aten::min", &check_whole_reduction},
      {"aten::mode", &check_mode},
      {"aten::masked_fill", &check_masked_fill},
      {"aten::masked_fill_", &check_masked_fill},
      {"aten::index_put", &check_index_put},
      {"aten::index_put_", &check_index_put},
      {"aten::_index_put_impl_", &check_index_put},
      {"aten::_unsafe_index_put", &check_index_put},
      {"aten::segment_reduce", &check_segment_reduce},
      {"aten::searchsorted", &check_searchsorted},
  };
  const auto found = checks.find(call.op.schema().name());
  if (found != checks.end()) found->second(call);
}

}  // namespace locus::bridge
