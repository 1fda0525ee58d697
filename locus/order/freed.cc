// See freed.h.
#include "locus/order/freed.h"

#include <algorithm>

namespace locus::order {

void FreedMemory::free(std::uint64_t address, std::uint64_t bytes, const Shadow& shadow, const VectorClock& done) {
  std::vector<Access> uses;
  const auto keep = [&](Access access) {
    if (access.time <= done.at(access.lane)) return;
    access.freed = true;
    access.gaps = false;  // the whole block is given away
    uses.push_back(access);
  };
  shadow.each([&](const Cell& cell, std::uint64_t, std::uint64_t) {
    keep(cell.write);
    keep(cell.read);
    std::for_each(cell.further_reads().begin(), cell.further_reads().end(), keep);
  });
  if (uses.empty()) return;
  if (blocks_.size() >= kMost) blocks_.erase(blocks_.begin());
  blocks_.push_back({address, address + bytes, std::move(uses)});
}

void FreedMemory::reuse(std::uint64_t address, std::uint64_t bytes, Shadow* shadow) {
  const std::uint64_t end = address + bytes;
  std::vector<Block> rest;
  std::erase_if(blocks_, [&](Block& block) {
    if (block.end <= address || end <= block.begin) return false;
    const std::uint64_t from = std::max(block.begin, address), to = std::min(block.end, end);
    shadow->inherit(block.uses, {from - address, to == end ? Range::kEnd : to - address});
    if (block.begin < from) rest.push_back({block.begin, from, block.uses});
    if (to < block.end) rest.push_back({to, block.end, block.uses});
    return true;
  });
  for (Block& block : rest) blocks_.push_back(std::move(block));
}

}  // namespace locus::order
