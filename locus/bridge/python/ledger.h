// The ledger and the memory of the devices, as a report has them.
#pragma once

#include <pybind11/pybind11.h>

#include <string>
#include <vector>

#include "locus/engine/memory_by_line.h"
#include "locus/engine/report.h"

namespace locus::bridge {

/// Adds transfers, waits and memory to a report; `line_text` is called with a file and a line, and gives its text.
void add_ledger(engine::Report& report, const pybind11::function& line_text);
/// Adds what a dry run made up.
void add_made_up(engine::Report& report, const pybind11::function& line_text);
/// Whose code took the activations among these, largest first.
std::vector<engine::ModuleMemory> activations_by_module(const std::vector<engine::MemoryByLine::Line>& held);
/// What of the program keeps the memory that grows with each step at a line, in words.
void note_growth(int device, const std::string& file, int line, const std::string& holder);
/// Bytes that are allocated on a device now.
std::int64_t allocated_now(int device);

}  // namespace locus::bridge
