// The report as text, for a person at a terminal: one block per root cause, in the manner of rustc.
// Writes nothing anywhere and asks the terminal nothing; the caller says how wide and whether in color.
#pragma once

#include <string>

#include "locus/engine/report.h"
#include "locus/report/screen.h"

namespace locus::report {

struct TextOptions {
  int width = 80;         ///< columns; 0: never wrap or clip
  bool color = false;     ///< ANSI colors
  bool quiet = false;     ///< findings only: no notes, no closing line
  bool fold = true;       ///< of many findings, show one of each kind in full and the others in a line each
  bool next = false;      ///< a last line that says what to do next
  std::string fix;        ///< the command that writes the fixes; empty: it can't be had
  std::string pages;      ///< the folder of the codes' pages; given: codes and places are links
  bool explain = false;   ///< say of each finding why its line is blamed, and which others could be edited
  bool ledger = false;    ///< add transfers, synchronizations and memory by line
  int ledger_rows = 10;   ///< lines per ledger table
  std::string directory;  ///< paths inside it are shown relative; empty: render_text() takes the current one
};

/// The whole report: every finding, the ledger when asked for, the notes and the closing line.
std::string render_text(const engine::Report& report, const TextOptions& options);

/// One finding's block, without the blank line behind it. `steps` is how many the program made; 0: unknown.
std::string render_finding(const engine::Finding& finding, const TextOptions& options, std::int64_t steps = 0);

/// The findings alone: all in full, or folded.
std::string render_findings(const engine::Report& report, const TextOptions& options);

/// In red or in yellow.
Tone severity_tone(const engine::Finding& finding);

/// The one line that sums the run up.
std::string render_summary(const engine::Report& report, const TextOptions& options);

}  // namespace locus::report
