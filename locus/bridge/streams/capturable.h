// Kernels with a C++ signature, registered so that a CUDA graph can keep their calls: in a capture the arguments go
// into boxes, as those of any other operator do.
#pragma once

#include <ATen/core/boxing/impl/boxing.h>
#include <ATen/core/boxing/impl/make_boxed_from_unboxed_functor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include <optional>
#include <string>
#include <unordered_set>

#include "locus/bridge/kernels/plan.h"
#include "locus/bridge/streams/graphs.h"

namespace locus::bridge {

template <auto Function, class Signature = decltype(Function)>
struct Capturable;
template <auto Function, class Result, class... Args>
struct Capturable<Function, Result (*)(Args...)> {
  static inline std::optional<c10::OperatorHandle> op;

  static Result call(Args... args) {
    if (!capturing()) return Function(std::forward<Args>(args)...);
    torch::jit::Stack stack = c10::impl::boxArgs<Args...>(args...);
    if constexpr (std::is_lvalue_reference_v<Result>) {  // out=: the result is the last argument
      const auto run = [&] {
        Result made = Function(args...);
        stack.assign(1, c10::IValue(made));
      };
      capture_call(*op, plan_of(*op), &stack, run);
      return std::get<sizeof...(Args) - 1>(std::tie(args...));
    } else {
      const auto run = [&] {
        Result made = Function(args...);
        stack.clear();
        c10::impl::push_outputs<Result, /*AllowDeprecatedTypes=*/false>::call(std::move(made), &stack);
      };
      capture_call(*op, plan_of(*op), &stack, run);
      return c10::impl::PopResult<Result>::call(stack);
    }
  }
};

/// Registers the function as the operator's kernel. `name` with its overload: "mm.dtype".
template <auto Function>
void add_kernel(torch::Library& library, std::unordered_set<std::string>& done, const std::string& name) {
  const size_t dot = name.find('.');
  const std::string overload = dot == std::string::npos ? "" : name.substr(dot + 1);
  const auto op = c10::Dispatcher::singleton().findSchema({"aten::" + name.substr(0, dot), overload});
  if (!op.has_value()) return;  // not in this version of PyTorch
  Capturable<Function>::op = op;
  library.impl(name.c_str(), &Capturable<Function>::call);
  done.insert(name);
}

}  // namespace locus::bridge
