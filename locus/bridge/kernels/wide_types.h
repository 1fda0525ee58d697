// Types that a card computes in and a CPU kernel does not know: the call is made in a wider type, and its results are
// rounded to the one that was given, as a card's kernels do.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/stack.h>

#include <cstdint>
#include <string_view>

namespace locus::bridge {

struct OperatorPlan;

enum class WideTypes : uint8_t { kNone, kHalf, kBothHalves, kIntegers };
/// For "aten::histc", any overload.
WideTypes wide_types_of(std::string_view operator_name);

/// Lives for one call of a CPU kernel. Does nothing unless an operand has one of the types.
class WideCall {
 public:
  /// Puts wider copies in the place of the operands; the stack holds CPU tensors.
  WideCall(const OperatorPlan& plan, torch::jit::Stack& stack, size_t base);
  /// After the call: the results, and what was written, in the types that were given.
  void finish(torch::jit::Stack& stack, size_t returns);

 private:
  struct Written {
    at::Tensor given, wide;
  };
  c10::ScalarType narrow_ = c10::ScalarType::Undefined;  ///< real: of what was widened, or of its real part
  c10::SmallVector<Written, 2> written_;
};

}  // namespace locus::bridge
