// What was held when a simulated device ran out of memory. The error reaches Python's end later, when much is gone.
#pragma once

#include <pybind11/pybind11.h>

#include <string>

#include "locus/sim/caching_model.h"

namespace locus::bridge {

/// A request failed: what is held now is kept, by line and by what it is for, and PyTorch's error is raised.
[[noreturn]] void raise_out_of_memory(const sim::OutOfMemory& why);
/// The same in a dry run, which goes on: a finding, unless the program means to catch the error. Then it is raised.
void report_out_of_memory(const sim::OutOfMemory& why);
/// To be called before each such error with the device, the request, and what the device has in all and free.
void attach_out_of_memory_observer(pybind11::function observer);
/// What was held when the error with these words was raised; None where that is not known.
pybind11::object held_at_error(const std::string& words);
/// What is held of a device now, in the same form.
pybind11::dict held_now(int device);
/// The lines of a device that have left more behind in each of the last `steps` steps: (file, line, bytes).
pybind11::list growing_lines(int device, unsigned steps);

}  // namespace locus::bridge
