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

/// What the metadata says of an operator besides its rule.
struct OperatorTraits {
  bool sets_output_first = false;  ///< its shape function meets out= before any comparison of devices
  bool host_only = false;          ///< PyTorch has no CUDA kernel for it
  bool device_only = false;        ///< PyTorch has a CUDA kernel for it and nothing else
};
OperatorTraits traits_for(const std::string& name);

/// What PyTorch calls the operator's CUDA wrapper in its messages: wrapper_CUDA_mm, wrapper_CUDA__index_select.
std::string wrapper_name(const c10::FunctionSchema& schema);

}  // namespace locus::bridge
