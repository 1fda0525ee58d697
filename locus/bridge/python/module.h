// The parts of the Python module locus._bridge, by the file that defines them.
#pragma once

#include <pybind11/pybind11.h>

namespace locus::bridge {

/// Functions for `locus check`: the door, origins, the ledger.
void define_check(pybind11::module_& m);
/// Policies, and mistakes that are no operator's.
void define_outside(pybind11::module_& m);
/// Findings and reports.
void define_reporting(pybind11::module_& m);
/// Transfers and waits by line.
void define_ledger(pybind11::module_& m);
/// Dry runs: their settings, what is known, what was made up.
void define_dry(pybind11::module_& m);
/// The class Report.
void define_report(pybind11::module_& m);
/// torch.distributed on simulated devices.
void define_collectives(pybind11::module_& m);
/// What ranks have called, and what they make of it together.
void define_ranks(pybind11::module_& m);
/// The autograd graph, as distributed modules see it.
void define_graphs(pybind11::module_& m);
void define_pools(pybind11::module_& m);
/// What a program keeps of a CUDA graph's results.
void define_kept_outputs(pybind11::module_& m);
void define_memory_history(pybind11::module_& m);
void define_graph(pybind11::module_& m);
/// The clock of DistributedDataParallel for simulated devices.
void install_ddp_timer();

}  // namespace locus::bridge
