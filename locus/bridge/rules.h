// The rule table for the PyTorch that Locus was built for: its own operator metadata (generated,
// rules.inc) plus one short list of exceptions (rule_exceptions.inc), and the check itself.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/function_schema.h>

#include <string>

#include "locus/engine/rule.h"

namespace locus::bridge {

/// The rule of an operator by its full name.
engine::OperatorRule rule_for(const std::string& name, const c10::FunctionSchema& schema);

}  // namespace locus::bridge
