// One collective, send or recv as a rank made it, and whether two of them can be one. Looks at nothing else.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "locus/engine/finding.h"

namespace locus::engine::ranks {

/// Stands for a group, or for the messages of a group from one rank to another; never 0.
using Key = std::uint64_t;
/// A call by its number in its group; from 1.
using Number = std::uint64_t;

/// How far the program had got with its data when it made a call.
struct Feed {
  std::int64_t given = 0;       ///< batches so far
  std::int64_t of = -1;         ///< of so many; -1: not known
  std::int64_t samples = -1;    ///< of its dataset; -1: not known
  std::string sampler;          ///< "DistributedSampler"
  std::vector<Location> taken;  ///< file and line of the loop that took it, then of its callers; empty: not known
  bool operator==(const Feed&) const = default;
};

struct Call {
  std::string group;  ///< of a message: its channel()
  Number number = 0;
  std::string name;  ///< as in torch.distributed: "all_reduce"
  std::vector<std::int64_t> shape;
  std::string dtype;           ///< in PyTorch's own words: "Float"; empty: no tensor
  std::int64_t elements = -1;  ///< of what all ranks must agree on; -1: they need not
  int root = -1;               ///< of a message: the rank on the other side
  std::string reduction;
  Location place;
  std::vector<int> members;       ///< the group's ranks by their global numbers; empty: not known
  std::vector<Location> callers;  ///< from where the function that made it was called, innermost first
  std::optional<Feed> feed;       ///< the last batch that a DataLoader gave
  bool operator==(const Call&) const = default;

  bool is_message() const;
  Key key() const;
};

/// The name under which the messages of a group from one rank to another are counted.
std::string channel(std::string_view group, int source, int target, int tag);
Key key_of(std::string_view group);
/// Whether the key is of messages between two ranks.
bool is_channel(Key key);

/// Whether two calls with the same number can be one.
bool fit(const Call& one, const Call& other);
/// Whether both may be of one group: ranks that made groups in another order have other groups under one name.
bool may_share_group(const Call& one, const Call& other);
/// The call with the variants that may stand for it: all_gather_into_tensor() is an all_gather().
std::string_view family(const Call& call);

}  // namespace locus::engine::ranks
