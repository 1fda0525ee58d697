// See plan.h.
#include "locus/bridge/kernels/plan.h"

#include <ATen/core/enum_tag.h>

#include <array>
#include <atomic>
#include <mutex>
#include <optional>

#include "locus/bridge/door/origins.h"
#include "locus/bridge/door/rules.h"
#include "locus/engine/intern.h"

namespace locus::bridge {
namespace {

constexpr size_t kBuckets = size_t{1} << 14;  // PyTorch has about 3,500 operators
struct Entry {
  const c10::FunctionSchema* schema;
  OperatorPlan plan;
  std::optional<c10::FunctionSchema> copy;  ///< of an operator that may go: another may get its address
  unsigned kernels = 0;                     ///< and it may be given kernels after its first call
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

constexpr unsigned kDenseKernels = 0b1111;
/// One bit for each way in which the host could run it, those for dense tensors first.
unsigned host_kernels_of(const c10::OperatorHandle& op) {
  unsigned found = 0, bit = 1;
  for (const auto key :
       {c10::DispatchKey::CPU, c10::DispatchKey::CompositeExplicitAutograd,
        c10::DispatchKey::CompositeExplicitAutogradNonFunctional, c10::DispatchKey::CompositeImplicitAutograd,
        c10::DispatchKey::SparseCPU, c10::DispatchKey::SparseCsrCPU, c10::DispatchKey::NestedTensorCPU}) {
    if (op.hasKernelForDispatchKey(key)) found |= bit;
    bit <<= 1;
  }
  return found;
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
    const std::string& called = argument.name();
    plan.writes_part = plan.writes_part || called == "index" || called == "indices" || called == "mask";
    if (a.kind == ArgumentKind::kGenerator) plan.generator = static_cast<int>(plan.arguments.size());
    if (a.kind == ArgumentKind::kTensor) plan.tensors += 1;
    if (a.kind == ArgumentKind::kTensorList || a.kind == ArgumentKind::kOptionalTensorList) plan.tensors += 2;
    plan.has_optional_list = plan.has_optional_list || a.kind == ArgumentKind::kOptionalTensorList;
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
  bool writes = false;
  for (const Argument& argument : plan.arguments) writes = writes || argument.written;
  plan.is_view = (plan.aliases != 0 && !writes) || plan.name.compare(0, 12, "aten::resize") == 0;
  for (const char* name : {"aten::_local_scalar_dense", "aten::nonzero", "aten::masked_select", "aten::equal",
                           "aten::_unique2", "aten::unique_dim", "aten::unique_consecutive", "aten::bincount",
                           "aten::repeat_interleave.Tensor", "aten::histc", "aten::is_nonzero"}) {
    plan.synchronizes = plan.synchronizes || plan.name == name;
  }
  plan.draws = op.hasTag(at::Tag::nondeterministic_seeded);
  plan.has_host_kernel = host_kernels_of(op) != 0;
  plan.has_dense_host_kernel = (host_kernels_of(op) & kDenseKernels) != 0;
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
  plan.memory = sim::memory_rule(plan.name);
  plan.libraries = sim::library_use(plan.name);
  plan.dry = dry::kind_of_operator(plan.name);
  return plan;
}

size_t bucket_of(const c10::FunctionSchema* schema) {
  return engine::mix(reinterpret_cast<std::uintptr_t>(schema)) & (kBuckets - 1);
}

Entry* make_entry(const c10::OperatorHandle& op) {
  auto* entry = new Entry{&op.schema(), make_plan(op), std::nullopt, 0};  // for good: others may be reading it
  if (entry->plan.name.compare(0, 6, "aten::") != 0) {
    entry->copy = op.schema();
    entry->kernels = host_kernels_of(op);
  }
  return entry;
}

/// PyTorch's own operators stay as they are. Those of a program can be taken back and defined anew.
bool holds(const Entry& entry, const c10::OperatorHandle& op) {
  return !entry.copy.has_value() || (entry.kernels == host_kernels_of(op) && *entry.copy == op.schema());
}

}  // namespace

const OperatorPlan& plan_of(const c10::OperatorHandle& op) {
  const c10::FunctionSchema* schema = &op.schema();
  size_t slot = bucket_of(schema);
  for (Entry* entry; (entry = g_plans[slot].load(std::memory_order_acquire)) != nullptr;
       slot = (slot + 1) & (kBuckets - 1)) {
    if (entry->schema != schema) continue;
    if (holds(*entry, op)) return entry->plan;
    break;
  }
  std::lock_guard<std::mutex> lock(g_mutex);
  for (slot = bucket_of(schema);; slot = (slot + 1) & (kBuckets - 1)) {
    Entry* entry = g_plans[slot].load();
    if (entry != nullptr && entry->schema != schema) continue;
    if (entry == nullptr || !holds(*entry, op)) g_plans[slot].store(entry = make_entry(op), std::memory_order_release);
    return entry->plan;
  }
}

void settle_lists(const OperatorPlan& plan, torch::jit::Stack* stack) {
  if (!plan.has_optional_list) return;
  const size_t base = stack->size() - plan.arguments.size();
  for (const std::uint16_t i : plan.holders) {
    c10::IValue& value = (*stack)[base + i];
    if (plan.arguments[i].kind != ArgumentKind::kOptionalTensorList || !value.isList()) continue;
    if (value.isOptionalTensorList()) continue;
    c10::List<std::optional<at::Tensor>> known;
    for (const c10::IValue& element : value.toListRef()) {
      known.push_back(element.isTensor() ? std::optional<at::Tensor>(element.toTensor()) : std::nullopt);
    }
    value = std::move(known);
  }
}

}  // namespace locus::bridge
