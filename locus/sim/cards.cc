// See cards.h.
#include "locus/sim/cards.h"

#include <algorithm>
#include <array>
#include <cctype>

namespace locus::sim {

namespace {

constexpr std::array kCards = {
#define LOCUS_CARD(key, name, memory, major, minor, multiprocessors, threads, l2_mib, bus_bits, origin) \
  Card{key, name, memory, major, minor, multiprocessors, threads, l2_mib, bus_bits, CardOrigin::origin},
#include "locus/sim/cards.def"
#undef LOCUS_CARD
};

bool same_word(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](unsigned char x, unsigned char y) { return std::tolower(x) == std::tolower(y); });
}

}  // namespace

std::span<const Card> all_cards() { return kCards; }

const Card* find_card(std::string_view key) {
  const auto found =
      std::find_if(kCards.begin(), kCards.end(), [&](const Card& card) { return same_word(card.key, key); });
  return found == kCards.end() ? nullptr : &*found;
}

const Card& default_card() { return kCards.front(); }

}  // namespace locus::sim
