// See rules.h.
#include "locus/bridge/rules.h"

#include <string_view>
#include <unordered_map>
#include <unordered_set>

namespace locus::bridge {
namespace {

using engine::ArgumentRule;
using engine::OperatorRule;
using engine::RuleKind;

/// Operators that PyTorch's own CUDA wrappers do not check.
const std::unordered_set<std::string_view>& unchecked() {
  static const auto* names = new std::unordered_set<std::string_view>{
#include "locus/bridge/rules.inc"
  };
  return *names;
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

#include "locus/bridge/rule_exceptions.inc"

std::string_view base_name(std::string_view name) { return name.substr(0, name.find('.')); }

}  // namespace

OperatorRule rule_for(const std::string& full_name, const c10::FunctionSchema& schema) {
  OperatorRule rule;
  std::string_view name = full_name;
  if (name.substr(0, 6) != "aten::") {
    rule.kind = RuleKind::kAnywhere;  // a custom operator checks for itself
    return rule;
  }
  name.remove_prefix(6);
  if (unchecked().count(name) != 0) rule.kind = RuleKind::kIteratorScalar;
  for (const auto& exception : kKindExceptions) {
    if (name == exception.name || base_name(name) == exception.name) rule.kind = exception.kind;
  }
  for (const auto& exception : kArgumentExceptions) {
    if (name != exception.name && base_name(name) != exception.name) continue;
    for (size_t i = 0; i < schema.arguments().size(); ++i) {
      if (schema.arguments()[i].name() == exception.argument) rule.set_argument(static_cast<int>(i), exception.rule);
    }
  }
  return rule;
}

}  // namespace locus::bridge
