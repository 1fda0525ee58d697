// Operators that PyTorch has for CUDA only and that ordinary programs reach: the fused recurrent cells.
// Written with PyTorch's own CPU operators on host addresses.
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/op_registration/adaption.h>
#include <ATen/ops/add.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/sub.h>
#include <ATen/ops/tanh.h>
#include <ATen/ops/zeros_like.h>
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

/// For AsKernel::made_before(); those of backward passes leave room for one more, with biases.
enum Number : std::int64_t { kLstm, kLstmBackward, kGru = 3, kGruBackward };

/// What PyTorch's generated wrapper asks before the kernel runs.
void check_devices(const char* wrapper, const Tensor& input_gates, const Tensor& hidden_gates, const Tensor& state,
                   const char* state_name, const optional<Tensor>& input_bias, const optional<Tensor>& hidden_bias) {
  optional<c10::Device> common;
  c10::impl::check_and_update_common_device(common, input_gates, wrapper, "input_gates");
  c10::impl::check_and_update_common_device(common, hidden_gates, wrapper, "hidden_gates");
  c10::impl::check_and_update_common_device(common, state, wrapper, state_name);
  c10::impl::check_and_update_common_device(common, input_bias, wrapper, "input_bias");
  c10::impl::check_and_update_common_device(common, hidden_bias, wrapper, "hidden_bias");
}

/// The gates that lie side by side in a tensor of (batch, count × hidden).
std::vector<Tensor> gates_of(const Tensor& t, int64_t count) {
  TORCH_CHECK(t.dim() == 2 && t.size(1) % count == 0, "Expected 2-dimensional tensor of ", count,
              " gates of one size, but got a tensor of size ", t.sizes());
  return t.chunk(count, 1);
}

Tensor with_biases(const Tensor& gates, const Tensor& input_bias, const Tensor& hidden_bias) {
  return input_bias.defined() ? gates + input_bias + hidden_bias : gates;
}

std::tuple<Tensor, Tensor, Tensor> lstm_cell(const Tensor& input_gates, const Tensor& hidden_gates, const Tensor& cx,
                                             const optional<Tensor>& input_bias, const optional<Tensor>& hidden_bias) {
  check_devices("wrapper_CUDA___thnn_fused_lstm_cell", input_gates, hidden_gates, cx, "cx", input_bias, hidden_bias);
  AsKernel kernel(input_gates, {input_gates, hidden_gates, cx, input_bias, hidden_bias});
  if (const auto made = kernel.made_before(kLstm)) return {(*made)[0], (*made)[1], (*made)[2]};
  const Tensor sum =
      with_biases(kernel.in(input_gates) + kernel.in(hidden_gates), kernel.in(input_bias), kernel.in(hidden_bias));
  const auto gates = gates_of(sum, 4);
  const Tensor input = gates[0].sigmoid(), forget = gates[1].sigmoid(), cell = gates[2].tanh(),
               output = gates[3].sigmoid();
  const Tensor cy = forget * kernel.in(cx) + input * cell;
  const Tensor hy = output * cy.tanh();
  return {kernel.out(hy), kernel.out(cy), kernel.out(at::cat({input, forget, cell, output}, 1))};
}

std::tuple<Tensor, Tensor, Tensor> lstm_cell_backward(const optional<Tensor>& grad_hy, const optional<Tensor>& grad_cy,
                                                      const Tensor& cx_in, const Tensor& cy_in, const Tensor& workspace,
                                                      bool has_bias) {
  AsKernel kernel(workspace, {grad_hy, grad_cy, cx_in, cy_in, workspace});
  if (const auto made = kernel.made_before(kLstmBackward + (has_bias ? 1 : 0))) {
    return {(*made)[0], (*made)[1], (*made)[2]};
  }
  const Tensor cx = kernel.in(cx_in), tanh_cy = kernel.in(cy_in).tanh();
  const auto gates = gates_of(kernel.in(workspace), 4);
  const Tensor &input = gates[0], &forget = gates[1], &cell = gates[2], &output = gates[3];
  Tensor from_hy = kernel.in(grad_hy), into_cell = kernel.in(grad_cy);
  if (!from_hy.defined()) from_hy = at::zeros_like(tanh_cy);
  if (!into_cell.defined()) into_cell = at::zeros_like(tanh_cy);
  const Tensor total = from_hy * output * (1 - tanh_cy * tanh_cy) + into_cell;
  const Tensor grad_gates = at::cat({total * cell * input * (1 - input), total * cx * forget * (1 - forget),
                                     total * input * (1 - cell * cell), from_hy * tanh_cy * output * (1 - output)},
                                    1);
  const Tensor grad_bias = has_bias ? grad_gates.sum(0) : Tensor();
  return {kernel.out(grad_gates), kernel.out(total * forget), kernel.out(grad_bias)};
}

std::tuple<Tensor, Tensor> gru_cell(const Tensor& input_gates, const Tensor& hidden_gates, const Tensor& hx_in,
                                    const optional<Tensor>& input_bias_in, const optional<Tensor>& hidden_bias_in) {
  check_devices("wrapper_CUDA___thnn_fused_gru_cell", input_gates, hidden_gates, hx_in, "hx", input_bias_in,
                hidden_bias_in);
  AsKernel kernel(input_gates, {input_gates, hidden_gates, hx_in, input_bias_in, hidden_bias_in});
  if (const auto made = kernel.made_before(kGru)) return {(*made)[0], (*made)[1]};
  const Tensor input_bias = kernel.in(input_bias_in), hidden_bias = kernel.in(hidden_bias_in), hx = kernel.in(hx_in);
  Tensor from_input = kernel.in(input_gates), from_hidden = kernel.in(hidden_gates);
  if (input_bias.defined()) {
    from_input = from_input + input_bias;
    from_hidden = from_hidden + hidden_bias;
  }
  const auto in = gates_of(from_input, 3), hid = gates_of(from_hidden, 3);
  const Tensor reset = (in[0] + hid[0]).sigmoid(), update = (in[1] + hid[1]).sigmoid();
  const Tensor fresh = (in[2] + reset * hid[2]).tanh();
  const Tensor hy = fresh + update * (hx - fresh);
  return {kernel.out(hy), kernel.out(at::cat({reset, update, fresh, hx, hid[2]}, 1))};
}

std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> gru_cell_backward(const Tensor& grad_hy, const Tensor& workspace,
                                                                     bool has_bias) {
  AsKernel kernel(grad_hy, {grad_hy, workspace});
  if (const auto made = kernel.made_before(kGruBackward + (has_bias ? 1 : 0))) {
    return {(*made)[0], (*made)[1], (*made)[2], (*made)[3], (*made)[4]};
  }
  const auto saved = gates_of(kernel.in(workspace), 5);
  const Tensor &reset = saved[0], &update = saved[1], &fresh = saved[2], &hx = saved[3], &hidden = saved[4];
  const Tensor grad = kernel.in(grad_hy);
  const Tensor grad_update = grad * (hx - fresh) * (1 - update) * update;
  const Tensor grad_fresh = grad * (1 - update) * (1 - fresh * fresh);
  const Tensor grad_reset = grad_fresh * hidden * (1 - reset) * reset;
  const Tensor into_input = at::cat({grad_reset, grad_update, grad_fresh}, 1);
  const Tensor into_hidden = at::cat({grad_reset, grad_update, grad_fresh * reset}, 1);
  return {kernel.out(into_input), kernel.out(into_hidden), kernel.out(grad * update),
          kernel.out(has_bias ? into_input.sum(0) : Tensor()), kernel.out(has_bias ? into_hidden.sum(0) : Tensor())};
}

}  // namespace

void add_cell_kernels(torch::Library& library, std::unordered_set<std::string>& done) {
  add_kernel<&lstm_cell>(library, done, "_thnn_fused_lstm_cell");
  add_kernel<&lstm_cell_backward>(library, done, "_thnn_fused_lstm_cell_backward_impl");
  add_kernel<&gru_cell>(library, done, "_thnn_fused_gru_cell");
  add_kernel<&gru_cell_backward>(library, done, "_thnn_fused_gru_cell_backward");
}

}  // namespace locus::bridge
