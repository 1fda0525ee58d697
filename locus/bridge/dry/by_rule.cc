// Kernels with a C++ signature, in a dry run.
#include <ATen/EmptyTensor.h>

#include <algorithm>

#include "locus/bridge/dry/call.h"
#include "locus/bridge/dry/memory.h"

namespace locus::bridge::dry {

using at::Tensor;
using Source = TensorGeometry::Source;

std::optional<std::vector<Tensor>> by_rule(const char* name, const char* overload, int device, torch::jit::Stack stack,
                                           bool only_geometry) {
  if (!on()) return std::nullopt;
  const auto op = c10::Dispatcher::singleton().findSchemaOrThrow(name, overload);
  const OperatorPlan& plan = plan_of(op);
  const Operands operands = operands_of({op, plan, stack, 0});
  const bool unknown = std::ranges::any_of(operands, [](const Tensor& t) { return is_unknown(t); });
  const auto geometry = geometry_by(op, std::move(stack));
  if (geometry == nullptr) return std::nullopt;
  bool large = false;
  for (std::size_t i = 0; i < geometry->storages.size(); ++i) {
    large = large || !is_small(geometry->storages[i], geometry->types[i], false);
  }
  if (!unknown && !large) return std::nullopt;
  std::vector<Tensor> made;
  for (const ReturnGeometry& returned : geometry->returns) {
    for (const TensorGeometry& each : returned.tensors) {
      if (each.source == Source::kNone) {
        made.emplace_back();
        continue;
      }
      if (each.source != Source::kNew) return std::nullopt;
      if (only_geometry) {
        made.push_back(at::detail::empty_strided_meta(each.sizes, each.strides, each.type));
        continue;
      }
      auto storage = new_untouched_storage(geometry->storages[static_cast<std::size_t>(each.index)], device);
      made.push_back(tensor_on(c10::Storage(std::move(storage)), /*on_host=*/false, /*unknown=*/true, each));
    }
  }
  return made;
}

}  // namespace locus::bridge::dry
