// The cluster on the HTML page: its mesh, drawn with the ranks that ran, what each of them holds at its peak, what a
// step moves between them, and how parameters are spread.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "locus/report/html_parts.h"
#include "locus/report/phrase.h"
#include "locus/report/screen.h"

namespace locus::report {
namespace {

using engine::Cluster;
using engine::ClusterMesh;

constexpr std::size_t kMaxDrawn = 8192, kMaxMeshes = 4;
constexpr int kCell = 9, kGap = 4;

/// Where a dimension's steps go: the last across, the one before it down, and so on by turns, with gaps between.
struct Drawing {
  std::vector<int> step_x, step_y;
  int width = kCell, height = kCell;
};

Drawing drawing_of(const ClusterMesh& mesh) {
  Drawing drawing;
  const std::size_t dimensions = mesh.shape.size();
  drawing.step_x.assign(dimensions, 0), drawing.step_y.assign(dimensions, 0);
  bool across = true;
  for (std::size_t i = dimensions; i-- > 0; across = !across) {
    int& size = across ? drawing.width : drawing.height;
    const int step = size == kCell ? kCell + 1 : size + kGap;
    (across ? drawing.step_x : drawing.step_y)[i] = step;
    size += step * static_cast<int>(std::max<std::int64_t>(mesh.shape[i], 1) - 1);
  }
  return drawing;
}

std::string drawn(const ClusterMesh& mesh, const Cluster& cluster) {
  std::int64_t count = 1;
  for (const std::int64_t size : mesh.shape) count = size > 0 && count <= 1'000'000 ? count * size : 0;
  const std::string title = html_words(words(mesh), 200);
  if (count <= 0 || static_cast<std::size_t>(count) > kMaxDrawn) return "<p>" + title + "</p>\n";
  std::set<int> ran;
  for (const engine::ClusterRank& each : cluster.ranks) ran.insert(each.rank);
  const Drawing drawing = drawing_of(mesh);
  std::string out =
      fmt::format("<figure><figcaption>{}</figcaption><svg role=img aria-label=\"{}\" width={} height={}>", title,
                  title, drawing.width, drawing.height);
  for (std::int64_t number = 0; number < count; ++number) {
    int x = 0, y = 0;
    std::int64_t rest = number;
    for (std::size_t i = mesh.shape.size(); i-- > 0; rest /= mesh.shape[i]) {
      const auto at = static_cast<int>(rest % mesh.shape[i]);
      x += at * drawing.step_x[i], y += at * drawing.step_y[i];
    }
    const auto place = static_cast<std::size_t>(number);
    const int rank = place < mesh.ranks.size() ? mesh.ranks[place] : static_cast<int>(number);
    const bool is_run = ran.contains(rank);
    out += fmt::format(
        "<rect x={} y={} width={} height={} fill=currentColor fill-opacity=\"{}\"><title>rank {}{}"
        "</title></rect>",
        x, y, kCell, kCell, is_run ? "0.9" : "0.15", rank, is_run ? ", ran" : "");
  }
  return out + "</svg></figure>\n";
}

std::string share(std::int64_t peak, std::int64_t capacity) {
  if (capacity <= 0) return "";
  return fmt::format("{:.0f} %{}", 100.0 * static_cast<double>(peak) / static_cast<double>(capacity),
                     peak > capacity ? ", does not fit" : "");
}

std::string of_ranks(const Cluster& cluster) {
  BarTable table{.caption = {},
                 .head = {"rank", "stands for", "place", "peak memory", "of the card", "parameters"},
                 .numbers = 3,
                 .rows = {}};
  for (const engine::ClusterRank& each : cluster.ranks) {
    table.rows.push_back({{std::to_string(each.rank), html_words(each.role, 80), html_words(each.coordinates, 80),
                           bytes_text(each.peak), share(each.peak, each.capacity), bytes_text(each.parameters)},
                          static_cast<double>(each.peak),
                          each.device});
  }
  std::stable_sort(table.rows.begin(), table.rows.end(),
                   [](const BarRow& a, const BarRow& b) { return a.weight > b.weight; });
  return html_bars(table);
}

std::string of_traffic(const Cluster& cluster, std::string_view directory) {
  BarTable table{.caption = cluster.step >= 0 ? "between ranks, in one step" : "between ranks, in the whole run",
                 .head = {"line", "call", "group", "times", "bytes"},
                 .numbers = 3,
                 .rows = {}};
  for (const engine::ClusterTraffic& each : cluster.traffic) {
    const std::string group = fmt::format("{} <small>of {}</small>", html_words(each.group, 40), each.size);
    table.rows.push_back({{each.line > 0 ? html_source_place(each.file, each.line, directory, each.text) : "",
                           html_code(each.call, 60), group, grouped(each.count), bytes_text(each.bytes)},
                          static_cast<double>(each.bytes),
                          "cuda:0"});
  }
  return html_bars(table);
}

std::string of_parameters(const Cluster& cluster) {
  std::string out;
  if (!cluster.placements.empty()) {
    BarTable table{.caption = "parameters, by how they are spread",
                   .head = {"spread", "parameters", "on a rank", "in all"},
                   .numbers = 1,
                   .rows = {}};
    for (const engine::ClusterPlacement& each : cluster.placements) {
      table.rows.push_back(
          {{html_words(each.placement, 120), grouped(each.count), bytes_text(each.bytes), bytes_text(each.whole)},
           static_cast<double>(each.bytes),
           "cuda:0"});
    }
    std::stable_sort(table.rows.begin(), table.rows.end(),
                     [](const BarRow& a, const BarRow& b) { return a.weight > b.weight; });
    out += html_bars(table);
  }
  if (!cluster.replicas.empty()) {
    out += "<p>Large, and held by several ranks alike:</p><ul>";
    for (std::size_t i = 0; i < std::min<std::size_t>(cluster.replicas.size(), 20); ++i) {
      const engine::ClusterReplica& each = cluster.replicas[i];
      out += fmt::format("<li>{}, {} on each of {} ranks <small>{}</small></li>", html_code(each.name, 120),
                         bytes_text(each.bytes), grouped(each.copies), html_words(each.placement, 120));
    }
    out += "</ul>\n";
  }
  return out;
}

}  // namespace

std::string html_cluster(const engine::Report& report, std::string_view directory) {
  if (!report.cluster) return {};
  const Cluster& cluster = *report.cluster;
  std::string out = fmt::format(
      "<section id=cluster><h2>Cluster</h2><p class=lead>{} of {} ranks on {} ran; what is said here is of "
      "those.</p>\n",
      grouped(static_cast<std::int64_t>(cluster.ranks.size())), grouped(cluster.world), counted(cluster.hosts, "host"));
  for (std::size_t i = 0; i < std::min(cluster.meshes.size(), kMaxMeshes); ++i)
    out += drawn(cluster.meshes[i], cluster);
  out += of_ranks(cluster) + of_traffic(cluster, directory) + of_parameters(cluster);
  if (!cluster.unknown.empty()) {
    out += "<p>Not known:</p><ul>";
    for (std::size_t i = 0; i < std::min<std::size_t>(cluster.unknown.size(), kMaxListedRows); ++i)
      out += "<li>" + html_words(cluster.unknown[i], 300) + "</li>";
    out += "</ul>\n";
  }
  return out + "</section>\n";
}

}  // namespace locus::report
