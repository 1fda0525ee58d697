// Scaled-dot-product attention on simulated devices: the memory-efficient operator that a card would run is
// carried by PyTorch's own fused attention for the CPU, so that neither time nor memory differs from it.
#include <ATen/Context.h>
#include <ATen/SDPBackend.h>
#include <ATen/core/Tensor.h>
#include <ATen/native/transformers/attention.h>
#include <ATen/ops/_fused_sdp_choice.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_backward.h>
#include <ATen/ops/empty.h>
#include <torch/library.h>

#include <array>
#include <string>
#include <tuple>
#include <unordered_set>

#include "locus/bridge/as_kernel.h"
#include "locus/bridge/cuda_only.h"

namespace locus::bridge {
namespace {

using at::Tensor;
using std::optional;

optional<Tensor> host_mask(const AsKernel& kernel, const optional<Tensor>& mask) {
  return mask.has_value() && mask->defined() ? optional<Tensor>(kernel.in(*mask)) : std::nullopt;
}

/// What the CPU would choose for the same operands; its fused kernel stands behind the card's efficient one.
int64_t choose(const Tensor& query, const Tensor& key, const Tensor& value, const optional<Tensor>& mask,
               double dropout, bool causal, optional<double> scale, bool grouped) {
  const auto math = static_cast<int64_t>(at::SDPBackend::math);
  const bool mask_learns = mask.has_value() && mask->defined() && mask->requires_grad();
  for (const Tensor* t : {&query, &key, &value}) {
    if (!is_simulated(*t) || t->device() != query.device()) return math;
  }
  if (mask.has_value() && mask->defined() && mask->device() != query.device()) return math;
  if (mask_learns || dropout > 0.0) return math;
  const auto& context = at::globalContext();
  if (context.userEnabledMemEfficientSDP() && !context.userEnabledFlashSDP() && !context.userEnabledMathSDP()) {
    return static_cast<int64_t>(at::SDPBackend::efficient_attention);
  }
  AsKernel kernel(query);
  const int64_t on_cpu = at::_fused_sdp_choice(kernel.in(query), kernel.in(key), kernel.in(value),
                                               host_mask(kernel, mask), dropout, causal, scale, grouped);
  return on_cpu == static_cast<int64_t>(at::SDPBackend::flash_attention)
             ? static_cast<int64_t>(at::SDPBackend::efficient_attention)
             : on_cpu;
}

std::tuple<Tensor, Tensor, Tensor, Tensor> forward(const Tensor& query, const Tensor& key, const Tensor& value,
                                                   const optional<Tensor>& mask, bool, double dropout, bool causal,
                                                   optional<double> scale) {
  AsKernel kernel(query);
  auto [output, log_sum] = at::_scaled_dot_product_flash_attention_for_cpu(
      kernel.in(query), kernel.in(key), kernel.in(value), dropout, causal, host_mask(kernel, mask), scale);
  const auto no_seed = [&] { return kernel.out(at::empty({}, at::kLong)); };
  return {kernel.out_as_is(std::move(output)), kernel.out_as_is(std::move(log_sum)), no_seed(), no_seed()};
}

std::tuple<Tensor, Tensor, Tensor, Tensor> backward(const Tensor& grad, const Tensor& query, const Tensor& key,
                                                    const Tensor& value, const Tensor& mask, const Tensor& output,
                                                    const Tensor& log_sum, const Tensor&, const Tensor&, double dropout,
                                                    std::array<bool, 4>, bool causal, optional<double> scale) {
  if (!grad.defined()) return {};
  AsKernel kernel(query);
  auto [into_query, into_key, into_value] = at::_scaled_dot_product_flash_attention_for_cpu_backward(
      kernel.in(grad), kernel.in(query), kernel.in(key), kernel.in(value), kernel.in(output), kernel.in(log_sum),
      dropout, causal, host_mask(kernel, mask), scale);
  return {kernel.out_as_is(std::move(into_query)), kernel.out_as_is(std::move(into_key)),
          kernel.out_as_is(std::move(into_value)), Tensor()};
}

}  // namespace

void add_attention_kernels(torch::Library& library, std::unordered_set<std::string>& done) {
  at::native::_fused_sdp_choice_stub.set_cuda_dispatch_ptr(&choose);
  library.impl("_scaled_dot_product_efficient_attention", TORCH_FN(forward));
  library.impl("_scaled_dot_product_efficient_attention_backward", TORCH_FN(backward));
  done.insert("_scaled_dot_product_efficient_attention");
  done.insert("_scaled_dot_product_efficient_attention_backward");
}

}  // namespace locus::bridge
