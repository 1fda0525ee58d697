// What a trace of the run (`locus check --trace`) hears of copies and waits; nothing unless one is being kept.
#pragma once

#include <pybind11/pybind11.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "locus/engine/origin.h"

namespace locus::bridge {

extern std::atomic<bool> g_tracing;
inline bool tracing() { return g_tracing.load(std::memory_order_relaxed); }

/// How many findings there are so far; of those who keep them (reporting.cc).
std::size_t found_so_far();

void trace_transfer(int from, int to, std::int64_t bytes, engine::SiteId site);
void trace_wait(int device, engine::OperatorId what, engine::SiteId site);

/// The functions of the Python module.
void define_trace(pybind11::module_& m);

}  // namespace locus::bridge
