// See cluster.h.
#include "locus/engine/cluster.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "locus/engine/json_fields.h"

namespace locus::engine {

using fields::Fields;

void from_json(const Json& json, ClusterMesh& mesh) {
  Fields(json, "a mesh")("names", mesh.names)("shape", mesh.shape)("ranks", mesh.ranks);
}

void to_json(Json& json, const ClusterMesh& mesh) {
  json = {{"names", mesh.names}, {"shape", mesh.shape}, {"ranks", mesh.ranks}};
}

void from_json(const Json& json, ClusterRank& rank) {
  Fields(json, "a rank")("rank", rank.rank)("role", rank.role)("coordinates", rank.coordinates)("device", rank.device)(
      "peak", rank.peak)("capacity", rank.capacity)("parameters", rank.parameters);
}

void to_json(Json& json, const ClusterRank& rank) {
  json = {{"rank", rank.rank}, {"role", rank.role},         {"coordinates", rank.coordinates}, {"device", rank.device},
          {"peak", rank.peak}, {"capacity", rank.capacity}, {"parameters", rank.parameters}};
}

void from_json(const Json& json, ClusterTraffic& each) {
  Fields(json, "a call between ranks")("call", each.call)("group", each.group)("size", each.size)("file", each.file)(
      "line", each.line)("count", each.count)("bytes", each.bytes)("ranks", each.ranks)("text", each.text);
}

void to_json(Json& json, const ClusterTraffic& each) {
  json = {{"call", each.call},   {"group", each.group}, {"size", each.size},   {"file", each.file}, {"line", each.line},
          {"count", each.count}, {"bytes", each.bytes}, {"ranks", each.ranks}, {"text", each.text}};
}

void from_json(const Json& json, ClusterPlacement& each) {
  Fields(json, "a placement")("placement", each.placement)("count", each.count)("bytes", each.bytes)(
      "whole", each.whole)("ranks", each.ranks);
}

void to_json(Json& json, const ClusterPlacement& each) {
  json = {{"placement", each.placement},
          {"count", each.count},
          {"bytes", each.bytes},
          {"whole", each.whole},
          {"ranks", each.ranks}};
}

void from_json(const Json& json, ClusterReplica& each) {
  Fields(json, "a replica")("name", each.name)("placement", each.placement)("bytes", each.bytes)("copies", each.copies);
}

void to_json(Json& json, const ClusterReplica& each) {
  json = {{"name", each.name}, {"placement", each.placement}, {"bytes", each.bytes}, {"copies", each.copies}};
}

void from_json(const Json& json, Cluster& cluster) {
  Fields(json, "a cluster")("world", cluster.world)("hosts", cluster.hosts)("meshes", cluster.meshes)(
      "ranks", cluster.ranks)("step", cluster.step)("traffic", cluster.traffic)("placements", cluster.placements)(
      "replicas", cluster.replicas)("unknown", cluster.unknown);
}

void to_json(Json& json, const Cluster& cluster) {
  json = {{"world", cluster.world},           {"hosts", cluster.hosts},       {"meshes", cluster.meshes},
          {"ranks", cluster.ranks},           {"step", cluster.step},         {"traffic", cluster.traffic},
          {"placements", cluster.placements}, {"replicas", cluster.replicas}, {"unknown", cluster.unknown}};
}

namespace {

void unite(std::vector<int>& ranks, const std::vector<int>& more) {
  ranks.insert(ranks.end(), more.begin(), more.end());
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
}

template <class T, class Same, class Merge>
void add(std::vector<T>& whole, const std::vector<T>& part, Same same, Merge merge) {
  for (const T& each : part) {
    const auto known = std::find_if(whole.begin(), whole.end(), [&](const T& other) { return same(other, each); });
    if (known == whole.end()) {
      whole.push_back(each);
    } else {
      merge(*known, each);
    }
  }
}

}  // namespace

void merge_into(Cluster& whole, const Cluster& part) {
  whole.world = std::max(whole.world, part.world), whole.hosts = std::max(whole.hosts, part.hosts);
  whole.step = std::max(whole.step, part.step);
  const auto equal = [](const auto& a, const auto& b) { return a == b; };
  const auto nothing = [](auto&, const auto&) {};
  add(whole.meshes, part.meshes, equal, nothing);
  add(whole.unknown, part.unknown, equal, nothing);
  add(
      whole.ranks, part.ranks, [](const auto& a, const auto& b) { return a.rank == b.rank; },
      [](ClusterRank& a, const ClusterRank& b) {
        if (a.role.empty()) a.role = b.role;
        if (a.coordinates.empty()) a.coordinates = b.coordinates;
        if (b.peak > a.peak) a.device = b.device, a.peak = b.peak, a.capacity = b.capacity;
        a.parameters = std::max(a.parameters, b.parameters);
      });
  std::sort(whole.ranks.begin(), whole.ranks.end(), [](const auto& a, const auto& b) { return a.rank < b.rank; });
  add(
      whole.traffic, part.traffic,
      [](const auto& a, const auto& b) {
        return a.line == b.line && a.call == b.call && a.group == b.group && a.size == b.size && a.file == b.file;
      },
      [](ClusterTraffic& a, const ClusterTraffic& b) {
        a.count = std::max(a.count, b.count), a.bytes = std::max(a.bytes, b.bytes);
        unite(a.ranks, b.ranks);
      });
  std::stable_sort(whole.traffic.begin(), whole.traffic.end(),
                   [](const auto& a, const auto& b) { return a.bytes > b.bytes; });
  add(
      whole.placements, part.placements, [](const auto& a, const auto& b) { return a.placement == b.placement; },
      [](ClusterPlacement& a, const ClusterPlacement& b) {
        a.count = std::max(a.count, b.count), a.bytes = std::max(a.bytes, b.bytes);
        a.whole = std::max(a.whole, b.whole);
        unite(a.ranks, b.ranks);
      });
  std::stable_sort(whole.placements.begin(), whole.placements.end(),
                   [](const auto& a, const auto& b) { return a.whole > b.whole; });
  add(
      whole.replicas, part.replicas,
      [](const auto& a, const auto& b) { return a.name == b.name && a.placement == b.placement; },
      [](ClusterReplica& a, const ClusterReplica& b) { a.bytes = std::max(a.bytes, b.bytes); });
  std::stable_sort(whole.replicas.begin(), whole.replicas.end(),
                   [](const auto& a, const auto& b) { return a.bytes > b.bytes; });
}

std::string words(const ClusterMesh& mesh) {
  std::string text;
  const bool is_split = std::any_of(mesh.shape.begin(), mesh.shape.end(), [](std::int64_t size) { return size > 1; });
  for (std::size_t i = 0; i < mesh.shape.size(); ++i) {
    if (is_split && mesh.shape[i] == 1) continue;
    const std::string name = i < mesh.names.size() ? mesh.names[i] + " " : "";
    text += fmt::format("{}{}{}", text.empty() ? "" : " × ", name, mesh.shape[i]);
  }
  return text;
}

}  // namespace locus::engine
