// The way to Python for every thread. One that was never Python's must not wait for the interpreter's lock: whoever
// holds it may be waiting for this very thread (an extension that joins its threads, say).
#pragma once

#include <functional>

#include "locus/bridge/door/findings.h"

namespace locus::bridge {

/// What `job` decides, called with the GIL: on this thread, or for one that was never Python's on a thread of ours.
/// `meanwhile` where that takes too long; the job, which must own what it needs, is done later then.
Decision in_python(std::function<Decision()> job, const Decision& meanwhile);
/// Waits a moment for the jobs of other threads. The GIL is held, and let go of meanwhile.
void finish_jobs();

}  // namespace locus::bridge
