// Loops of a dry run that wait for a value which will not come: what a line reads or makes up is counted, and where it
// is very much, Python is asked whether its loop is still the same one (python/locus/program/loops.py).
#pragma once

#include "locus/engine/site.h"

namespace locus::bridge::dry {

/// Asked with the GIL: whether this thread is in a loop that it was in before; `again` is false the first time.
using LoopJudge = bool (*)(bool again);
void set_loop_judge(LoopJudge judge) noexcept;

/// Counts what a line reads ("has read", "unknown values") without an optimizer's step in between. Raises where its
/// loop seems not to end.
void count_made_up(engine::SiteId site, const char* has, const char* what);

}  // namespace locus::bridge::dry
