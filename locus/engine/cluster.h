// A cluster, seen from the ranks that ran: what each of them holds, what a step moves between them, how parameters are
// spread. Part of a report.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "locus/engine/finding.h"

namespace locus::engine {

/// A device mesh of the program's.
struct ClusterMesh {
  std::vector<std::string> names;   ///< of its dimensions
  std::vector<std::int64_t> shape;  ///< their sizes
  std::vector<int> ranks;           ///< in order; empty: all there are, by number
  bool operator==(const ClusterMesh&) const = default;
};

/// A rank that ran.
struct ClusterRank {
  int rank = 0;
  std::string role;         ///< why it ran: "last of tp"
  std::string coordinates;  ///< "dp 0, tp 7"; empty: in no mesh
  std::string device;       ///< the one that was fullest
  std::int64_t peak = 0;    ///< bytes, of that device
  std::int64_t capacity = 0;
  std::int64_t parameters = 0;  ///< bytes of the parameters that it holds
  bool operator==(const ClusterRank&) const = default;
};

/// What one line moves between ranks in a step.
struct ClusterTraffic {
  std::string call;   ///< as in torch.distributed
  std::string group;  ///< the dimension of a mesh, "tp"; empty: a group without a name
  int size = 0;       ///< of the group
  std::string file;
  int line = 0;
  std::int64_t count = 0;  ///< of the rank that makes most
  std::int64_t bytes = 0;  ///< of the larger side of each call, all together
  std::vector<int> ranks;  ///< that make it
  std::string text;        ///< the source line; empty when unknown
  bool operator==(const ClusterTraffic&) const = default;
};

/// Parameters that are spread in the same way.
struct ClusterPlacement {
  std::string placement;   ///< "dp: replicated, shard: split along 0"; "on each rank" without a mesh
  std::int64_t count = 0;  ///< of parameters
  std::int64_t bytes = 0;  ///< that a rank holds of them
  std::int64_t whole = 0;  ///< that they are without any splitting
  std::vector<int> ranks;
  bool operator==(const ClusterPlacement&) const = default;
};

/// A large parameter that several ranks hold in full, or the same part of.
struct ClusterReplica {
  std::string name;
  std::string placement;
  std::int64_t bytes = 0;  ///< on each rank
  int copies = 0;
  bool operator==(const ClusterReplica&) const = default;
};

struct Cluster {
  int world = 0, hosts = 0;
  std::vector<ClusterMesh> meshes;
  std::vector<ClusterRank> ranks;
  std::int64_t step = -1;  ///< the optimizer steps before the one that `traffic` is of; -1: of the whole run
  std::vector<ClusterTraffic> traffic;
  std::vector<ClusterPlacement> placements;
  std::vector<ClusterReplica> replicas;
  std::vector<std::string> unknown;  ///< what these ranks could not know of the others
  bool operator==(const Cluster&) const = default;
};

void from_json(const Json& json, Cluster& cluster);
void to_json(Json& json, const Cluster& cluster);

/// Takes what one rank says of itself into what is known of all.
void merge_into(Cluster& whole, const Cluster& part);

/// "dp 16 × shard 8 × tp 8"; without dimensions of one rank, where there are larger ones.
std::string words(const ClusterMesh& mesh);

}  // namespace locus::engine
