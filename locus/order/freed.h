// Memory that was given back while another lane may still use it. The allocator of a card hands a freed block out again
// to the stream that it was made on, at once: whoever gets it next may write before the other lane is done.
#pragma once

#include <cstdint>
#include <vector>

#include "locus/order/shadow.h"

namespace locus::order {

/// The freed memory of one device, by the addresses that the card's allocator gives. Not thread-safe.
class FreedMemory {
 public:
  static constexpr std::size_t kMost = 1024;  ///< older ones are forgotten

  /// A tensor is freed. `done`: what is behind whoever may have the memory next.
  void free(std::uint64_t address, std::uint64_t bytes, const Shadow& shadow, const VectorClock& done);
  /// The memory has a new owner, whose shadow gets what is still to be waited for.
  void reuse(std::uint64_t address, std::uint64_t bytes, Shadow* shadow);
  bool empty() const { return blocks_.empty(); }

 private:
  struct Block {
    std::uint64_t begin, end;
    std::vector<Access> uses;
  };
  std::vector<Block> blocks_;
};

}  // namespace locus::order
