// The parts of batch normalization over several ranks (SyncBatchNorm). PyTorch has them for CUDA only; here each is its
// formula, in operators of the CPU.
#include <ATen/ATen.h>
#include <torch/library.h>

#include <string>
#include <tuple>
#include <unordered_set>
#include <vector>

#include "locus/bridge/kernels/as_kernel.h"
#include "locus/bridge/kernels/cuda_only.h"
#include "locus/bridge/streams/capturable.h"

namespace locus::bridge {
namespace {

using at::Tensor;
using std::optional;

/// Half precision is added up in float, as on a card.
Tensor precise(const Tensor& t) { return at::isReducedFloatingType(t.scalar_type()) ? t.to(at::kFloat) : t; }

/// Every dimension but the channels'.
std::vector<int64_t> all_but_channels(const Tensor& input) {
  std::vector<int64_t> dims;
  for (int64_t dim = 0; dim < input.dim(); ++dim) {
    if (dim != 1) dims.push_back(dim);
  }
  return dims;
}

/// One value a channel, so that it can be combined with the whole input.
Tensor by_channel(const Tensor& values, const Tensor& input) {
  std::vector<int64_t> shape(static_cast<size_t>(input.dim()), 1);
  shape[1] = values.numel();
  return precise(values).view(shape);
}

std::tuple<Tensor, Tensor> stats(const Tensor& input, double eps) {
  AsKernel kernel(input, {input});
  const Tensor x = precise(kernel.in(input));
  const auto [variance, mean] = at::var_mean(x, all_but_channels(x), /*correction=*/at::Scalar(0));
  return {kernel.out(mean), kernel.out((variance + eps).rsqrt())};
}

/// Mean and deviation of all ranks' batches together, from those of each; the running ones follow.
std::tuple<Tensor, Tensor> gather_stats(const Tensor& input, const Tensor& means, const Tensor& deviations,
                                        const optional<Tensor>& running_mean, const optional<Tensor>& running_var,
                                        double momentum, double eps, const Tensor& counts) {
  AsKernel kernel(input, {means, deviations, running_mean, running_var, counts});
  const Tensor mean_each = precise(kernel.in(means)), inverse_each = precise(kernel.in(deviations));
  const Tensor count = kernel.in(counts).to(mean_each.scalar_type()).view({-1, 1});
  const Tensor total = count.sum();
  const Tensor mean = (mean_each * count).sum(0) / total;
  const Tensor within = (inverse_each.pow(-2) - eps) * count;
  const Tensor squares = (within + (mean_each - mean).square() * count).sum(0);
  if (running_mean.has_value() && running_mean->defined()) {
    Tensor running = kernel.in_and_out(*running_mean);
    running.copy_(running * (1 - momentum) + mean * momentum);
  }
  if (running_var.has_value() && running_var->defined()) {
    Tensor running = kernel.in_and_out(*running_var);
    running.copy_(running * (1 - momentum) + squares / (total - 1) * momentum);
  }
  return {kernel.out(mean), kernel.out((squares / total + eps).rsqrt())};
}

std::tuple<Tensor, Tensor> gather_stats_one_count(const Tensor& input, const Tensor& means, const Tensor& deviations,
                                                  const optional<Tensor>& running_mean,
                                                  const optional<Tensor>& running_var, double momentum, double eps,
                                                  int64_t count) {
  const Tensor counts = at::full({means.size(0)}, count, means.options());
  return gather_stats(input, means, deviations, running_mean, running_var, momentum, eps, counts);
}

Tensor normalize(const Tensor& input, const optional<Tensor>& weight, const optional<Tensor>& bias, const Tensor& mean,
                 const Tensor& inverse, double) {
  AsKernel kernel(input, {input, weight, bias, mean, inverse});
  const Tensor x = kernel.in(input), scale = kernel.in(weight), shift = kernel.in(bias);
  Tensor result = (precise(x) - by_channel(kernel.in(mean), x)) * by_channel(kernel.in(inverse), x);
  if (scale.defined()) result = result * by_channel(scale, x);
  if (shift.defined()) result = result + by_channel(shift, x);
  return kernel.out_as_is(result.to(x.scalar_type()));
}

std::tuple<Tensor, Tensor, Tensor, Tensor> backward_sums(const Tensor& grad, const Tensor& input, const Tensor& mean,
                                                         const Tensor& inverse, const optional<Tensor>& weight,
                                                         bool input_needs, bool weight_needs, bool bias_needs) {
  AsKernel kernel(input, {grad, input, mean, inverse, weight});
  const Tensor x = kernel.in(input), dy = precise(kernel.in(grad)), scale = kernel.in(weight);
  const auto dims = all_but_channels(x);
  const Tensor sum = dy.sum(dims);
  const Tensor weighted = (dy * (precise(x) - by_channel(kernel.in(mean), x))).sum(dims);
  const auto type = scale.defined() ? scale.scalar_type() : sum.scalar_type();
  const Tensor none;
  return {input_needs ? kernel.out(sum.clone()) : none, input_needs ? kernel.out(weighted.clone()) : none,
          weight_needs ? kernel.out((weighted * precise(kernel.in(inverse))).to(type)) : none,
          bias_needs ? kernel.out(sum.to(type, /*non_blocking=*/false, /*copy=*/true)) : none};
}

Tensor backward_input(const Tensor& grad, const Tensor& input, const Tensor& mean, const Tensor& inverse,
                      const optional<Tensor>& weight, const Tensor& sum, const Tensor& weighted, const Tensor& counts) {
  AsKernel kernel(input, {grad, input, mean, inverse, weight, sum, weighted, counts});
  const Tensor x = kernel.in(input), dy = precise(kernel.in(grad)), scale = kernel.in(weight);
  const Tensor inv = by_channel(kernel.in(inverse), x);
  const Tensor total = kernel.in(counts).sum().to(inv.scalar_type());
  const Tensor centred = precise(x) - by_channel(kernel.in(mean), x);
  const Tensor mean_grad = by_channel(kernel.in(sum), x) / total;
  const Tensor slope = by_channel(kernel.in(weighted), x) / total * inv.square();
  Tensor result = (dy - mean_grad - centred * slope) * inv;
  if (scale.defined()) result = result * by_channel(scale, x);
  return kernel.out_as_is(result.to(x.scalar_type()));
}

}  // namespace

void add_sync_norm_kernels(torch::Library& library, std::unordered_set<std::string>& done) {
  add_kernel<&stats>(library, done, "batch_norm_stats");
  add_kernel<&gather_stats>(library, done, "batch_norm_gather_stats_with_counts");
  add_kernel<&gather_stats_one_count>(library, done, "batch_norm_gather_stats");
  add_kernel<&normalize>(library, done, "batch_norm_elemt");
  add_kernel<&backward_sums>(library, done, "batch_norm_backward_reduce");
  add_kernel<&backward_input>(library, done, "batch_norm_backward_elemt");
}

}  // namespace locus::bridge
