// See verdict.h.
#include "locus/engine/verdict.h"

#include <array>

namespace locus::engine {
namespace {

constexpr std::array<std::string_view, 6> kNames = {"findings",          "nothing-new",     "nothing-found",
                                                    "nothing-on-device", "nothing-checked", "incomplete"};

constexpr int kCouldNotCheck = 2;
constexpr int kInterrupted = 130, kTerminated = 143;  // 128 and the number of the signal, as a shell says it

bool fails(const Report& report) { return report.baseline ? report.baseline->is_worse() : !report.findings.empty(); }

}  // namespace

std::string_view to_string(Verdict verdict) { return kNames.at(static_cast<std::size_t>(verdict)); }

Verdict judge(const Report& report) {
  if (fails(report)) return Verdict::kFindings;
  if (!report.program.incomplete.empty()) return Verdict::kIncomplete;
  if (!report.findings.empty()) return Verdict::kNothingNew;
  if (report.program.ops <= 0) return Verdict::kNothingChecked;
  return report.program.on_device ? Verdict::kNothingFound : Verdict::kNothingOnDevice;
}

bool is_finished(const Program& program) { return program.exit == 0 && program.ended_by.empty(); }

bool is_conclusive(const Report& report) {
  const Verdict verdict = judge(report);
  return is_finished(report.program) && verdict != Verdict::kNothingChecked && verdict != Verdict::kIncomplete;
}

int exit_status(const Report& report, bool all_fixed) {
  const Program& program = report.program;
  // Somebody ended the run from outside, and waits to hear that it has ended so.
  if (program.ended_by == "SIGINT") return kInterrupted;
  if (program.ended_by == "SIGTERM") return kTerminated;
  const Verdict verdict = judge(report);
  if (verdict == Verdict::kFindings && !all_fixed) return 1;
  if (!is_finished(program)) return program.exit != 0 ? program.exit : 1;
  if (verdict == Verdict::kIncomplete) return kCouldNotCheck;
  if (verdict == Verdict::kNothingChecked) return program.allow_empty ? 0 : kCouldNotCheck;
  return 0;
}

}  // namespace locus::engine
