// The rule table for the PyTorch that Locus was built for: its own operator metadata (generated,
// rules.inc) plus one short list of exceptions (rule_exceptions.inc), and the check itself.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/function_schema.h>

#include <string>

#include "locus/engine/rule.h"

namespace locus::bridge {

/// The rule of an operator by its full name. `has_wrapper`: it has a kernel of its own, with PyTorch's generated check.
engine::OperatorRule rule_for(const std::string& name, const c10::FunctionSchema& schema, bool has_wrapper);

/// What PyTorch calls the operator's CUDA wrapper in its messages: wrapper_CUDA_mm, wrapper_CUDA__index_select.
std::string wrapper_name(const c10::FunctionSchema& schema);

}  // namespace locus::bridge
