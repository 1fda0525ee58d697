// See merge.h.
#include "locus/engine/merge.h"

#include <algorithm>
#include <utility>

namespace locus::engine {
namespace {

template <class T, class Same, class Add>
void merge_lists(std::vector<T>& whole, const std::vector<T>& part, Same same, Add add) {
  for (const T& item : part) {
    const auto known = std::find_if(whole.begin(), whole.end(), [&](const T& other) { return same(other, item); });
    if (known == whole.end()) {
      whole.push_back(item);
    } else {
      add(*known, item);
    }
  }
}

}  // namespace

void sign(Report& report, int ranks, std::optional<int> rank) {
  report.program.ranks = ranks;
  if (!rank) return;
  if (report.cluster) {  // what the ledger knows, which was not there when the rank described itself
    for (ClusterRank& each : report.cluster->ranks) {
      for (const DeviceMemory& memory : report.memory) {
        if (memory.peak > each.peak)
          each.device = memory.device, each.peak = memory.peak, each.capacity = memory.capacity;
      }
    }
  }
  for (Finding& finding : report.findings) {
    if (finding.ranks.empty()) finding.ranks = {*rank};
  }
}

void leave_to_parent(Report& report) {
  report.transfers.clear(), report.syncs.clear(), report.memory.clear();
  report.dry.reset();
  report.program.steps = 0;
}

void News::keep_new(const std::string& process, Report& report) {
  std::erase_if(report.findings, [&](Finding& finding) {
    std::int64_t& told = counts_[{process, finding.id}];
    const std::int64_t before = std::exchange(told, finding.count);
    finding.count -= before;
    return finding.count <= 0;
  });
}

void News::forget(const std::string& process) {
  std::erase_if(counts_, [&](const auto& entry) { return entry.first.first == process; });
}

void merge_into(Report& whole, const Report& part) {
  merge_lists(
      whole.transfers, part.transfers,
      [](const Transfer& a, const Transfer& b) {
        return a.line == b.line && a.from == b.from && a.to == b.to && a.note == b.note && a.file == b.file;
      },
      [](Transfer& a, const Transfer& b) {
        a.count += b.count;
        a.bytes += b.bytes;
        a.milliseconds += b.milliseconds;
      });
  merge_lists(
      whole.syncs, part.syncs,
      [](const Sync& a, const Sync& b) { return a.line == b.line && a.kind == b.kind && a.file == b.file; },
      [](Sync& a, const Sync& b) {
        a.count += b.count;
        a.milliseconds += b.milliseconds;
      });
  // Each process has devices of its own: the fullest one speaks for the device.
  merge_lists(
      whole.memory, part.memory, [](const DeviceMemory& a, const DeviceMemory& b) { return a.device == b.device; },
      [](DeviceMemory& a, const DeviceMemory& b) {
        if (b.peak > a.peak) a = b;
      });
  // Ranks have a copy of the model each; the first one speaks for all.
  merge_lists(
      whole.models, part.models,
      [](const Model& a, const Model& b) { return a.class_name == b.class_name && a.name == b.name; },
      [](Model&, const Model&) {});
  merge_lists(
      whole.notes, part.notes, [](const std::string& a, const std::string& b) { return a == b; },
      [](std::string&, const std::string&) {});
  if (part.dry) {
    if (!whole.dry) whole.dry = DryRun{part.dry->keep, part.dry->shapes, {}};
    merge_lists(
        whole.dry->made_up, part.dry->made_up,
        [](const MadeUpLine& a, const MadeUpLine& b) {
          return a.line == b.line && a.kind == b.kind && a.operation == b.operation && a.file == b.file;
        },
        [](MadeUpLine& a, const MadeUpLine& b) {
          a.count += b.count;
          a.bytes = std::max(a.bytes, b.bytes);
        });
  }
  if (part.cluster) {
    if (!whole.cluster) whole.cluster.emplace();
    merge_into(*whole.cluster, *part.cluster);
  }
  whole.program.steps = std::max(whole.program.steps, part.program.steps);
  whole.program.ops += part.program.ops;
  whole.program.on_device = whole.program.on_device || part.program.on_device;
  whole.program.all_seen = whole.program.all_seen && part.program.all_seen;
  if (whole.program.incomplete.empty()) whole.program.incomplete = part.program.incomplete;
  whole.program.ranks = std::max(whole.program.ranks, part.program.ranks);
  if (whole.program.devices.empty()) whole.program.devices = part.program.devices;
}

}  // namespace locus::engine
