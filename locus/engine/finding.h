// A mistake as data: places, histories, operands, findings and the report they make up, with their JSON.
// Which operand is at fault is decided in blame; how it is told to a person, in locus/report.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "locus/engine/codes.h"

namespace locus::engine {

/// Keys stay in the order in which they were put in, so that equal reports are equal bytes.
using Json = nlohmann::ordered_json;

/// Input that is not what it should be; what() says where and what, as in "findings[2].line: expected a number".
class FormatError : public std::runtime_error {
 public:
  FormatError(std::string where, std::string problem);
  const std::string& where() const { return where_; }
  const std::string& problem() const { return problem_; }

 private:
  std::string where_, problem_;
};

/// A file is known by this where folders differ between machines.
inline std::string_view base_name(std::string_view path) { return path.substr(path.find_last_of("/\\") + 1); }

/// A place in source text. Lines from 1 (0: unknown), columns in characters from 0 (-1: unknown).
struct Location {
  std::string file;
  int line = 0;
  int column = -1;
  int end_line = 0;
  int end_column = -1;
  std::string function;
  std::string text;  ///< the source line without its newline; empty when unknown
  bool operator==(const Location&) const = default;
};

/// One step of a tensor's history.
struct Step {
  std::string action;  ///< created, moved, loaded, received, computed or foreign
  std::string op;
  std::string device;
  bool is_explicit = false;  ///< the call names a device
  Location at;
  bool operator==(const Step&) const = default;
};

/// A change of source: `old_text` (full lines; empty: nothing, insert after `line`) becomes `new_text` (full lines).
struct Fix {
  std::string file;
  int line = 0;
  std::string old_text;
  std::string new_text;
  bool verified = false;  ///< the program ran again with it, and the finding was gone
  std::string note;
  bool operator==(const Fix&) const = default;
};
using Edit = Fix;

/// The module that an operand belongs to.
struct Owner {
  std::string name;        ///< "model"
  std::string class_name;  ///< "CustomLayer"
  std::string path;
  std::string attribute;
  std::string device;
  std::optional<Location> moved_at;
  std::string moved_to;
  std::string container;  ///< list, tuple, dict or empty
  bool operator==(const Owner&) const = default;
};

/// One tensor argument of the call.
struct Operand {
  std::string argument;    ///< its name in the operator's schema
  int position = -1;       ///< -1: unknown
  std::string expression;  ///< its source text at the use; empty when unknown
  std::string name;
  std::string kind;
  std::string device;
  std::vector<std::int64_t> shape;
  std::string dtype;
  bool zero_dim = false;
  bool written = false;
  bool requires_grad = false;
  bool is_leaf = true;
  bool odd = false;      ///< its device breaks the operator's rule
  bool culprit = false;  ///< blame points at it
  std::string rule;
  std::optional<Owner> owner;
  std::vector<Step> history;          ///< oldest first
  std::map<std::string, Edit> edits;  ///< by edit kind; read from a case, never written into a report
  /// What the line that made it has made so far, by device, and that line; more than one: an inconsistent source.
  std::vector<std::pair<std::string, std::int64_t>> made_here;
  std::optional<Location> made_at;
  std::optional<Location> cause;  ///< the line to edit, where the program's text says it; read from a case only
  bool operator==(const Operand&) const = default;
};

/// What to call an operand that has neither a name nor an expression: by the call that it is a result of, where that
/// is known, else by its argument.
std::string nameless(const Operand& operand);

/// The tensor (or generator) at fault.
struct Culprit {
  std::string name;
  std::string kind;
  std::string device;
  std::string expected_device;
  std::vector<std::int64_t> shape;
  std::string dtype;
  std::string expression;
  bool operator==(const Culprit&) const = default;
};

/// One line at which a mistake hurts. In JSON, the fields of `at` stand beside the others.
struct Use {
  Location at;
  std::string op;
  std::int64_t count = 1;
  std::int64_t first_step = 0;
  std::optional<Location> library;    ///< the frame inside an installed library, when the operator ran there
  std::optional<Location> caught_by;  ///< the program's own handler that would catch PyTorch's error
  bool operator==(const Use&) const = default;
};

/// One mistake, by root cause, with every place where it hurts.
struct Finding {
  std::string code;
  Severity severity = Severity::kError;
  std::string reason;
  std::string message;
  std::string op;
  Location cause;
  Culprit culprit;
  std::vector<Use> uses;       ///< at most FindingLog::kMaxUses
  std::int64_t more_uses = 0;  ///< further places that are counted and not listed
  std::vector<Operand> operands;
  std::vector<Step> history;
  std::string why;
  std::optional<Location> forward;
  bool in_backward = false;
  std::vector<Fix> fixes;
  std::int64_t count = 1;
  std::int64_t first_step = 0;
  std::vector<std::string> notes;
  std::vector<int> ranks;  ///< of a distributed program, where it was met, in order; empty: not distributed
  std::string id;
  bool operator==(const Finding&) const = default;
};

/// Copies between devices made by one line.
struct Transfer {
  std::string file;
  int line = 0;
  std::string from, to;
  std::int64_t count = 0;
  std::int64_t bytes = 0;
  std::string note;
  double milliseconds = 0;  ///< on the host's clock, all together; 0: not measured
  std::string text;         ///< the source line; empty when unknown
  bool operator==(const Transfer&) const = default;
};

/// Waits for a device made by one line.
struct Sync {
  std::string file;
  int line = 0;
  std::string kind;
  std::int64_t count = 0;
  double milliseconds = 0;
  std::string text;  ///< the source line; empty when unknown
  bool operator==(const Sync&) const = default;
};

/// Device memory that one line held when the device was fullest.
struct LineMemory {
  std::string file;
  int line = 0;
  std::int64_t bytes = 0;
  std::int64_t count = 0;
  std::string text;  ///< the source line; empty when unknown
  bool operator==(const LineMemory&) const = default;
};

/// How full a device was, in the order of its allocations and frees. Each point stands for as many of them as the
/// others; a long run has larger points, not more.
struct MemoryTimeline {
  std::int64_t events = 0;                    ///< allocations and frees, all together
  std::vector<std::int64_t> low, high, step;  ///< of each point: bytes at least and at most, optimizer steps done
  bool operator==(const MemoryTimeline&) const = default;
};

struct DeviceMemory {
  std::string device;
  std::int64_t peak = 0;
  std::vector<LineMemory> by_line;
  std::int64_t capacity = 0;  ///< of the device; 0: unknown
  MemoryTimeline timeline;
  bool operator==(const DeviceMemory&) const = default;
};

/// One row of a model's tree, parents before children: a module (kind "module") or a tensor.
struct ModelRow {
  int depth = 0;
  std::string name;
  std::string class_name;  ///< of a module
  std::string kind;        ///< module, parameter, buffer, plain attribute, …
  std::string device;      ///< of a tensor
  std::vector<std::int64_t> shape;
  std::string dtype;
  std::int64_t bytes = 0;
  bool reached = true;  ///< false: the module's .to() passes it by
  bool operator==(const ModelRow&) const = default;
};

/// A model of the program, as it was when last seen.
struct Model {
  std::string name;
  std::string class_name;
  std::vector<ModelRow> rows;
  std::int64_t more_rows = 0;  ///< further tensors, not listed
  bool operator==(const Model&) const = default;
};

/// The run that was checked.
struct Program {
  std::string script;
  std::vector<std::string> argv;
  int exit = 0;
  std::int64_t steps = 0;
  std::int64_t ops = 0;
  int ranks = 0;  ///< processes that took part as ranks; 0: not distributed
  double seconds = 0;
  std::vector<std::string> devices;
  std::string torch;
  std::string locus;
  /// What ended it before its end: a signal ("SIGTERM") or an exception ("ValueError"); empty: nothing.
  std::string ended_by = {};
  bool on_device = true;        ///< anything ran on a CUDA device; reports of old do not say
  std::string incomplete = {};  ///< why the check did not see all that it should have; empty: it did
  bool allow_empty = false;     ///< a program without a single operator is as it should be
  bool operator==(const Program&) const = default;
};

/// A finding that the project has decided to live with.
struct Ignored {
  std::string id;  ///< the finding's
  std::string code;
  std::string file;
  int line = 0;
  std::string by;            ///< who decided: the settings' file, or a comment and its reason
  std::string kind = {};     ///< comment, settings or options; empty: not known
  std::string message = {};  ///< the finding's
  bool operator==(const Ignored&) const = default;
};

/// Tensor code of the program that never ran, so that nothing is known about it.
struct NotRun {
  std::string file;
  std::string function;  ///< empty: the whole file
  int line = 0;
  bool operator==(const NotRun&) const = default;
};

/// A line of the ledger that costs more (or less) than in the baseline.
struct Change {
  std::string kind;  ///< transfer, synchronisation or memory
  std::string file;
  int line = 0;
  std::string what;                  ///< "cpu → cuda:0", "aten::item", "cuda:0"
  std::int64_t before = 0, now = 0;  ///< times; bytes for memory
  bool operator==(const Change&) const = default;
};

/// How a run differs from an earlier one, whose report was kept.
struct Comparison {
  std::string file;                  ///< the earlier report's
  std::vector<std::string> new_ids;  ///< of findings that the earlier run had not
  std::vector<Ignored> gone;         ///< findings that only the earlier run had
  std::int64_t known = 0;            ///< findings of both
  std::vector<Change> more;
  bool operator==(const Comparison&) const = default;
  bool is_worse() const { return !new_ids.empty() || !more.empty(); }
};

constexpr int kReportVersion = 1;

/// Everything one run brought to light.
struct Report {
  int version = kReportVersion;
  std::vector<Finding> findings;
  std::vector<Transfer> transfers;
  std::vector<Sync> syncs;
  std::vector<DeviceMemory> memory;
  std::vector<Model> models;
  Program program;
  std::vector<std::string> notes;
  std::vector<Ignored> ignored;
  std::vector<NotRun> not_run;
  std::optional<Comparison> baseline;
  bool operator==(const Report&) const = default;
};

// Reading: a missing or null field keeps its default; one of the wrong type throws FormatError.
void from_json(const Json& json, Location& location);
void from_json(const Json& json, Step& step);
void from_json(const Json& json, Fix& fix);
void from_json(const Json& json, Owner& owner);
void from_json(const Json& json, Operand& operand);
void from_json(const Json& json, Culprit& culprit);
void from_json(const Json& json, Use& use);
void from_json(const Json& json, Finding& finding);
void from_json(const Json& json, Transfer& transfer);
void from_json(const Json& json, Sync& sync);
void from_json(const Json& json, LineMemory& memory);
void from_json(const Json& json, ModelRow& row);
void from_json(const Json& json, Model& model);
void from_json(const Json& json, Program& program);
void from_json(const Json& json, Ignored& ignored);
void from_json(const Json& json, NotRun& not_run);
void from_json(const Json& json, Change& change);
void from_json(const Json& json, Comparison& comparison);
void from_json(const Json& json, Report& report);

// Writing: every field, always in the same order.
void to_json(Json& json, const Location& location);
void to_json(Json& json, const Step& step);
void to_json(Json& json, const Fix& fix);
void to_json(Json& json, const Owner& owner);
void to_json(Json& json, const Operand& operand);
void to_json(Json& json, const Culprit& culprit);
void to_json(Json& json, const Use& use);
void to_json(Json& json, const Finding& finding);
void to_json(Json& json, const Transfer& transfer);
void to_json(Json& json, const Sync& sync);
void to_json(Json& json, const LineMemory& memory);
void to_json(Json& json, const ModelRow& row);
void to_json(Json& json, const Model& model);
void to_json(Json& json, const Program& program);
void to_json(Json& json, const Ignored& ignored);
void to_json(Json& json, const NotRun& not_run);
void to_json(Json& json, const Change& change);
void to_json(Json& json, const Comparison& comparison);
void to_json(Json& json, const Report& report);

/// Parses JSON as Python writes it: lone surrogates and bytes that are not UTF-8 become U+FFFD. Throws FormatError.
Json parse_json(std::string_view text);

/// One finding as JSON, of the form that a report has. Throws FormatError.
Finding parse_finding(std::string_view text);

/// What findings of one root cause have in common, and no others.
std::string root_cause(const Finding& finding);
/// A short fingerprint of code, file name and function of the cause, and name of the culprit: survives moved lines.
std::string fingerprint(const Finding& finding);

/// Collects findings from any thread and makes those with one root cause one. Bounded.
class FindingLog {
 public:
  static constexpr std::size_t kMaxUses = 50;          ///< listed per finding; more are only counted
  static constexpr std::size_t kMaxFindings = 10'000;  ///< further root causes are only counted, see dropped()

  FindingLog();
  ~FindingLog();
  FindingLog(const FindingLog&) = delete;
  FindingLog& operator=(const FindingLog&) = delete;

  /// Takes a finding in. One root cause: same code, same line of the cause (of the use, when the cause is unknown)
  /// and same culprit, by name or else by expression; where one line holds many tensors (a model, a list of layers,
  /// an optimizer, a checkpoint), any culprit. `key` is the caller's own for this very event; 0: none.
  void add(Finding finding, std::uint64_t key = 0);

  /// Counts an event that add() has seen under this key; false when it has not, and the finding must be made.
  bool count_more(std::uint64_t key, std::int64_t times = 1);

  /// All findings: errors before warnings, then by file and line of the cause. Ids are unique.
  std::vector<Finding> findings() const;

  std::size_t size() const;
  bool empty() const { return size() == 0; }
  /// How many events had no room any more.
  std::int64_t dropped() const;
  void clear();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace locus::engine
