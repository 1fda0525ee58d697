// The pool that device memory is taken from: everybody's, a CUDA graph's, or a torch.cuda.MemPool's.
#pragma once

#include <cstdint>

#include "locus/sim/caching_model.h"

namespace locus::bridge {

/// A pool with a number that nobody has had.
sim::PoolId new_pool();
/// Where this thread's memory of a device comes from now.
sim::PoolId current_pool(int device, int64_t stream);

}  // namespace locus::bridge
