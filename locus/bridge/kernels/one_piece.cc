// Operators that a card runs in one piece and PyTorch takes apart for the CPU: recurrent networks (cuDNN) and RMS
// norms. PyTorch's own parts compute the same, in a graph inside of one node, and what is booked is the card's: a
// workspace while either pass runs, a reserve between them.
#include <ATen/Context.h>
#include <ATen/SavedTensorHooks.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/functions/basic_ops.h>
#include <torch/csrc/autograd/graph_task.h>
#include <torch/library.h>

#include <memory>
#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

#include "locus/bridge/door/check.h"
#include "locus/bridge/door/watch.h"
#include "locus/bridge/kernels/cuda_only.h"
#include "locus/bridge/kernels/kernels.h"
#include "locus/bridge/memory/scratch.h"

namespace locus::bridge {
namespace {

using at::Tensor;
using c10::IValue;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using torch::jit::Stack;

/// Stands where a tensor was. Made once, at the start: the program's own modes see every tensor that is made.
const Tensor& place() {
  static const Tensor none = at::empty({0});
  return none;
}

/// A call, and what it takes on the card.
struct Piece {
  const c10::OperatorHandle* op;
  std::vector<IValue> arguments;
  std::int64_t reserve = 0, workspace = 0;
  bool once = false;   ///< the card has no second derivative of it
  bool draws = false;  ///< run again, it gives other values

  Piece(const c10::OperatorHandle& handle, const Stack& stack)
      : op(&handle),
        arguments(stack.end() - static_cast<std::ptrdiff_t>(handle.schema().arguments().size()), stack.end()) {}

  /// All its tensors, in order.
  variable_list tensors() const {
    variable_list all;
    for (const IValue& value : arguments) {
      if (value.isTensor() && value.toTensor().defined()) {
        all.push_back(value.toTensor());
      } else if (value.isTensorList()) {
        for (const Tensor& t : value.toTensorVector()) all.push_back(t);
      }
    }
    return all;
  }
  /// Holds none of its tensors any longer, only their places.
  void let_go() {
    for (IValue& value : arguments) {
      if (value.isTensor() && value.toTensor().defined()) {
        value = place();
      } else if (value.isTensorList()) {
        value = std::vector<Tensor>(value.toTensorList().size(), place());
      }
    }
  }
  /// The call in parts, with these tensors in the place of its own.
  variable_list run(const variable_list& tensors) const {
    Stack stack(arguments.begin(), arguments.end());
    size_t next = 0;
    for (IValue& value : stack) {
      if (value.isTensor() && value.toTensor().defined()) {
        value = tensors[next++];
      } else if (value.isTensorList()) {
        std::vector<Tensor> list(value.toTensorList().size());
        for (Tensor& t : list) t = tensors[next++];
        value = std::move(list);
      }
    }
    op->callBoxedForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd, stack);
    variable_list made;
    for (IValue& value : stack) made.push_back(std::move(value).toTensor());
    return made;
  }
};

void book_all(const variable_list& tensors) {
  for (const Tensor& t : tensors) {
    if (t.defined() && t.has_storage()) book_late(*t.storage().unsafeGetStorageImpl());
  }
}

int index_of(at::TensorList tensors) { return static_cast<int>(tensors[0].device().index()); }

/// Whether the program's own hooks take what a graph saves (checkpointing, save_on_cpu): it is asked for with the
/// operands, once, as on the card. Saved in the graph inside as well, it would be brought back once more, by a backward
/// pass of its own.
bool is_hooked(const Piece& piece) {
  return !piece.draws && !at::SavedTensorDefaultHooks::get_tls_state().stack.empty();
}

/// What lies between the passes.
struct Kept : torch::CustomClassHolder {
  explicit Kept(Piece of) : piece(std::move(of)) {}
  Piece piece;
  variable_list inputs, outputs;  // of the graph inside; none where it is made in the backward pass
  bool is_hooked = false;
  Scratch reserve;

  void make_graph(const variable_list& tensors) {
    inputs.clear();
    for (const Tensor& t : tensors) inputs.push_back(t.detach().requires_grad_(t.requires_grad()));
    UncountedScope parts;
    at::AutoGradMode record(true);
    outputs = piece.run(inputs);
  }
};

constexpr const char* kNoSecondDerivative =
    "the derivative for '_cudnn_rnn_backward' is not implemented. Double backwards is not supported for CuDNN RNNs due "
    "to limitations in the CuDNN API. To run double backwards, please disable the CuDNN backend temporarily while "
    "running the forward pass of your RNN. For example: \nwith torch.backends.cudnn.flags(enabled=False):\n    output "
    "= "
    "model(inputs)";
constexpr const char* kFreed =
    "Trying to backward through the graph a second time (or directly access saved tensors after they have already been "
    "freed). Saved intermediate values of the graph are freed when you call .backward() or autograd.grad(). Specify "
    "retain_graph=True if you need to backward through the graph a second time or if you need to access saved tensors "
    "after calling backward.";

struct InOnePiece : torch::autograd::Function<InOnePiece> {
  static variable_list forward(AutogradContext* context, const Piece* piece, at::TensorList tensors) {
    auto kept = c10::make_intrusive<Kept>(*piece);
    context->set_materialize_grads(false);  // zeros would be plain tensors where the results are of a subclass
    kept->is_hooked = is_hooked(*piece);
    variable_list results;
    if (kept->is_hooked) {
      UncountedScope parts;
      results = piece->run(tensors.vec());
      kept->piece.let_go();
    } else {
      kept->make_graph(tensors.vec());
      for (const Tensor& t : kept->outputs) results.push_back(t.defined() ? t.detach() : t);
    }
    book_all(results);
    Scratch workspace(index_of(tensors), piece->workspace), reserve(index_of(tensors), piece->reserve);
    if (!kept->is_hooked) kept->reserve = std::move(reserve);
    if (kept->is_hooked || !piece->once) context->save_for_backward(tensors.vec());
    context->saved_data["kept"] = IValue::make_capsule(std::move(kept));
    return results;
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    const auto kept = c10::static_intrusive_pointer_cast<Kept>(context->saved_data.at("kept").toCapsule());
    TORCH_CHECK(kept->is_hooked || !kept->outputs.empty(), kFreed);
    const bool keep = torch::autograd::get_current_graph_task_keep_graph(), again = at::GradMode::is_enabled();
    // A second derivative needs a graph that ends in the operands themselves.
    const bool anew = again && !kept->piece.once;
    if (kept->is_hooked && !anew) kept->make_graph(context->get_saved_variables());
    const variable_list from = anew ? context->get_saved_variables() : kept->inputs;
    const variable_list through = anew ? kept->piece.run(from) : kept->outputs;
    variable_list outputs, with, inputs;
    for (size_t i = 0; i < grads.size(); ++i) {
      if (!grads[i].defined() || !through[i].defined() || !through[i].requires_grad()) continue;
      outputs.push_back(through[i]);
      with.push_back(anew ? grads[i] : grads[i].detach());
    }
    for (const Tensor& t : from) {
      if (t.requires_grad()) inputs.push_back(t);
    }
    variable_list made(inputs.size());
    if (!outputs.empty() && !inputs.empty()) {
      std::optional<UncountedScope> parts;
      if (!anew) parts.emplace();
      at::AutoGradMode record(anew);
      made = torch::autograd::grad(outputs, inputs, with, /*retain_graph=*/keep || anew, /*create_graph=*/anew,
                                   /*allow_unused=*/true);
    }
    book_all(made);
    Scratch(index_of(from), kept->piece.workspace).release();
    variable_list all{Tensor()};  // for the call itself
    size_t next = 0;
    for (const Tensor& t : from) all.push_back(t.requires_grad() ? made[next++] : Tensor());
    if (!keep || kept->is_hooked) {
      kept->inputs.clear(), kept->outputs.clear();
      kept->reserve.release();
    }
    if (!again || anew) return all;
    return std::make_shared<torch::autograd::DelayedError>(kNoSecondDerivative, static_cast<int64_t>(all.size()))
        ->apply(variable_list(all));
  }
};

bool on_one_device(const variable_list& tensors) {
  for (const Tensor& t : tensors) {
    if (!is_simulated(t) || t.device() != tensors[0].device()) return false;
  }
  return !tensors.empty();
}

bool learns(const variable_list& tensors) {
  if (!at::GradMode::is_enabled()) return false;
  for (const Tensor& t : tensors) {
    if (t.requires_grad()) return true;
  }
  return false;
}

void run(const Piece& piece, const variable_list& tensors, Stack* stack) {
  variable_list results;
  if (learns(tensors)) {
    results = InOnePiece::apply(&piece, at::TensorList(tensors));
    // The door lets composites be taken apart, and nobody else knows of this node.
    const auto node = results.front().grad_fn();
    if (watching() && node != nullptr) {
      note_forward_site(node->sequence_nr(), node->sequence_nr() + 1, current_site());
    }
  } else {
    {
      UncountedScope parts;
      results = piece.run(tensors);
    }
    book_all(results);
    Scratch(index_of(tensors), piece.workspace).release();
  }
  stack->erase(stack->end() - static_cast<std::ptrdiff_t>(piece.arguments.size()), stack->end());
  for (Tensor& t : results) stack->emplace_back(std::move(t));
}

// Of a recurrent network: input, hx (a list for an LSTM), params, has_biases, num_layers, dropout, train,
// bidirectional, batch_first.
enum Slot { kInput, kState, kParams, kHasBiases, kLayers, kDropout, kTrain, kBidirectional, kBatchFirst };

/// The network as cuDNN sees it; nothing where PyTorch would not ask cuDNN.
std::optional<sim::RecurrentShape> recurrent_shape(const Piece& piece, int gates) {
  const auto& a = piece.arguments;
  const Tensor input = a[kInput].toTensor();
  if (!input.defined() || input.dim() != 3 || input.numel() == 0 || !at::globalContext().userEnabledCuDNN()) return {};
  const auto type = input.scalar_type();
  if (type != at::kFloat && type != at::kDouble && type != at::kHalf && type != at::kBFloat16) return {};
  const auto params = a[kParams].toTensorVector();
  const int64_t layers = a[kLayers].toInt(), directions = a[kBidirectional].toBool() ? 2 : 1;
  const int64_t for_each = a[kHasBiases].toBool() ? 4 : 2;
  if (static_cast<int64_t>(params.size()) != for_each * layers * directions) return {};  // projections
  const size_t time = a[kBatchFirst].toBool() ? 1 : 0;
  sim::RecurrentShape shape;
  shape.gates = gates;
  shape.steps = input.size(static_cast<int64_t>(time)), shape.batch = input.size(static_cast<int64_t>(1 - time));
  shape.input = input.size(2), shape.hidden = params[1].size(1);
  shape.layers = layers, shape.directions = directions;
  shape.item = static_cast<int>(input.element_size());
  shape.drops = a[kDropout].toDouble() > 0 && a[kTrain].toBool();
  shape.compacts = type == at::kBFloat16;  // PyTorch puts the weights of other types side by side
  return shape;
}

/// cuDNN wants a step after the other: an input that lies otherwise is copied for as long as a call takes.
int64_t input_copy(const Piece& piece) {
  const Tensor input = piece.arguments[kInput].toTensor();
  const bool in_order = (piece.arguments[kBatchFirst].toBool() ? input.transpose(0, 1) : input).is_contiguous();
  return in_order ? 0 : static_cast<int64_t>(input.nbytes());
}

template <int kGates>
void recurrent_kernel(const c10::OperatorHandle& op, c10::DispatchKeySet, Stack* stack) {
  Piece piece(op, *stack);
  const variable_list tensors = piece.tensors();
  const auto shape = on_one_device(tensors) ? recurrent_shape(piece, kGates) : std::nullopt;
  if (!shape.has_value()) return op.callBoxedForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd, *stack);
  piece.reserve = sim::recurrent_reserve(*shape);
  piece.workspace = sim::recurrent_workspace(*shape) + input_copy(piece);
  piece.once = true, piece.draws = shape->drops;
  run(piece, tensors, stack);
}

/// input, normalized_shape, weight, eps
void rms_norm_kernel(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) {
  Piece piece(op, *stack);
  const variable_list tensors = piece.tensors();
  if (!on_one_device(tensors) || tensors[0].numel() == 0) return checked_composite_kernel(op, keys, stack);
  int64_t width = 1;
  for (const int64_t extent : piece.arguments[1].toIntVector()) width *= extent;
  piece.reserve = tensors[0].numel() / std::max<int64_t>(width, 1) * 4;  // one factor for each row
  run(piece, tensors, stack);
}

}  // namespace

void add_one_piece_kernels(torch::Library& library, torch::Library& learning, std::unordered_set<std::string>& done) {
  place();
  const auto add = [&](const char* name, auto make) {
    library.impl(name, make());
    learning.impl(name, make());
    done.insert(name);
  };
  add("lstm.input", [] { return torch::CppFunction::makeFromBoxedFunction<&recurrent_kernel<4>>(); });
  add("gru.input", [] { return torch::CppFunction::makeFromBoxedFunction<&recurrent_kernel<3>>(); });
  add("rnn_tanh.input", [] { return torch::CppFunction::makeFromBoxedFunction<&recurrent_kernel<1>>(); });
  add("rnn_relu.input", [] { return torch::CppFunction::makeFromBoxedFunction<&recurrent_kernel<1>>(); });
  const auto rms = c10::Dispatcher::singleton().findOp({"aten::_fused_rms_norm", ""});
  if (rms.has_value() && !rms->hasKernelForDispatchKey(c10::DispatchKey::CPU)) {
    add("_fused_rms_norm", [] { return torch::CppFunction::makeFromBoxedFunction<&rms_norm_kernel>(); });
  }
}

}  // namespace locus::bridge
