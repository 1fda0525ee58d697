// See rules.h.
#include "locus/bridge/door/rules.h"

#include <string_view>
#include <unordered_map>

namespace locus::bridge {
namespace {

using engine::ArgumentRule;
using engine::OperatorRule;
using engine::RuleKind;

struct Metadata {
  bool unchecked;    ///< PyTorch's CUDA wrapper makes no device check
  bool structured;   ///< decides how that wrapper is called
  bool iterator;     ///< TensorIterator is its shape function, and compares devices
  bool host_only;    ///< a kernel for the CPU and none for CUDA
  bool device_only;  ///< a kernel for CUDA and none for the CPU
};
const std::unordered_map<std::string_view, Metadata>& metadata() {
  static const auto* operators = new std::unordered_map<std::string_view, Metadata>{
#include "locus/bridge/rules.inc"
  };
  return *operators;
}
const Metadata* metadata_of(std::string_view name) {
  const auto found = metadata().find(name);
  return found != metadata().end() ? &found->second : nullptr;
}

struct KindException {
  const char* name;
  RuleKind kind;
};
struct ArgumentException {
  const char* name;
  const char* argument;
  ArgumentRule rule;
};

#include "locus/bridge/door/rule_exceptions.inc"

std::string_view base_name(std::string_view name) { return name.substr(0, name.find('.')); }

}  // namespace

OperatorRule rule_for(const std::string& full_name, const c10::FunctionSchema& schema, bool has_wrapper) {
  OperatorRule rule;
  std::string_view name = full_name;
  if (name.substr(0, 6) != "aten::") {
    rule.kind = RuleKind::kAnywhere;  // a custom operator checks for itself
    return rule;
  }
  name.remove_prefix(6);
  if (!has_wrapper) rule.kind = RuleKind::kAnywhere;
  if (const Metadata* known = metadata_of(name); has_wrapper && known != nullptr && known->unchecked) {
    rule.kind = known->structured && !known->iterator ? RuleKind::kIterator : RuleKind::kIteratorScalar;
  }
  for (const auto& exception : kKindExceptions) {
    if (name == exception.name || base_name(name) == exception.name) rule.kind = exception.kind;
  }
  for (const auto& exception : kArgumentExceptions) {
    if (name != exception.name && base_name(name) != exception.name) continue;
    for (size_t i = 0; i < schema.arguments().size(); ++i) {
      if (schema.arguments()[i].name() == exception.argument) rule.set_argument(static_cast<int>(i), exception.rule);
    }
  }
  for (size_t i = 0; i < schema.arguments().size(); ++i) {
    // The state of a card's random numbers, handed from forward to backward: on the host, unless a graph is captured.
    const std::string& argument = schema.arguments()[i].name();
    if (argument == "philox_seed" || argument == "philox_offset" || argument == "rng_state" || argument == "unused") {
      rule.set_argument(static_cast<int>(i), ArgumentRule::kFree);
    }
  }
  return rule;
}

OperatorTraits traits_for(const std::string& full_name) {
  if (full_name.compare(0, 6, "aten::") != 0) return {};
  const Metadata* known = metadata_of(std::string_view(full_name).substr(6));
  if (known == nullptr) return {};
  return {known->unchecked && known->structured && !known->iterator, known->host_only, known->device_only};
}

std::string wrapper_name(const c10::FunctionSchema& schema) {
  const std::string name = schema.operator_name().name.substr(6);
  const std::string& overload = schema.overload_name();
  const bool out = !schema.arguments().empty() && schema.arguments().back().kwarg_only() &&
                   schema.arguments().back().alias_info() != nullptr;
  const std::string function = out ? name + "_out" : name;
  const Metadata* known = metadata_of(overload.empty() ? name : name + "." + overload);
  if (known != nullptr && known->structured)
    return "wrapper_CUDA_" + function + (overload.empty() ? "" : "_" + overload);
  return "wrapper_CUDA_" + overload + "_" + function;
}

}  // namespace locus::bridge
