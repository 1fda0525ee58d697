// Results of a CUDA graph that a program keeps over the next replay, which writes to the same memory. Python looks for
// them at some replays (python/locus/program/kept_outputs.py); from then on reads of that memory are noted here.
#pragma once

namespace locus::bridge {

/// A stream reads such a storage: Python judges, once a line for each thing that it has found out before.
void report_read_of_kept();

}  // namespace locus::bridge
