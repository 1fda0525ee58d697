// Scaled-dot-product attention on simulated devices: the memory-efficient operator that a card would run is
// carried by PyTorch's own fused attention for the CPU, and with dropout, which that lacks, by its parts. What it takes
// on the card is that of the kernel which PyTorch would choose there.
#include <ATen/Context.h>
#include <ATen/SDPBackend.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/native/transformers/attention.h>
#include <ATen/ops/_fused_sdp_choice.h>
#include <ATen/ops/_safe_softmax.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_backward.h>
#include <ATen/ops/_softmax_backward_data.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <torch/library.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <tuple>
#include <unordered_set>

#include "locus/bridge/dry/call.h"
#include "locus/bridge/dry/memory.h"
#include "locus/bridge/kernels/as_kernel.h"
#include "locus/bridge/kernels/cuda_only.h"
#include "locus/bridge/kernels/generator.h"
#include "locus/bridge/memory/scratch.h"
#include "locus/bridge/streams/capturable.h"
#include "locus/bridge/streams/graphs.h"

namespace locus::bridge {
namespace {

using at::Tensor;
using std::optional;

optional<Tensor> host_mask(const AsKernel& kernel, const optional<Tensor>& mask) {
  return mask.has_value() && mask->defined() ? optional<Tensor>(kernel.in(*mask)) : std::nullopt;
}

/// What the CPU would choose for the same operands; its fused kernel stands behind the card's efficient one.
int64_t choose(const Tensor& query, const Tensor& key, const Tensor& value, const optional<Tensor>& mask, double,
               bool causal, optional<double> scale, bool grouped) {
  const auto math = static_cast<int64_t>(at::SDPBackend::math);
  const bool mask_learns = mask.has_value() && mask->defined() && mask->requires_grad();
  for (const Tensor* t : {&query, &key, &value}) {
    if (!is_simulated(*t) || t->device() != query.device()) return math;
  }
  if (mask.has_value() && mask->defined() && mask->device() != query.device()) return math;
  if (mask_learns) return math;
  const auto& context = at::globalContext();
  if (context.userEnabledMemEfficientSDP() && !context.userEnabledFlashSDP() && !context.userEnabledMathSDP()) {
    return static_cast<int64_t>(at::SDPBackend::efficient_attention);
  }
  const Unfollowed unfollowed;  // the host decides by shapes: no stream reads anything
  AsKernel kernel(query);
  const int64_t on_cpu = at::_fused_sdp_choice(kernel.in(query), kernel.in(key), kernel.in(value),
                                               host_mask(kernel, mask), /*dropout=*/0.0, causal, scale, grouped);
  return on_cpu == static_cast<int64_t>(at::SDPBackend::flash_attention)
             ? static_cast<int64_t>(at::SDPBackend::efficient_attention)
             : on_cpu;
}

/// The call as the card's kernels see it.
struct Attention {
  sim::AttentionShape shape;
  sim::AttentionKernel kernel;

  Attention(const Tensor& query, const Tensor& key)
      : shape{query.size(0),
              query.size(1),
              key.size(1),
              query.size(2),
              key.size(2),
              query.size(3),
              static_cast<int>(query.element_size())},
        kernel(sim::attention_kernel(shape, *machine().options().card)) {}

  bool efficient() const { return kernel == sim::AttentionKernel::kEfficient; }
  /// In the layout that the card's kernel gives its results: PyTorch's own puts the heads next to the features.
  Tensor laid_out(const Tensor& t, const Tensor& like) const {
    Tensor wanted = efficient() ? at::empty({t.size(0), t.size(2), t.size(1), t.size(3)}, t.options()).transpose(1, 2)
                                : at::empty_like(like, t.options());
    if (wanted.sizes() != t.sizes() || wanted.strides() == t.strides()) return t;
    return wanted.copy_(t);
  }
  /// The same without values, in a dry run.
  Tensor unknown_like(const Tensor& t, int device) const {
    if (!efficient()) return dry::new_unknown(at::empty_like(dry::twin_of(t)), device);
    return dry::new_unknown({t.size(0), t.size(2), t.size(1), t.size(3)}, t.scalar_type(), device).transpose(1, 2);
  }
};

/// Attention with dropout, taken apart on host addresses. What was dropped is kept in the place of the card's seed.
struct Dropped {
  Tensor query, key, value, weights, kept;  // in single precision at least
  double scale, grow;

  Dropped(const AsKernel& kernel, const Tensor& q, const Tensor& k, const Tensor& v, const optional<Tensor>& mask,
          double dropout, bool causal, optional<double> scaling)
      : scale(scaling.value_or(1.0 / std::sqrt(static_cast<double>(q.size(3))))), grow(1.0 / (1.0 - dropout)) {
    const auto type = q.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
    query = kernel.in(q).to(type), key = kernel.in(k).to(type), value = kernel.in(v).to(type);
    Tensor scores = at::matmul(query, key.transpose(-2, -1)) * scale;
    if (const auto bias = host_mask(kernel, mask); bias.has_value()) {
      scores = bias->scalar_type() == at::kBool ? scores.masked_fill(bias->logical_not(), -INFINITY) : scores + *bias;
    }
    if (causal) {
      const Tensor later = at::ones({q.size(2), k.size(2)}, at::kBool).triu(1);
      scores = scores.masked_fill(later, -INFINITY);
    }
    weights = at::_safe_softmax(scores, -1);
  }
  Tensor output() const { return at::matmul(weights * kept, value) * grow; }
  std::tuple<Tensor, Tensor, Tensor> gradients(const Tensor& grad) const {
    const Tensor into_value = at::matmul((weights * kept).transpose(-2, -1), grad) * grow;
    const Tensor into_weights = at::matmul(grad, value.transpose(-2, -1)) * grow * kept;
    const Tensor into_scores = at::_softmax_backward_data(into_weights, weights, -1, weights.scalar_type()) * scale;
    return {at::matmul(into_scores, key), at::matmul(into_scores.transpose(-2, -1), query), into_value};
  }
};

using Results = std::tuple<Tensor, Tensor, Tensor, Tensor>;

/// The results without values, in a dry run; none where they are to be computed.
optional<Results> forward_dry(const Attention& attention, int device, const Tensor& query, const Tensor& key,
                              const Tensor& value, double dropout, bool causal, const optional<Tensor>& mask,
                              optional<double> scale) {
  const auto rule = dry::by_rule("aten::_scaled_dot_product_flash_attention_for_cpu", "", device,
                                 {query, key, value, 0.0, causal, mask, scale}, /*only_geometry=*/true);
  if (!rule.has_value()) return std::nullopt;
  const Tensor &output = rule->at(0), &log_sum = rule->at(1);
  const auto number = [&] { return dry::new_unknown({attention.efficient() ? 0 : 1}, at::kLong, device); };
  Tensor made = output.sizes() == query.sizes() || attention.efficient()
                    ? attention.unknown_like(output.sizes() == query.sizes() ? query : output, device)
                    : dry::new_unknown(output, device);
  Tensor statistics = dry::new_unknown(log_sum, device, sim::attention_statistics(attention.shape, attention.kernel));
  // What is dropped has the place of the card's seed.
  Tensor seed = dropout > 0.0 ? dry::new_unknown({query.size(0), query.size(1), query.size(2), key.size(2)}, at::kBool,
                                                 device, sizeof(int64_t))
                              : number();
  if (dropout > 0.0) dry::note(engine::MadeUpKind::kDraw);
  return Results{std::move(made), std::move(statistics), std::move(seed), number()};
}

Results forward(const Tensor& query, const Tensor& key, const Tensor& value, const optional<Tensor>& mask, bool,
                double dropout, bool causal, optional<double> scale) {
  AsKernel kernel(query);
  const Attention attention(query, key);
  if (dry::on()) {
    if (auto results = forward_dry(attention, kernel.device(), query, key, value, dropout, causal, mask, scale)) {
      kernel.note_dry({query, key, value, mask.value_or(Tensor())}, {std::get<0>(*results), std::get<1>(*results)});
      return *std::move(results);
    }
  }
  Tensor output, log_sum, seed;
  if (dropout > 0.0) {
    Dropped parts(kernel, query, key, value, mask, dropout, causal, scale);
    seed = parts.kept = at::empty(parts.weights.sizes(), at::kBool)
                            .bernoulli_(1.0 - dropout, cpu_generator_of(default_generator(kernel.device())));
    output = parts.output().to(query.scalar_type());
    log_sum = at::zeros({query.size(0), query.size(1), query.size(2)}, at::kFloat);
  } else {
    std::tie(output, log_sum) = at::_scaled_dot_product_flash_attention_for_cpu(
        kernel.in(query), kernel.in(key), kernel.in(value), dropout, causal, host_mask(kernel, mask), scale);
    seed = at::empty({attention.efficient() ? 0 : 1}, at::kLong);
  }
  output = kernel.out_as_is(attention.laid_out(output, kernel.in(query)));
  return {std::move(output),
          kernel.out_as_is(std::move(log_sum), sim::attention_statistics(attention.shape, attention.kernel)),
          kernel.out_as_is(std::move(seed), sizeof(int64_t)),
          kernel.out(at::empty({attention.efficient() ? 0 : 1}, at::kLong))};
}

Results backward(const Tensor& grad, const Tensor& query, const Tensor& key, const Tensor& value, const Tensor& mask,
                 const Tensor& output, const Tensor& log_sum, const Tensor& seed, const Tensor&, double dropout,
                 std::array<bool, 4>, bool causal, optional<double> scale) {
  if (!grad.defined()) return {};
  AsKernel kernel(query);
  const Attention attention(query, key);
  std::int64_t scratch = sim::attention_backward_scratch(attention.shape, attention.kernel);
  if (attention.efficient()) {  // gradient times output, and its sums over each row
    const std::int64_t rows = query.size(0) * query.size(1) * query.size(2);
    scratch = std::max(scratch, static_cast<std::int64_t>(query.nbytes())) + 2 * rows * 4;
    if (!grad.transpose(1, 2).is_contiguous()) scratch += static_cast<std::int64_t>(grad.nbytes());  // laid out anew
  }
  if (dry::on() &&
      (dry::is_unknown(grad) || dry::is_unknown(query) || dry::is_unknown(key) || dry::is_unknown(value))) {
    Results results{attention.unknown_like(query, kernel.device()), attention.unknown_like(key, kernel.device()),
                    attention.unknown_like(value, kernel.device()), Tensor()};
    kernel.note_dry({grad, query, key, value, output, log_sum},
                    {std::get<0>(results), std::get<1>(results), std::get<2>(results)});
    Scratch(kernel.device(), scratch).release();
    return results;
  }
  Tensor into_query, into_key, into_value;
  if (dropout > 0.0) {
    Dropped parts(kernel, query, key, value, mask, dropout, causal, scale);
    parts.kept = kernel.in(seed);
    std::tie(into_query, into_key, into_value) = parts.gradients(kernel.in(grad).to(parts.query.scalar_type()));
    for (Tensor* t : {&into_query, &into_key, &into_value}) *t = t->to(query.scalar_type());
  } else {
    std::tie(into_query, into_key, into_value) = at::_scaled_dot_product_flash_attention_for_cpu_backward(
        kernel.in(grad), kernel.in(query), kernel.in(key), kernel.in(value), kernel.in(output), kernel.in(log_sum),
        dropout, causal, host_mask(kernel, mask), scale);
  }
  Results results{kernel.out_as_is(attention.laid_out(into_query, kernel.in(query))),
                  kernel.out_as_is(attention.laid_out(into_key, kernel.in(key))),
                  kernel.out_as_is(attention.laid_out(into_value, kernel.in(value))), Tensor()};
  Scratch(kernel.device(), scratch).release();
  return results;
}

}  // namespace

void add_attention_kernels(torch::Library& library, std::unordered_set<std::string>& done) {
  at::native::_fused_sdp_choice_stub.set_cuda_dispatch_ptr(&choose);
  add_kernel<&forward>(library, done, "_scaled_dot_product_efficient_attention");
  add_kernel<&backward>(library, done, "_scaled_dot_product_efficient_attention_backward");
}

}  // namespace locus::bridge
