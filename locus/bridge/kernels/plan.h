// What Locus needs to know of an operator to simulate and to check it, worked out once per operator.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <cstdint>
#include <string>
#include <vector>

#include "locus/bridge/dry/kinds.h"
#include "locus/bridge/kernels/wide_types.h"
#include "locus/engine/origin.h"
#include "locus/engine/rule.h"
#include "locus/sim/libraries.h"
#include "locus/sim/operator_memory.h"

namespace locus::bridge {

enum class ArgumentKind : uint8_t { kOther, kTensor, kTensorList, kOptionalTensorList, kGenerator, kDevice };

struct Argument {
  ArgumentKind kind = ArgumentKind::kOther;
  bool written = false;  ///< in-place or out=
};

struct OperatorPlan {
  std::string name;  ///< "aten::add.Tensor"
  engine::OperatorId number = 0;
  std::vector<Argument> arguments;
  std::vector<std::uint16_t> holders;  ///< which of them hold tensors or lists of tensors
  bool has_optional_list = false;      ///< such as the indices of index()
  int generator = -1;                  ///< position of the generator argument, or -1
  bool draws = false;                  ///< uses random numbers
  bool has_host_kernel = false;        ///< for tensors of any layout
  bool has_dense_host_kernel = false;  ///< for plain ones
  bool decomposes = false;             ///< PyTorch takes it apart into other operators before any kernel
  bool composite = false;              ///< its kernel calls other operators, below autograd, and checks nothing itself
  bool elementwise_list = false;       ///< _foreach_*: one call for many small ones
  bool moves = false;                  ///< _to_copy: the result is the operand, elsewhere
  bool copies = false;                 ///< copy_: what is written keeps its place, what is read crosses over
  uint32_t aliases = 0;                ///< which results are (views of) arguments, by bit
  bool is_view = false;                ///< touches no element
  bool writes_part = false;            ///< an index or a mask says which elements
  bool synchronizes = false;           ///< the host waits for its result
  int tensors = 0;                     ///< how many arguments hold tensors (a list counts twice)
  bool sets_output_first = false;      ///< see OperatorTraits
  bool host_only = false;              ///< no card has it
  WideTypes wide_types = WideTypes::kNone;
  sim::MemoryRule memory = sim::MemoryRule::kNone;  ///< what it takes on a card beside its results
  sim::LibraryUse libraries;                        ///< what it needs of CUDA's
  dry::Kind dry = dry::Kind::kPlain;                ///< what is particular about it in a dry run
  engine::OperatorRule rule;                        ///< which operands may be on which device
};

/// An argument must be on the CPU, whatever the others are on.
inline bool has_cpu_argument(const OperatorPlan& plan) {
  if (plan.rule.arguments == 0) return false;
  for (int i = 0; i < engine::OperatorRule::kMaxArguments; ++i) {
    if (plan.rule.argument(i) == engine::ArgumentRule::kMustBeCpu) return true;
  }
  return false;
}

/// The plan of an operator; made at its first call, lock-free afterwards.
const OperatorPlan& plan_of(const c10::OperatorHandle& op);

/// TorchScript's lists of optional tensors have a type object of their own, by which IValue does not know them again:
/// puts lists in their place that it knows.
void settle_lists(const OperatorPlan& plan, torch::jit::Stack* stack);

}  // namespace locus::bridge
