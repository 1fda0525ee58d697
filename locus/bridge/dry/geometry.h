// Shapes, strides, types and aliasing of an operator's results, without its values: asked of PyTorch's own shape rules
// (the Meta kernels) once, and remembered by operator, operands' geometry and scalars. A training step repeats itself:
// the second of 80 equal layers costs a look-up, even where the first has asked a rule in Python.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <c10/util/SmallVector.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "locus/bridge/kernels/plan.h"

namespace locus::bridge::dry {

/// The tensors among a call's arguments, in order; lists are laid out.
using Operands = c10::SmallVector<at::Tensor, 8>;

struct TensorGeometry {
  enum class Source : std::uint8_t {
    kNone,     ///< no tensor
    kOperand,  ///< an operand itself
    kView,     ///< on the storage of an operand
    kNew,      ///< on a storage of its own, or one that it shares with other results
  };
  Source source = Source::kNone;
  int index = 0;  ///< of the operand, or of the new storage
  at::ScalarType type = at::ScalarType::Float;
  c10::SmallVector<std::int64_t, 5> sizes, strides;
  std::int64_t offset = 0;
  bool conjugated = false, negated = false;
};

/// One returned value: tensors, or something else as it is.
struct ReturnGeometry {
  bool is_list = false;
  std::vector<TensorGeometry> tensors;
  std::optional<c10::IValue> other;
};

/// An operand that the call gives other sizes or more memory.
struct ResizedOperand {
  int index = 0;
  TensorGeometry after;
  std::size_t bytes = 0;
};

struct Geometry {
  std::vector<std::size_t> storages;  ///< bytes of each new one
  std::vector<at::ScalarType> types;  ///< of each
  std::vector<ReturnGeometry> returns;
  std::vector<ResizedOperand> resized;
};

/// A call's arguments on the stack.
struct Arguments {
  const c10::OperatorHandle& op;
  const OperatorPlan& plan;
  torch::jit::Stack& stack;
  std::size_t base;
};

/// A Meta tensor with the operand's geometry.
at::Tensor twin_of(const at::Tensor& t);

Operands operands_of(const Arguments& arguments);

/// What the geometry of a call's results hangs on; empty where no key can hold it.
using GeometryKey = c10::SmallVector<std::int64_t, 96>;
GeometryKey key_of(const Arguments& arguments);
/// Adds what a tensor, defined or not, has to do with that.
void add_tensor(GeometryKey& key, const at::Tensor& t);

/// The geometry of a call's results; nullptr where PyTorch has no rule for it, or where the rule refuses the operands
/// (then the operator itself has the right words).
std::shared_ptr<const Geometry> geometry_of(const Arguments& arguments, const GeometryKey& key,
                                            const Operands& operands);
/// What is remembered of calls like it; nullptr: nothing.
std::shared_ptr<const Geometry> recall_geometry(const GeometryKey& key);
/// The same by the rule of another operator, whose arguments these are.
std::shared_ptr<const Geometry> geometry_by(const c10::OperatorHandle& op, torch::jit::Stack arguments);
/// Remembers what a call that was computed for real has given (the last `returns` values on the stack), for calls
/// like it.
void learn_geometry(const GeometryKey& key, const Operands& operands, const torch::jit::Stack& stack,
                    std::size_t returns);

}  // namespace locus::bridge::dry
