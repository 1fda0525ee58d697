// A run as a trace, in the format of Chrome's and Perfetto's viewers: operators in order, by device and stream; copies
// and waits with their bytes and lines; memory as counters; findings as marks. Times are the host's.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace locus::report {

/// What happened at one moment of one process.
struct TraceEvent {
  enum class Kind : std::uint8_t { kOperator, kTransfer, kWait, kMemory, kFinding };
  Kind kind = Kind::kOperator;
  std::string name;
  int device = -1;  ///< -1: the host
  std::int64_t stream = 0;
  std::int64_t begin = 0, duration = 0;  ///< nanoseconds since the trace began
  std::int64_t bytes = 0;                ///< copied, or in use
  std::string way;                       ///< of a copy: "cpu → cuda:0"
  std::string file;                      ///< the program's line; empty: unknown
  int line = 0;
};

/// The traceEvents of one process, as a JSON array. `process` is its number there; `name` is shown.
std::string render_trace_events(const std::vector<TraceEvent>& events, int process, const std::string& name);

}  // namespace locus::report
