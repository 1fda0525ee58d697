// The words of PYTORCH_CUDA_ALLOC_CONF that are about how much memory is taken. See caching_model.h.
#include <algorithm>
#include <bit>
#include <charconv>

#include "locus/sim/caching_model.h"

namespace locus::sim {

namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;
constexpr std::size_t kPowers = 16;  // from 1 MiB to 64 GiB; smaller and larger sizes go with the ends

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

template <class Number>
bool read(std::string_view text, Number& number) {
  text = trimmed(text);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size();
}

/// "4", or "[256:1,512:2,>:8]": how many steps between two powers of two, by the size in MiB.
bool read_divisions(std::string_view text, std::array<std::uint8_t, 64>& divisions) {
  std::size_t number = 0;
  if (read(text, number)) {
    if (!std::has_single_bit(number) || number > 128) return false;
    std::fill_n(divisions.begin(), kPowers, static_cast<std::uint8_t>(number));
    return true;
  }
  if (text.size() < 2 || text.front() != '[' || text.back() != ']') return false;
  text = text.substr(1, text.size() - 2);
  std::size_t last = 0;
  bool first = true;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(','), text.size());
    const std::string_view pair = trimmed(text.substr(0, end));
    const std::size_t colon = pair.find(':');
    if (colon == std::string_view::npos || !read(pair.substr(colon + 1), number)) return false;
    if (!std::has_single_bit(number) || number > 128) return false;
    const auto value = static_cast<std::uint8_t>(number);
    if (trimmed(pair.substr(0, colon)) == ">") {
      std::fill(divisions.begin() + static_cast<std::ptrdiff_t>(last), divisions.begin() + kPowers, value);
    } else {
      std::size_t boundary = 0;
      if (!read(pair.substr(0, colon), boundary) || !std::has_single_bit(boundary)) return false;
      last = std::min<std::size_t>(static_cast<std::size_t>(std::bit_width(boundary)) - 1, kPowers - 1);
      if (first) std::fill_n(divisions.begin(), last, value);
      first = false;
      divisions[last] = value;
    }
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return true;
}

bool read_flag(std::string_view text, bool& flag) {
  flag = trimmed(text) == "True";
  return flag || trimmed(text) == "False";
}

}  // namespace

std::optional<AllocatorSettings> parse_allocator_settings(std::string_view text, std::string* problem) {
  AllocatorSettings settings;
  while (!trimmed(text).empty()) {
    std::size_t end = 0;  // a comma outside of brackets
    for (int depth = 0; end < text.size() && (text[end] != ',' || depth > 0); ++end) {
      depth += text[end] == '[' ? 1 : text[end] == ']' ? -1 : 0;
    }
    const std::string_view word = trimmed(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (word.empty()) continue;
    const std::size_t colon = word.find(':');
    const std::string_view key = trimmed(word.substr(0, colon));
    const std::string_view value =
        colon == std::string_view::npos ? std::string_view() : trimmed(word.substr(colon + 1));
    std::size_t mib = 0;
    bool good = true;
    if (key == "max_split_size_mb") {
      good = read(value, mib) && mib > 20;
      settings.max_split = mib * kMiB;
    } else if (key == "max_non_split_rounding_mb") {
      good = read(value, mib) && mib >= 20;
      settings.max_rounding = mib * kMiB;
    } else if (key == "garbage_collection_threshold") {
      good = read(value, settings.collect_from) && settings.collect_from > 0 && settings.collect_from < 1;
    } else if (key == "expandable_segments") {
      good = read_flag(value, settings.expandable);
    } else if (key == "roundup_power2_divisions") {
      good = read_divisions(value, settings.divisions);
    }
    if (good) continue;
    if (problem != nullptr) *problem = std::string(word);
    return std::nullopt;
  }
  return settings;
}

}  // namespace locus::sim
