// See closing.h. What the verdict is, is decided in locus/engine/verdict.cc.
#include "locus/report/closing.h"

#include <fmt/format.h>

#include <algorithm>

#include "locus/engine/verdict.h"
#include "locus/report/screen.h"

namespace locus::report {

using engine::Program;
using engine::Report;
using engine::Severity;
using engine::Verdict;

namespace {

/// Of a run from which something is known to have escaped: nothing is said about that.
constexpr std::string_view kWhatWasChecked = " in what was checked";

std::int64_t size_of(const auto& list) { return static_cast<std::int64_t>(list.size()); }

std::string unbroken(std::string words) {
  for (std::size_t at; (at = words.find(' ')) != words.npos;) words.replace(at, 1, kNoBreak);
  return words;
}

std::string plain(std::string words) {
  for (std::size_t at; (at = words.find(kNoBreak)) != words.npos;) words.replace(at, kNoBreak.size(), " ");
  return words;
}

std::string status_words(int status) { return unbroken(fmt::format("exit status {}", status)); }

std::string kinds_text(const Report& report) {
  const auto errors = std::count_if(report.findings.begin(), report.findings.end(),
                                    [](const auto& finding) { return finding.severity == Severity::kError; });
  const std::int64_t warnings = size_of(report.findings) - errors;
  std::string kinds = errors > 0 ? counted(errors, "error") : "";
  if (warnings > 0) kinds += (kinds.empty() ? "" : ", ") + counted(warnings, "warning");
  return kinds;
}

/// The verdict in parts: numbers of the run go in between.
struct Words {
  std::string what;    ///< "2 findings"
  std::string detail;  ///< " (2 errors)"
  std::string where;   ///< " before the program ended with exit status 3"
};

/// Of a run that is compared with an earlier one.
Words compared(const engine::Comparison& comparison, const std::string& seen, const std::string& before) {
  const std::int64_t fresh = size_of(comparison.new_ids), lines = size_of(comparison.more);
  std::string what = fresh > 0 ? counted(fresh, "new finding") : "no new findings" + seen;
  if (lines > 0) what += lines == 1 ? std::string(", 1 line costs more") : fmt::format(", {} lines cost more", lines);
  return {
      what,
      fmt::format(" since {} ({} known, {} gone)", clean(comparison.file), comparison.known, comparison.gone.size()),
      before};
}

std::string ending(const Program& program) {
  if (engine::is_finished(program)) return {};
  const std::string by = clean(program.ended_by);
  if (by.empty()) return "ended with " + status_words(program.exit);
  if (by.starts_with("SIG")) return "was ended by " + by;
  if (by.ends_with("OutOfMemoryError")) return "ran out of device memory";
  return fmt::format("ended with {} ({})", shorten(by, 60), status_words(program.exit));
}

Words words_of(const Report& report) {
  const Program& program = report.program;
  const std::string end = ending(program);
  std::string before = end.empty() ? "" : " before the program " + end;
  if (judge(report) == Verdict::kFindings && !program.incomplete.empty()) {
    before += "; the check is incomplete: " + clean(program.incomplete);
  }
  const std::string seen(program.all_seen ? "" : kWhatWasChecked);
  if (report.baseline && judge(report) != Verdict::kIncomplete) return compared(*report.baseline, seen, before);
  switch (judge(report)) {
    case Verdict::kFindings:
    case Verdict::kNothingNew:
      return {counted(size_of(report.findings), "finding"), fmt::format(" ({})", kinds_text(report)), before};
    case Verdict::kNothingFound:
      return {std::string(end.empty() ? "no placement mistakes" : "nothing found") + seen, "", before};
    case Verdict::kNothingOnDevice: {
      const std::string ops = program.ops == 1 ? "its one op was" : "all its " + counted(program.ops, "op") + " were";
      return {"nothing ran on a device" + seen + before, ": " + ops + " on the CPU", ""};
    }
    case Verdict::kNothingChecked:
      return {
          "nothing was checked",
          end.empty() ? ": the program called no operator" : ": the program " + end + " before it called an operator",
          ""};
    case Verdict::kIncomplete:
      return {"the check is incomplete", ": " + clean(program.incomplete), end.empty() ? "" : "; the program " + end};
  }
  return {};
}

std::string ignored_text(const Report& report) {
  return report.ignored.empty() ? "" : fmt::format(", {} ignored", grouped(size_of(report.ignored)));
}

}  // namespace

Totals totals_of(const Report& report) {
  Totals totals;
  for (const engine::Transfer& each : report.transfers) {
    totals.transfers = add_up(totals.transfers, each.count);
    totals.bytes = add_up(totals.bytes, each.bytes);
  }
  for (const engine::Sync& each : report.syncs) totals.syncs = add_up(totals.syncs, each.count);
  return totals;
}

std::string ending_words(const Program& program) { return plain(ending(program)); }

Headline headline(const Report& report) {
  const Words words = words_of(report);
  return {plain(words.what), plain(words.detail + ignored_text(report) + words.where)};
}

std::string verdict_words(const Report& report) {
  const Headline words = headline(report);
  return words.what + words.rest;
}

std::string closing_words(const Report& report) {
  const Program& program = report.program;
  const Verdict verdict = judge(report);
  Words words = words_of(report);
  words.what += words.detail;
  const Totals totals = totals_of(report);
  std::string steps = program.steps > 0 ? " in " + counted(program.steps, "step") : "";
  if (program.ranks > 0) {
    const std::string some = report.cluster ? grouped(size_of(report.cluster->ranks)) + " of " : "";
    steps += " on " + some + counted(program.ranks, "rank");
    if (!program.hosts.empty()) steps += " of " + counted(size_of(program.hosts), "host");
  }
  const std::string seconds = unbroken(fmt::format("{:.1f} s", program.seconds));
  const std::string ops = counted(program.ops, "op") + " checked";
  const std::string ignored = ignored_text(report);

  if (report.baseline && verdict != Verdict::kIncomplete) {
    return fmt::format("{}{}{}{}; {}; {}", words.what, ignored, steps, words.where, ops, seconds);
  }
  switch (verdict) {
    case Verdict::kFindings:
    case Verdict::kNothingNew:
      return fmt::format("{}{}{}{}, {}; {} ({}), {}; {}", words.what, ignored, steps, words.where, ops,
                         counted(totals.transfers, "transfer"), unbroken(bytes_text(totals.bytes)),
                         counted(totals.syncs, "synchronization"), seconds);
    case Verdict::kNothingChecked: {
      const bool told = program.allow_empty || !engine::is_finished(program);
      return fmt::format("{}{} ({}){}", words.what, ignored, seconds,
                         told ? "" : "; if that is as it should be, use --allow-empty");
    }
    case Verdict::kNothingOnDevice:
      return fmt::format("{}{} ({})", words.what, ignored, seconds);
    case Verdict::kIncomplete:
      return fmt::format("{}{}{}; {}{}; {}", words.what, ignored, words.where, ops, steps, seconds);
    case Verdict::kNothingFound:
      break;
  }
  const std::string transfers = counted(totals.transfers, "transfer");
  if (!words.where.empty()) {
    return fmt::format("{}{}{}{}; {}, {}; {}", words.what, steps, ignored, words.where, ops, transfers, seconds);
  }
  return fmt::format("{}{}{} ({}, {}, {})", words.what, steps, ignored, ops, transfers, seconds);
}

}  // namespace locus::report
