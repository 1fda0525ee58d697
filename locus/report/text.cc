// The report as text: findings one after the other, the ledger, the notes, the closing line. A finding's own block is
// in finding_text.cc.
#include "locus/report/text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "locus/engine/adoption.h"
#include "locus/report/closing.h"
#include "locus/report/phrase.h"
#include "locus/report/screen.h"
#include "locus/report/snippet.h"

namespace locus::report {

using engine::Report;

namespace {

/// `head` once, then `body` wrapped behind it; a no-break space is a space that no line ends at.
std::string hanging(std::string_view head, std::string_view body, const TextOptions& options, Tone tone) {
  const int indent = width_of(head);
  const int room = layout_width(options) == 0 ? 0 : layout_width(options) - indent;
  std::string out;
  for (const std::string& line : wrap(body, room, room)) {
    out += out.empty() ? paint(head, tone, options.color) : std::string(static_cast<std::size_t>(indent), ' ');
    out += line + "\n";
  }
  for (std::size_t at; (at = out.find(kNoBreak)) != out.npos;) out.replace(at, kNoBreak.size(), " ");
  return out;
}

/// One row of a ledger table.
struct LedgerRow {
  std::string where;
  std::vector<std::string> cells;  // all but the last right-aligned
};

std::string table(std::string_view title, std::vector<LedgerRow> rows, const TextOptions& options) {
  if (rows.empty()) return {};
  const auto limit = static_cast<std::size_t>(std::max(1, options.ledger_rows));
  const std::size_t left = rows.size() - std::min(rows.size(), limit);
  rows.resize(rows.size() - left);
  std::vector<int> widths(1 + rows.front().cells.size(), 0);
  for (const LedgerRow& row : rows) {
    widths[0] = std::max(widths[0], width_of(row.where));
    for (std::size_t i = 0; i < row.cells.size(); ++i) widths[i + 1] = std::max(widths[i + 1], width_of(row.cells[i]));
  }
  std::string out = paint(title, Tone::kBold, options.color) + "\n";
  for (const LedgerRow& row : rows) {
    std::string line = "  " + padded(row.where, widths[0]);
    for (std::size_t i = 0; i < row.cells.size(); ++i) {
      const bool last = i + 1 == row.cells.size();
      if (!last && widths[i + 1] == 0) continue;  // nothing to show in this column, in any row
      const int gap = last ? 0 : widths[i + 1] - width_of(row.cells[i]);
      line += "  " + std::string(static_cast<std::size_t>(gap), ' ') + row.cells[i];
    }
    line.erase(line.find_last_not_of(' ') + 1);
    // What does not fit goes on under the first number.
    const int room = layout_width(options);
    bool first = true;
    for (const std::string& part : wrap(line, room - 2, room - 6)) {
      out += (first ? "  " : "      ") + part + "\n";
      first = false;
    }
  }
  if (left > 0) out += fmt::format("  … and {}\n", counted_more(static_cast<std::int64_t>(left), "line"));
  return out + "\n";
}

template <class T, class Weight>
std::vector<const T*> heaviest_first(const std::vector<T>& items, Weight weight) {
  std::vector<const T*> sorted;
  sorted.reserve(items.size());
  for (const T& item : items) sorted.push_back(&item);
  std::stable_sort(sorted.begin(), sorted.end(), [&](const T* a, const T* b) { return weight(*a) > weight(*b); });
  return sorted;
}

/// Time that was measured; nothing on simulated devices, where it would mean nothing.
std::string time_text(double milliseconds) { return milliseconds > 0 ? fmt::format("{:.1f} ms", milliseconds) : ""; }

/// Nothing is said of one module alone: it is all of them.
std::vector<LedgerRow> modules_of(const engine::DeviceMemory& device) {
  std::vector<LedgerRow> rows;
  for (const auto* each : heaviest_first(device.by_module, [](const auto& m) { return m.bytes; })) {
    if (device.by_module.size() > 1) rows.push_back({clean(each->module), {bytes_text(each->bytes), ""}});
  }
  return rows;
}

std::vector<LedgerRow> growing(const engine::DeviceMemory& device, const TextOptions& options) {
  std::vector<LedgerRow> rows;
  for (const auto* each : heaviest_first(device.growing, [](const auto& m) { return m.bytes; })) {
    rows.push_back({place(each->file, each->line, options.directory),
                    {bytes_text(each->bytes), "in " + counted(each->steps, "step"), clean(each->holder)}});
  }
  return rows;
}

std::string ledger(const Report& report, const TextOptions& options) {
  std::vector<LedgerRow> transfers, syncs;
  for (const auto* each : heaviest_first(report.transfers, [](const auto& t) { return t.bytes; })) {
    transfers.push_back({place(each->file, each->line, options.directory),
                         {clean(each->from) + " → " + clean(each->to), counted(each->count, "time"),
                          bytes_text(each->bytes), time_text(each->milliseconds), clean(each->note)}});
  }
  for (const auto* each : heaviest_first(report.syncs, [](const auto& s) { return s.count; })) {
    syncs.push_back({place(each->file, each->line, options.directory),
                     {counted(each->count, "time"), time_text(each->milliseconds), waiting_call(each->kind)}});
  }
  std::string out = table("transfers, by bytes", std::move(transfers), options);
  out += table("synchronizations, by count", std::move(syncs), options);
  for (const engine::DeviceMemory& device : report.memory) {
    std::vector<LedgerRow> lines;
    for (const auto* each : heaviest_first(device.by_line, [](const auto& m) { return m.bytes; })) {
      lines.push_back({place(each->file, each->line, options.directory),
                       {bytes_text(each->bytes), counted(each->count, "allocation")}});
      if (!device.by_category.empty()) lines.back().cells.push_back(clean(each->category));
    }
    std::string title = fmt::format("memory of {} at its peak, {}", clean(device.device), bytes_text(device.peak));
    std::vector<LedgerRow> purposes;
    for (const auto* each : heaviest_first(device.by_category, [](const auto& m) { return m.bytes; })) {
      purposes.push_back({clean(each->category), {bytes_text(each->bytes), ""}});
    }
    if (!purposes.empty()) {
      out += table(title + ", by what it was for", std::move(purposes), options);
      title += ", by line";
    }
    out += table(fmt::format("activations of {} at its peak, by module", clean(device.device)), modules_of(device),
                 options);
    if (lines.empty()) {
      out += paint(title, Tone::kBold, options.color) + "\n\n";
    } else {
      out += table(title, std::move(lines), options);
    }
    out += table(fmt::format("memory of {} that grew with every step", clean(device.device)), growing(device, options),
                 options);
  }
  return out;
}

/// What was made up in a dry run, so that nobody takes it for real; always shown.
std::string made_up(const Report& report, const TextOptions& options) {
  if (!report.dry) return {};
  std::string out;
  for (const MadeUpGroup& group : made_up_groups(*report.dry, options.directory)) {
    out += hanging("dry run: ", group.words + (group.places.empty() ? "" : ": " + group.places), options, Tone::kBold);
  }
  return out;
}

/// Which ranks stood for all, what each holds, what a step moves between them.
std::string cluster(const Report& report, const TextOptions& options) {
  if (!report.cluster) return {};
  const engine::Cluster& all = *report.cluster;
  std::vector<std::string> meshes;  // one of each kind: every rank has said which it is in
  for (const engine::ClusterMesh& mesh : all.meshes) {
    const std::string words = clean(engine::words(mesh));
    if (std::find(meshes.begin(), meshes.end(), words) == meshes.end()) meshes.push_back(words);
  }
  std::vector<LedgerRow> ranks, traffic, placements, replicas;
  for (const engine::ClusterRank& each : all.ranks) {
    std::string share = "–";
    if (each.capacity > 0) {
      share = fmt::format("{:.0f} % of the card",
                          100.0 * static_cast<double>(each.peak) / static_cast<double>(each.capacity));
      if (each.peak > each.capacity) share += ": does not fit";
    }
    const std::string where = each.coordinates.empty() ? "" : " (" + each.coordinates + ")";
    ranks.push_back(
        {fmt::format("rank {}{}", each.rank, clean(where)), {bytes_text(each.peak), share, clean(each.role)}});
  }
  for (const engine::ClusterTraffic& each : all.traffic) {
    const std::string group =
        each.group.empty() ? fmt::format("{} ranks", each.size) : fmt::format("{} of {}", clean(each.group), each.size);
    traffic.push_back({clean(each.call),
                       {group, counted(each.count, "time"), bytes_text(each.bytes),
                        each.line > 0 ? place(each.file, each.line, options.directory) : ""}});
  }
  for (const engine::ClusterPlacement& each : all.placements) {
    placements.push_back(
        {clean(each.placement),
         {grouped(each.count), bytes_text(each.bytes) + " on a rank", bytes_text(each.whole) + " in all"}});
  }
  for (const engine::ClusterReplica& each : all.replicas) {
    replicas.push_back(
        {shorten(clean(each.name), 60),
         {bytes_text(each.bytes), fmt::format("on each of {} ranks", grouped(each.copies)), clean(each.placement)}});
  }
  std::string out =
      hanging("cluster: ",
              fmt::format("{} of {} ranks on {} ran{}", grouped(static_cast<std::int64_t>(all.ranks.size())),
                          grouped(all.world), counted(all.hosts, "host"),
                          meshes.empty() ? "" : fmt::format(": {}", fmt::join(meshes, "; "))),
              options, Tone::kBold);
  out += table("memory at the peak, by rank", std::move(ranks), options);
  out += table(all.step >= 0 ? "between ranks in a step, by bytes" : "between ranks, by bytes", std::move(traffic),
               options);
  out += table("parameters, by how they are spread", std::move(placements), options);
  out += table("large, and the same on several ranks", std::move(replicas), options);
  constexpr std::size_t kShown = 5;
  for (std::size_t i = 0; i < std::min(kShown, all.unknown.size()); ++i)
    out += hanging("not known: ", clean(all.unknown[i]), options, Tone::kBold);
  if (all.unknown.size() > kShown) {
    out += hanging(
        "not known: ",
        "and " + counted_more(static_cast<std::int64_t>(all.unknown.size() - kShown), "thing") + ", in the JSON report",
        options, Tone::kBold);
  }
  return out;
}

/// Which ranks ran where, and of which nothing is known.
std::string hosts(const Report& report, const TextOptions& options) {
  std::string out;
  for (const engine::Host& host : report.program.hosts) out += hanging("host ", host_words(host), options, Tone::kBold);
  return out;
}

/// What "nothing found" does not speak of: code with tensors that never ran.
std::string not_run(const Report& report, const TextOptions& options) {
  if (report.not_run.empty()) return {};
  constexpr std::size_t kShown = 5;
  std::string words = "not run, so not checked: ";
  for (std::size_t i = 0; i < std::min(kShown, report.not_run.size()); ++i) {
    const engine::NotRun& each = report.not_run[i];
    const std::string where = place(each.file, each.line, options.directory);
    words += i == 0 ? "" : ", ";
    const std::string name = clean(each.function);
    const std::string_view gap = width_of(name) + width_of(where) < 48 ? kNoBreak : " ";
    words += name.empty() ? place(each.file, 0, options.directory) : fmt::format("{}{}({})", name, gap, where);
  }
  if (report.not_run.size() > kShown) {
    words += fmt::format(" and {} more", report.not_run.size() - kShown);
  }
  return hanging("note: ", words, options, Tone::kBold);
}

/// What is worse than in the baseline, beside the findings, and what is gone.
std::string baseline(const Report& report, const TextOptions& options) {
  if (!report.baseline) return {};
  const engine::Comparison& comparison = *report.baseline;
  const std::string name = clean(comparison.file);
  std::vector<LedgerRow> rows;
  for (const engine::Change& each : comparison.more) {
    const bool memory = each.kind == "memory";
    const auto amount = [&](std::int64_t value) { return memory ? bytes_text(value) : counted(value, "time"); };
    const std::string was = each.before > 0 ? "was " + amount(each.before) : "new";
    rows.push_back({each.line > 0 ? place(each.file, each.line, options.directory) : "in all",
                    {change_words(each), amount(each.now), was}});
  }
  std::string out = table("more than in " + shorten(name, 40), std::move(rows), options);
  for (const engine::Ignored& each : comparison.gone) {
    const std::string where = each.line > 0 ? " at " + place(each.file, each.line, options.directory) : "";
    out += hanging("gone: ", clean(each.code) + where, options, Tone::kBold);
  }
  return out;
}

/// "5 fixes: locus fix --apply train.py; about LOC003: locus codes LOC003".
std::string what_next(const Report& report, const TextOptions& options) {
  std::int64_t fixes = 0;
  const engine::Finding* first = nullptr;
  for (const engine::Finding& finding : report.findings) {
    if (engine::is_known(report, finding)) continue;
    if (first == nullptr && engine::find_code(finding.code) != nullptr) first = &finding;
    fixes += std::ranges::any_of(finding.fixes, is_edit) ? 1 : 0;
  }
  if (!options.next || first == nullptr) return {};
  std::string words;
  if (fixes > 0 && !options.fix.empty()) {
    words = fmt::format("{}: {}; ", fixes == 1 ? "1 fix" : grouped(fixes) + " fixes", clean(options.fix));
  }
  return hanging("next: ", words + fmt::format("about {0}: locus codes {0}", first->code), options, Tone::kBold);
}

TextOptions settled(const TextOptions& options) {
  TextOptions settled = options;
  std::error_code ignored;
  if (settled.directory.empty()) settled.directory = std::filesystem::current_path(ignored).string();
  return settled;
}

}  // namespace

std::string render_summary(const Report& report, const TextOptions& options) {
  return hanging("locus: ", closing_words(report), options, Tone::kBold);
}

std::string render_text(const Report& report, const TextOptions& asked) {
  const TextOptions options = settled(asked);
  std::string out = render_findings(report, options);
  if (options.ledger) out += ledger(report, options);
  if (options.quiet) return out;
  out += cluster(report, options) + hosts(report, options) + made_up(report, options) + baseline(report, options) +
         not_run(report, options);
  for (const std::string& note : report.notes) out += hanging("note: ", clean(note), options, Tone::kBold);
  return out + render_summary(report, options) + what_next(report, options);
}

}  // namespace locus::report
