// The check door: a boxed kernel above autograd that sees the operands of every call before it runs.
#pragma once

#include "locus/bridge/check.h"

namespace locus::bridge {

/// Registers the door's kernel; done once, at the first check.
void install_door();
/// Turns the door on or off for the calling thread.
void open_door(bool open);

/// Records the broken rule as a finding (the first time through Python), then moves the odd operands where they
/// should be, with a differentiable copy where autograd is on, or raises where the program means to catch it.
void report_and_move(const Call& call, const Violation& violation);

/// The host reads this tensor here: a finding when its copy from a device is still under way.
void check_host_read(const std::string& op, const at::Tensor& tensor, int argument);

/// Operator calls that the door has seen.
uint64_t calls_seen();
/// How often each distinct broken rule was met: its key, its count.
std::vector<std::pair<uint64_t, int64_t>> repeat_counts();

}  // namespace locus::bridge
