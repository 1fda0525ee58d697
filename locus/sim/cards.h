// Cards by name: how much memory they have, and what the memory that libraries take depends on. See cards.def.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace locus::sim {

/// Where a card's library memory comes from.
enum class CardOrigin { kMeasured, kDerived };

struct Card {
  std::string_view key;  ///< as the command line says it
  std::string_view name;
  std::size_t memory = 0;
  int major = 0, minor = 0;
  int multiprocessors = 0, threads_per_multiprocessor = 0;
  int l2_mib = 0, bus_bits = 0;
  CardOrigin origin = CardOrigin::kDerived;

  bool is_measured() const { return origin == CardOrigin::kMeasured; }
  /// Tensor cores that take 32-bit floats (TF32), so that cuDNN works on channels-last copies.
  bool has_tf32() const { return major >= 8; }
  /// Where PyTorch prefers cuDNN's attention to its own.
  bool prefers_cudnn_attention() const { return major == 9 || major == 10; }
};

std::span<const Card> all_cards();
/// The card of that key, whatever its case; nullptr when there is none.
const Card* find_card(std::string_view key);
/// What is simulated when nobody says what.
const Card& default_card();

}  // namespace locus::sim
