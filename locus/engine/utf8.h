// Text as it comes from programs: mostly UTF-8, never trusted to be. Decoding cannot fail; what is not UTF-8
// becomes U+FFFD, one for each byte that does not fit. How wide a character is on a screen is the report's matter.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace locus::engine {

constexpr char32_t kReplacement = 0xfffd;

/// Decodes the character at `at` and moves `at` behind it; `at` must be inside the text.
constexpr char32_t next_character(std::string_view text, std::size_t& at) {
  const auto byte = [&](std::size_t i) -> unsigned { return static_cast<unsigned char>(text[i]); };
  const unsigned lead = byte(at);
  const std::size_t start = at++;
  if (lead < 0x80) return lead;
  const int more = lead < 0xc2 || lead > 0xf4 ? 0 : lead < 0xe0 ? 1 : lead < 0xf0 ? 2 : 3;
  if (more == 0 || start + static_cast<std::size_t>(more) >= text.size()) return kReplacement;
  char32_t value = lead & (0x3fU >> more);
  for (int i = 1; i <= more; ++i) {
    const unsigned c = byte(start + static_cast<std::size_t>(i));
    if ((c & 0xc0U) != 0x80) return kReplacement;
    value = (value << 6) | (c & 0x3fU);
  }
  const bool overlong = (more == 2 && value < 0x800) || (more == 3 && value < 0x10000);
  if (overlong || value > 0x10ffff || (value >= 0xd800 && value < 0xe000)) return kReplacement;
  at = start + 1 + static_cast<std::size_t>(more);
  return value;
}

/// Appends a character.
inline void append_utf8(std::string& out, char32_t value) {
  if (value < 0x80) {
    out += static_cast<char>(value);
    return;
  }
  const int more = value < 0x800 ? 1 : value < 0x10000 ? 2 : 3;
  constexpr unsigned kLead[] = {0, 0xc0, 0xe0, 0xf0};
  out += static_cast<char>(kLead[more] | (value >> (6 * more)));
  for (int i = more - 1; i >= 0; --i) out += static_cast<char>(0x80U | ((value >> (6 * i)) & 0x3fU));
}

/// The same text as valid UTF-8.
inline std::string valid_utf8(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) append_utf8(out, next_character(text, at));
  return out;
}

}  // namespace locus::engine
