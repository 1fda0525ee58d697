// See endless.h.
#include "locus/bridge/dry/endless.h"

#include <torch/csrc/Exceptions.h>

#include <atomic>
#include <cstdint>
#include <string>
#include <unordered_map>

#include "locus/bridge/door/origins.h"
#include "locus/bridge/door/watch.h"
#include "locus/bridge/python/own_errors.h"

namespace locus::bridge::dry {
namespace {

constexpr std::int64_t kReadsOfALoop = 10'000;

/// locus.errors.DryLoopError in Python: no Exception, so that no handler of the program takes it for its own.
struct DryLoopError final : torch::PyTorchError {
  using PyTorchError::PyTorchError;
  PyObject* python_type() override {
    static PyObject* type = own_error("DryLoopError", PyExc_RuntimeError);
    return type;
  }
};

/// What the lines of this thread have read since the last step. Several, for a loop may read at more than one.
struct Reads {
  std::int64_t step = -1;
  std::unordered_map<engine::SiteId, std::int64_t> of_line;
};
thread_local Reads t_reads;
std::atomic<LoopJudge> g_judge{nullptr};

std::string place_text(engine::SiteId site) {
  const Place place = place_of(site);
  return place.file != nullptr ? std::string(place.file) + ":" + std::to_string(place.line) : "an unknown line";
}

}  // namespace

void set_loop_judge(LoopJudge judge) noexcept { g_judge.store(judge); }

void count_made_up(engine::SiteId site, const char* has, const char* what) {
  const std::int64_t step = g_steps.load(std::memory_order_relaxed);
  if (t_reads.step != step) t_reads = {step, {}};
  const std::int64_t reads = ++t_reads.of_line[site];
  if (reads % (kReadsOfALoop / 2) != 0) return;
  const LoopJudge judge = g_judge.load();
  const bool again = reads >= kReadsOfALoop;
  if (judge == nullptr || !judge(again) || !again) return;
  t_reads.of_line.clear();
  throw DryLoopError(
      "a dry run has no values, and " + place_text(site) + " " + has + " " + std::to_string(reads) + " " + what +
      " without an optimizer step: its loop seems to wait for a value that will not come. Give the value "
      "with locus.known(tensor, value), keep larger tensors with --dry-keep, or answer for the line in "
      "the settings: [tool.locus.dry-answers].");
}

}  // namespace locus::bridge::dry
