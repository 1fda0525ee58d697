// Softmax that reads half precision and writes single: CUDA has it in one operator, the CPU in two.
#include <ATen/core/Tensor.h>
#include <ATen/core/op_registration/adaption.h>
#include <ATen/ops/_log_softmax.h>
#include <ATen/ops/_log_softmax_backward_data.h>
#include <ATen/ops/_softmax.h>
#include <ATen/ops/_softmax_backward_data.h>
#include <torch/library.h>

#include "locus/bridge/dry/call.h"
#include "locus/bridge/kernels/as_kernel.h"
#include "locus/bridge/kernels/cuda_only.h"
#include "locus/bridge/memory/scratch.h"
#include "locus/bridge/streams/capturable.h"

namespace locus::bridge {
namespace {

using at::Tensor;

template <Tensor (*Function)(const Tensor&, int64_t, bool), bool kLog>
Tensor forward(const Tensor& self, int64_t dim, bool half_to_float) {
  AsKernel kernel(self);
  if (dry::on()) {
    const char* name = kLog ? "aten::_log_softmax" : "aten::_softmax";
    if (const auto made = dry::by_rule(name, "", kernel.device(), {self, dim, half_to_float})) {
      kernel.note_dry({self}, *made);
      return made->front();
    }
  }
  const Tensor input = kernel.in(self);
  return kernel.out_as_is(Function(half_to_float ? input.to(at::kFloat) : input, dim, false));
}

template <Tensor (*Function)(const Tensor&, const Tensor&, int64_t, at::ScalarType), bool kLog>
Tensor backward(const Tensor& grad, const Tensor& output, int64_t dim, at::ScalarType input_type) {
  if (grad.device() != output.device()) {
    c10::impl::common_device_check_failure(
        grad.device(), output, kLog ? "wrapper_CUDA__log_softmax_backward_data" : "wrapper_CUDA__softmax_backward_data",
        "output");
  }
  AsKernel kernel(grad);
  const Scratch product(kernel.device(), kLog ? 0 : static_cast<std::int64_t>(grad.nbytes()));
  if (dry::on()) {
    const char* name = kLog ? "aten::_log_softmax_backward_data" : "aten::_softmax_backward_data";
    if (const auto made = dry::by_rule(name, "", kernel.device(), {grad, output, dim, input_type})) {
      kernel.note_dry({grad, output}, *made);
      return made->front();
    }
  }
  const Tensor result = Function(kernel.in(grad), kernel.in(output), dim, grad.scalar_type());
  return kernel.out_as_is(result.scalar_type() == input_type ? result : result.to(input_type));
}

}  // namespace

void add_softmax_kernels(torch::Library& library, std::unordered_set<std::string>& done) {
  add_kernel<&forward<&at::_softmax, false>>(library, done, "_softmax");
  add_kernel<&forward<&at::_log_softmax, true>>(library, done, "_log_softmax");
  add_kernel<&backward<&at::_softmax_backward_data, false>>(library, done, "_softmax_backward_data");
  add_kernel<&backward<&at::_log_softmax_backward_data, true>>(library, done, "_log_softmax_backward_data");
}

}  // namespace locus::bridge
