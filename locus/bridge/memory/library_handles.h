// Handles of CUDA's libraries on simulated devices, as PyTorch keeps them: a thread has one for each device from its
// first call to its end, then another thread gets it.
#pragma once

#include "locus/sim/libraries.h"

namespace locus::bridge {

/// The number of this thread's handle, which is made if none is free.
int library_handle(sim::Library library, int device);
/// Whether this thread need not make one. A thread that is just ending is given the time to leave its own: Python's
/// join() returns a little before.
bool has_library_handle(sim::Library library, int device);
/// What may be set up by this operator is taken to be.
void set_up_libraries(const sim::LibraryUse& use, int device);

}  // namespace locus::bridge
