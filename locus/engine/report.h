// A report: everything that one run brought to light, as data. How it is shown is the business of locus/report.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "locus/engine/cluster.h"
#include "locus/engine/finding.h"

namespace locus::engine {

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
  std::string text;           ///< the source line; empty when unknown
  std::string category = {};  ///< what most of it was for; empty when unknown
  bool operator==(const LineMemory&) const = default;
};

/// Device memory for one purpose when the device was fullest; see memory_kind.h.
struct CategoryMemory {
  std::string category;
  std::int64_t bytes = 0;
  bool operator==(const CategoryMemory&) const = default;
};

/// Activations of one module when the device was fullest, by its class, or by the function that took them.
struct ModuleMemory {
  std::string module;
  std::int64_t bytes = 0;
  bool operator==(const ModuleMemory&) const = default;
};

/// A line that left more behind with every optimizer step, up to the last one.
struct GrowingMemory {
  std::string file;
  int line = 0;
  std::int64_t bytes = 0;  ///< that have outlived two steps
  std::int64_t steps = 0;  ///< in how many in a row there were more
  std::string text;        ///< the source line; empty when unknown
  std::string holder;      ///< what of the program keeps it, in words; empty when unknown
  bool operator==(const GrowingMemory&) const = default;
};

/// Of one category: bytes at one moment of each point of a timeline.
struct CategoryTimeline {
  std::string category;
  std::vector<std::int64_t> bytes;
  bool operator==(const CategoryTimeline&) const = default;
};

/// How full a device was, in the order of its allocations and frees. Each point stands for as many of them as the
/// others; a long run has larger points, not more.
struct MemoryTimeline {
  std::int64_t events = 0;                         ///< allocations and frees, all together
  std::vector<std::int64_t> low, high, step;       ///< of each point: bytes at least and at most, optimizer steps done
  std::vector<CategoryTimeline> by_category = {};  ///< those that occur
  bool operator==(const MemoryTimeline&) const = default;
};

struct DeviceMemory {
  std::string device;
  std::int64_t peak = 0;
  std::vector<LineMemory> by_line;
  std::int64_t capacity = 0;  ///< of the device; 0: unknown
  MemoryTimeline timeline;
  std::vector<CategoryMemory> by_category = {};  ///< largest first
  std::vector<ModuleMemory> by_module = {};      ///< activations alone, largest first
  std::vector<GrowingMemory> growing = {};       ///< largest first
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

/// Something that a dry run had no value for, at one line; see made_up.h.
struct MadeUpLine {
  std::string file;
  int line = 0;
  std::string kind;       ///< value, shape, draw, memory or computed
  std::string operation;  ///< the operator, "aten::nonzero"
  std::int64_t count = 0;
  std::int64_t bytes = 0;  ///< memory: beyond what the card has, at most
  std::string text;        ///< the source line; empty when unknown
  bool operator==(const MadeUpLine&) const = default;
};

/// How a run without values went.
struct DryRun {
  std::int64_t keep = 0;  ///< bytes up to which tensors had values
  std::string shapes;     ///< half, most or least
  std::vector<MadeUpLine> made_up;
  bool operator==(const DryRun&) const = default;
};

/// A model of the program, as it was when last seen.
struct Model {
  std::string name;
  std::string class_name;
  std::vector<ModelRow> rows;
  std::int64_t more_rows = 0;  ///< further tensors, not listed
  bool operator==(const Model&) const = default;
};

/// A machine on which ranks ran, where there were several, each with a check of its own.
struct Host {
  std::string name;
  std::vector<int> ranks;  ///< in order
  bool reported = true;    ///< false: what these ranks have found is not known
  bool operator==(const Host&) const = default;
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
  bool on_device = true;         ///< anything ran on a CUDA device; reports of old do not say
  std::string incomplete = {};   ///< why the check did not see all that it should have; empty: it did
  bool allow_empty = false;      ///< a program without a single operator is as it should be
  bool all_seen = true;          ///< nothing that is known to have run escaped the check; else a note says what did
  std::vector<Host> hosts = {};  ///< none: all ran on one
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
  std::string kind;  ///< transfer, synchronization or memory
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

/// The version of docs/report.schema.json that is written. Reports of version 1 (without candidates) are still read.
constexpr int kReportVersion = 2;
constexpr int kOldestReportVersion = 1;

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
  std::optional<DryRun> dry;            ///< none: tensors had their values
  std::optional<Cluster> cluster = {};  ///< none: all ranks ran, or there are none
  bool operator==(const Report&) const = default;
};

// Reading and writing, as for findings.
void from_json(const Json& json, Transfer& transfer);
void from_json(const Json& json, Sync& sync);
void from_json(const Json& json, LineMemory& memory);
void from_json(const Json& json, CategoryMemory& memory);
void from_json(const Json& json, ModelRow& row);
void from_json(const Json& json, Model& model);
void from_json(const Json& json, MadeUpLine& line);
void from_json(const Json& json, DryRun& dry);
void from_json(const Json& json, Host& host);
void from_json(const Json& json, Program& program);
void from_json(const Json& json, Ignored& ignored);
void from_json(const Json& json, NotRun& not_run);
void from_json(const Json& json, Change& change);
void from_json(const Json& json, Comparison& comparison);
void from_json(const Json& json, Report& report);
void to_json(Json& json, const Transfer& transfer);
void to_json(Json& json, const Sync& sync);
void to_json(Json& json, const LineMemory& memory);
void to_json(Json& json, const CategoryMemory& memory);
void to_json(Json& json, const ModelRow& row);
void to_json(Json& json, const Model& model);
void to_json(Json& json, const MadeUpLine& line);
void to_json(Json& json, const DryRun& dry);
void to_json(Json& json, const Host& host);
void to_json(Json& json, const Program& program);
void to_json(Json& json, const Ignored& ignored);
void to_json(Json& json, const NotRun& not_run);
void to_json(Json& json, const Change& change);
void to_json(Json& json, const Comparison& comparison);
void to_json(Json& json, const Report& report);

/// Takes the findings that `report.ignored` names by id out of the report's findings, and completes those entries;
/// entries that name no finding go.
void set_ignored_aside(Report& report);

}  // namespace locus::engine
