// See call.h.
#include "locus/engine/ranks/call.h"

#include <algorithm>

namespace locus::engine::ranks {
namespace {

constexpr char kArrow = '\t';  // in no name of a group
constexpr Key kChannelBit = Key{1} << 63;

}  // namespace

bool Call::is_message() const { return group.find(kArrow) != std::string::npos; }

Key Call::key() const { return key_of(group); }

std::string channel(std::string_view group, int source, int target, int tag) {
  return std::string(group) + kArrow + std::to_string(source) + ">" + std::to_string(target) + "#" +
         std::to_string(tag);
}

Key key_of(std::string_view group) {
  Key hash = 0xcbf29ce484222325;  // FNV-1a
  for (const char byte : group) hash = (hash ^ static_cast<unsigned char>(byte)) * 0x100000001b3;
  hash = std::max<Key>(hash & ~kChannelBit, 1);
  return group.find(kArrow) != std::string_view::npos ? hash | kChannelBit : hash;
}

bool is_channel(Key key) { return (key & kChannelBit) != 0; }

std::string_view family(const Call& call) {
  if (call.name == "all_gather_into_tensor") return "all_gather";
  if (call.name == "reduce_scatter_tensor") return "reduce_scatter";
  if (call.name == "all_to_all_single") return "all_to_all";
  return call.name;
}

bool may_share_group(const Call& one, const Call& other) {
  if (one.members.empty() || other.members.empty()) return true;
  return std::is_permutation(one.members.begin(), one.members.end(), other.members.begin(), other.members.end());
}

bool fit(const Call& one, const Call& other) {
  if (one.is_message() != other.is_message() || one.dtype != other.dtype) return false;
  if (one.is_message()) return one.elements == other.elements;
  if (family(one) != family(other)) return false;
  const bool uneven = one.name == "gather" || one.name == "scatter" || std::min(one.elements, other.elements) < 0;
  if (!uneven && one.elements != other.elements) return false;
  return one.root == other.root && one.reduction == other.reduction;
}

}  // namespace locus::engine::ranks
