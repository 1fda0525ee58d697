// Results of a CUDA graph that a program keeps over the next replay, which writes to the same memory. Python looks for
// them at some replays (python/locus/program/kept_outputs.py); from then on reads of that memory are noted here.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/TensorImpl.h>

#include <vector>

namespace locus::bridge {

/// What is known of a storage whose contents a replay has replaced while the program kept them; see Tracked.
struct KeptOutput {
  std::vector<c10::weak_intrusive_ptr<c10::TensorImpl>> earlier;  ///< tensors over it from before that replay
};

/// A stream reads such a storage: Python judges, once a line for each thing that it has found out before.
void report_read_of_kept();

}  // namespace locus::bridge
