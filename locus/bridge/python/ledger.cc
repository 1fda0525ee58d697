// See ledger.h.
#include "locus/bridge/python/ledger.h"

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <mutex>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "locus/bridge/door/findings.h"
#include "locus/bridge/door/origins.h"
#include "locus/bridge/door/real.h"
#include "locus/bridge/door/watch.h"
#include "locus/bridge/dry/knowledge.h"
#include "locus/bridge/memory/memory.h"
#include "locus/bridge/python/module.h"
#include "locus/engine/ledger_rows.h"

namespace locus::bridge {
namespace {

namespace py = pybind11;

std::string name_of(int8_t device) { return device == engine::kHost ? "cpu" : "cuda:" + std::to_string(device); }
std::string text_of(const char* text) { return text != nullptr ? text : ""; }

std::vector<engine::LedgerRow> rows_of(engine::Ledger& ledger, bool with_operator) {
  static constexpr const char* kNotes[] = {"", "non_blocking", "non_blocking, not pinned", "moved by Locus"};
  std::vector<engine::LedgerRow> rows;
  for (const auto& entry : ledger.entries()) {
    const Place place = place_of(entry.key.site);
    engine::LedgerRow& row = rows.emplace_back();
    row.file = text_of(place.file), row.line = place.line, row.function = text_of(place.function);
    row.from = name_of(entry.key.from), row.to = name_of(entry.key.to);
    row.kind = with_operator ? operator_name(entry.key.kind) : kNotes[entry.key.kind & 3];
    row.count = entry.count, row.bytes = entry.bytes;
    row.milliseconds = static_cast<double>(entry.nanoseconds) / 1e6;
  }
  return rows;
}

py::list as_list(const std::vector<engine::LedgerRow>& rows) {
  py::list all;
  for (const engine::LedgerRow& row : rows) {
    py::dict d;
    d["file"] = row.file, d["line"] = row.line, d["function"] = row.function;
    d["from"] = row.from, d["to"] = row.to, d["kind"] = row.kind;
    d["count"] = row.count, d["bytes"] = row.bytes;
    if (row.milliseconds != 0) d["milliseconds"] = row.milliseconds;
    all.append(std::move(d));
  }
  return all;
}

/// Where the part of the program that is reported began.
struct Part {
  engine::LedgerMark transfers, waits;
};

Part& part() {
  static auto* begun = new Part;
  return *begun;
}

double rounded(double milliseconds) { return std::round(milliseconds * 1e3) / 1e3; }

bool is_simulated_device(int device) { return simulating() && device < machine().devices() && !on_real_devices(); }

engine::MemoryTimeline timeline_of(int device) {
  engine::MemoryTimeline timeline;
  const auto points = memory_timeline(device).points(steps_made(), memory_by_line(device).totals());
  for (const auto& point : points) {
    timeline.low.push_back(point.low), timeline.high.push_back(point.high), timeline.step.push_back(point.step);
  }
  for (std::size_t kind = 0; kind < engine::kMemoryKinds; ++kind) {
    if (std::ranges::all_of(points, [&](const auto& point) { return point.kinds[kind] <= 0; })) continue;
    engine::CategoryTimeline& row = timeline.by_category.emplace_back();
    row.category = engine::kMemoryKindNames[kind];
    // Counters are read one after the other while other threads allocate: none is said to be less than nothing.
    for (const auto& point : points) row.bytes.push_back(std::max<std::int64_t>(point.kinds[kind], 0));
  }
  timeline.events = memory_timeline(device).events();
  return timeline;
}

/// The calls of a line are one to a reader.
template <class Text>
void add_lines(engine::DeviceMemory& device, const std::vector<engine::MemoryByLine::Line>& held, const Text& text) {
  std::map<std::pair<std::string, int>, engine::MemoryByLine::Line> lines;
  for (const auto& line : held) {
    const Place place = place_of(line.site);
    auto& sum = lines[{text_of(place.file), place.line}];
    sum.bytes += line.bytes, sum.count += line.count;
    for (std::size_t kind = 0; kind < sum.kinds.size(); ++kind) sum.kinds[kind] += line.kinds[kind];
  }
  for (const auto& [place, line] : lines) {
    const auto most = std::ranges::max_element(line.kinds) - line.kinds.begin();
    device.by_line.push_back({place.first, place.second, line.bytes, line.count, text(place.first, place.second),
                              std::string(engine::kMemoryKindNames[static_cast<std::size_t>(most)])});
  }
  std::ranges::stable_sort(device.by_line, std::ranges::greater{}, &engine::LineMemory::bytes);
}

/// A growth of less is what records of numbers make.
constexpr std::int64_t kGrowthWorthSaying = std::int64_t{1} << 20;
constexpr std::uint32_t kGrowthSteps = 8;

using GrowthPlace = std::tuple<int, std::string, int>;
std::mutex g_growth_mutex;
std::map<GrowthPlace, std::string>& growth_holders() {
  static auto* holders = new std::map<GrowthPlace, std::string>;
  return *holders;
}

template <class Text>
void add_growing(engine::DeviceMemory& device, int index, const Text& text) {
  std::map<std::pair<std::string, int>, engine::GrowingMemory> lines;
  for (const auto& line : memory_by_line(index).growing(kGrowthSteps)) {
    const Place place = place_of(line.site);
    engine::GrowingMemory& sum = lines[{text_of(place.file), place.line}];
    sum.bytes += line.kinds[static_cast<std::size_t>(engine::MemoryKind::kKept)];
    sum.steps = std::max<std::int64_t>(sum.steps, line.grown);
  }
  const std::lock_guard lock(g_growth_mutex);
  for (auto& [place, line] : lines) {
    if (line.bytes < kGrowthWorthSaying) continue;
    line.file = place.first, line.line = place.second, line.text = text(place.first, place.second);
    const auto holder = growth_holders().find({index, line.file, line.line});
    if (holder != growth_holders().end()) line.holder = holder->second;
    device.growing.push_back(std::move(line));
  }
  std::ranges::stable_sort(device.growing, std::ranges::greater{}, &engine::GrowingMemory::bytes);
}

}  // namespace

std::int64_t allocated_now(int device) {
  return is_simulated_device(device) ? machine().memory(device).allocated() : real_allocated(device);
}

std::vector<engine::ModuleMemory> activations_by_module(const std::vector<engine::MemoryByLine::Line>& held) {
  std::map<std::string, std::int64_t> sums;
  for (const auto& line : held) {
    const std::int64_t bytes = line.kinds[static_cast<std::size_t>(engine::MemoryKind::kActivation)];
    const Place place = place_of(line.site);
    if (bytes > 0) sums[engine::owner_of(place.function != nullptr ? place.function : "")] += bytes;
  }
  std::vector<engine::ModuleMemory> modules;
  for (const auto& [module, bytes] : sums) modules.push_back({module.empty() ? "elsewhere" : module, bytes});
  std::ranges::sort(modules, std::ranges::greater{}, &engine::ModuleMemory::bytes);
  return modules;
}

void add_ledger(engine::Report& report, const py::function& line_text) {
  const auto text = [&](const std::string& file, int line) { return line_text(file, line).cast<std::string>(); };
  for (engine::LedgerRow& row : part().transfers.since(rows_of(transfers(), false))) {
    std::string words = text(row.file, row.line);
    report.transfers.push_back({std::move(row.file), row.line, std::move(row.from), std::move(row.to), row.count,
                                row.bytes, std::move(row.kind), rounded(row.milliseconds), std::move(words)});
  }
  for (engine::LedgerRow& row : part().waits.since(rows_of(synchronizations(), true))) {
    std::string words = text(row.file, row.line);
    report.syncs.push_back(
        {std::move(row.file), row.line, std::move(row.kind), row.count, rounded(row.milliseconds), std::move(words)});
  }
  for (int i = 0; i < sim::kMaxDevices; ++i) {
    const bool simulated = is_simulated_device(i);
    const auto held = memory_by_line(i).at_peak(allocated_now(i));
    std::int64_t peak = simulated ? machine().memory(i).peak_allocated() : real_peak(i);
    if (simulated) {  // a program may set its own peaks back: what was held at the highest is known still
      std::int64_t highest = 0;
      for (const auto& line : held) highest += line.bytes;
      peak = std::max(peak, highest);
    }
    if (peak == 0) continue;
    engine::DeviceMemory& device = report.memory.emplace_back();
    device.device = "cuda:" + std::to_string(i), device.peak = peak;
    // `locus memory` asks for more than any card has, to see what a program takes: that is no capacity.
    constexpr std::size_t kNoCard = std::size_t{1} << 40;
    const std::size_t capacity = simulated ? machine().memory(i).capacity() : 0;
    device.capacity = capacity < kNoCard ? static_cast<std::int64_t>(capacity) : 0;
    device.timeline = timeline_of(i);
    add_lines(device, held, text);
    device.by_module = activations_by_module(held);
    const engine::ByKind kinds = engine::by_kind(held);
    for (std::size_t kind = 0; kind < kinds.size(); ++kind) {
      if (kinds[kind] > 0) device.by_category.push_back({std::string(engine::kMemoryKindNames[kind]), kinds[kind]});
    }
    std::ranges::sort(device.by_category, std::ranges::greater{}, &engine::CategoryMemory::bytes);
    add_growing(device, i, text);
  }
}

void add_made_up(engine::Report& report, const py::function& line_text) {
  if (!dry::on()) return;
  static constexpr const char* kShapes[] = {"half", "most", "least"};
  engine::DryRun& run = report.dry.emplace();
  run.keep = static_cast<std::int64_t>(dry::settings().keep);
  run.shapes = kShapes[static_cast<std::size_t>(dry::settings().shapes)];
  for (const auto& [what, counted] : dry::made_up().rows()) {
    const Place place = place_of(what.site);
    const std::string file = text_of(place.file);
    const std::string kind = engine::to_string(what.kind), operation = operator_name(what.operation);
    // Two calls of one line are one to a reader.
    const auto known = std::ranges::find_if(run.made_up, [&](const engine::MadeUpLine& each) {
      return each.line == place.line && each.kind == kind && each.operation == operation && each.file == file;
    });
    if (known != run.made_up.end()) {
      known->count += counted.count;
      known->bytes = std::max(known->bytes, counted.most);
      continue;
    }
    const std::string text = place.line > 0 ? line_text(file, place.line).cast<std::string>() : "";
    run.made_up.push_back({file, place.line, kind, operation, counted.count, counted.most, text});
  }
}

void define_ledger(py::module_& m) {
  m.def("transfers", [] { return as_list(rows_of(transfers(), false)); });
  m.def("synchronizations", [] { return as_list(rows_of(synchronizations(), true)); });
  m.def("begin_part", [] {
    part().transfers = engine::LedgerMark(rows_of(transfers(), false));
    part().waits = engine::LedgerMark(rows_of(synchronizations(), true));
  });
}

void note_growth(int device, const std::string& file, int line, const std::string& holder) {
  const std::lock_guard lock(g_growth_mutex);
  growth_holders()[{device, file, line}] = holder;
}

}  // namespace locus::bridge
