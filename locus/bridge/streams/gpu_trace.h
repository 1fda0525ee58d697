// PyTorch's own callbacks about what a card does (torch.cuda._gpu_trace): its CUDA sanitizer and other tools hear of
// simulated devices what they would hear of real ones. One comparison while nobody listens.
#pragma once

#include <c10/core/impl/GPUTrace.h>

#include <cstdint>

#include "locus/bridge/state.h"

namespace locus::bridge {

/// Calls `tell(interpreter)` where somebody listens.
template <class Tell>
inline void trace_gpu(Tell&& tell) {
  if (const c10::impl::PyInterpreter* listener = c10::impl::GPUTrace::get_trace()) tell(**listener);
}

inline uintptr_t stream_handle(int device, int64_t stream) {
  return static_cast<uintptr_t>(machine().streams().native_handle(device, stream));
}

}  // namespace locus::bridge
