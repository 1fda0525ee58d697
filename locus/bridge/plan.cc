// See plan.h.
#include "locus/bridge/plan.h"

#include <ATen/core/enum_tag.h>

#include <array>
#include <atomic>
#include <mutex>

#include "locus/bridge/origins.h"
#include "locus/bridge/rules.h"
#include "locus/engine/intern.h"

namespace locus::bridge {
namespace {

constexpr size_t kBuckets = size_t{1} << 14;  // PyTorch has about 3,500 operators
struct Entry {
  const c10::FunctionSchema* schema;
  OperatorPlan plan;
};
std::array<std::atomic<Entry*>, kBuckets> g_plans{};
std::mutex g_mutex;

ArgumentKind kind_of(const c10::TypePtr& type) {
  const std::string text = type->str();
  if (text == "Tensor" || text == "Tensor?" || text == "Optional[Tensor]") return ArgumentKind::kTensor;
  if (text == "Tensor[]" || text == "List[Tensor]") return ArgumentKind::kTensorList;
  if (text == "Tensor?[]" || text == "List[Optional[Tensor]]") return ArgumentKind::kOptionalTensorList;
  if (text.find("Generator") != std::string::npos) return ArgumentKind::kGenerator;
  if (text == "Device" || text == "Device?" || text == "Optional[Device]") return ArgumentKind::kDevice;
  return ArgumentKind::kOther;
}

OperatorPlan make_plan(const c10::OperatorHandle& op) {
  OperatorPlan plan;
  const auto& schema = op.schema();
  plan.name = schema.name();
  if (!schema.overload_name().empty()) plan.name += "." + schema.overload_name();
  plan.number = operator_number(plan.name);
  for (const auto& argument : schema.arguments()) {
    Argument a;
    a.kind = kind_of(argument.type());
    a.written = argument.alias_info() != nullptr && argument.alias_info()->isWrite();
    if (a.kind == ArgumentKind::kGenerator) plan.generator = static_cast<int>(plan.arguments.size());
    if (a.kind == ArgumentKind::kTensor) plan.tensors += 1;
    if (a.kind == ArgumentKind::kTensorList || a.kind == ArgumentKind::kOptionalTensorList) plan.tensors += 2;
    if (a.kind == ArgumentKind::kTensor || a.kind == ArgumentKind::kTensorList ||
        a.kind == ArgumentKind::kOptionalTensorList) {
      plan.holders.push_back(static_cast<std::uint16_t>(plan.arguments.size()));
    }
    plan.arguments.push_back(a);
  }
  plan.elementwise_list = plan.name.compare(0, 15, "aten::_foreach_") == 0;
  plan.moves = plan.name == "aten::_to_copy";
  plan.copies = plan.name == "aten::copy_";
  for (size_t i = 0; i < schema.returns().size() && i < 32; ++i) {
    if (schema.returns()[i].alias_info() != nullptr) plan.aliases |= uint32_t{1} << i;
  }
  for (const char* name : {"aten::_local_scalar_dense", "aten::nonzero", "aten::masked_select", "aten::equal",
                           "aten::_unique2", "aten::unique_dim", "aten::unique_consecutive", "aten::bincount",
                           "aten::repeat_interleave.Tensor", "aten::histc", "aten::is_nonzero"}) {
    plan.synchronises = plan.synchronises || plan.name == name;
  }
  plan.draws = op.hasTag(at::Tag::nondeterministic_seeded);
  for (const auto key :
       {c10::DispatchKey::CPU, c10::DispatchKey::CompositeExplicitAutograd,
        c10::DispatchKey::CompositeExplicitAutogradNonFunctional, c10::DispatchKey::CompositeImplicitAutograd,
        c10::DispatchKey::SparseCPU, c10::DispatchKey::SparseCsrCPU, c10::DispatchKey::NestedTensorCPU}) {
    plan.has_host_kernel = plan.has_host_kernel || op.hasKernelForDispatchKey(key);
  }
  const auto has = [&](c10::DispatchKey key) { return op.hasKernelForDispatchKey(key); };
  const bool explicit_composite =
      has(c10::DispatchKey::CompositeExplicitAutograd) || has(c10::DispatchKey::CompositeExplicitAutogradNonFunctional);
  plan.composite = explicit_composite && !has(c10::DispatchKey::CPU);
  plan.decomposes =
      !has(c10::DispatchKey::CPU) && !explicit_composite && has(c10::DispatchKey::CompositeImplicitAutograd);
  // PyTorch's generated check sits in the wrappers of kernels; composites have none, their parts do.
  const bool has_wrapper = has(c10::DispatchKey::CPU) || (!explicit_composite && !plan.decomposes);
  plan.rule = rule_for(plan.name, schema, has_wrapper);
  const OperatorTraits traits = traits_for(plan.name);
  plan.sets_output_first = traits.sets_output_first;
  plan.host_only = traits.host_only && !explicit_composite && !has(c10::DispatchKey::CompositeImplicitAutograd);
  plan.wide_types = wide_types_of(plan.name);
  return plan;
}

size_t bucket_of(const c10::FunctionSchema* schema) {
  return engine::mix(reinterpret_cast<std::uintptr_t>(schema)) & (kBuckets - 1);
}

}  // namespace

const OperatorPlan& plan_of(const c10::OperatorHandle& op) {
  const c10::FunctionSchema* schema = &op.schema();
  size_t slot = bucket_of(schema);
  for (Entry* entry; (entry = g_plans[slot].load(std::memory_order_acquire)) != nullptr;
       slot = (slot + 1) & (kBuckets - 1)) {
    if (entry->schema == schema) return entry->plan;
  }
  std::lock_guard<std::mutex> lock(g_mutex);
  auto* fresh = new Entry{schema, make_plan(op)};  // kept for good: operators are
  for (slot = bucket_of(schema); g_plans[slot].load() != nullptr; slot = (slot + 1) & (kBuckets - 1)) {
    if (g_plans[slot].load()->schema == schema) {
      delete fresh;
      return g_plans[slot].load()->plan;
    }
  }
  g_plans[slot].store(fresh, std::memory_order_release);
  return fresh->plan;
}

}  // namespace locus::bridge
