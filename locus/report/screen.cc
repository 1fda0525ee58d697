// Characters, columns, wrapping, colors, paths and numbers; see screen.h. The table of wide characters is short on
// purpose: the blocks that terminals agree on.
#include "locus/report/screen.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>

#include "locus/engine/utf8.h"

namespace locus::report {

using engine::append_utf8;
using engine::kReplacement;
using engine::next_character;

namespace {

struct Range {
  char32_t first, last;
};

constexpr Range kWide[] = {
    {0x1100, 0x115f},   {0x231a, 0x231b},   {0x23e9, 0x23ec},   {0x25fd, 0x25fe},   {0x2614, 0x2615},
    {0x2648, 0x2653},   {0x26aa, 0x26ab},   {0x26bd, 0x26be},   {0x26c4, 0x26c5},   {0x2705, 0x2705},
    {0x270a, 0x270b},   {0x2728, 0x2728},   {0x274c, 0x274c},   {0x2753, 0x2755},   {0x2795, 0x2797},
    {0x2b50, 0x2b50},   {0x2e80, 0x303e},   {0x3041, 0x33ff},   {0x3400, 0x4dbf},   {0x4e00, 0x9fff},
    {0xa000, 0xa4cf},   {0xa960, 0xa97f},   {0xac00, 0xd7a3},   {0xf900, 0xfaff},   {0xfe30, 0xfe6f},
    {0xff00, 0xff60},   {0xffe0, 0xffe6},   {0x16fe0, 0x18cff}, {0x1b000, 0x1b2ff}, {0x1f004, 0x1f004},
    {0x1f18e, 0x1f18e}, {0x1f191, 0x1f19a}, {0x1f200, 0x1f320}, {0x1f32d, 0x1f335}, {0x1f337, 0x1f37c},
    {0x1f37e, 0x1f393}, {0x1f3a0, 0x1f3ca}, {0x1f3e0, 0x1f3f0}, {0x1f400, 0x1f43e}, {0x1f440, 0x1f440},
    {0x1f442, 0x1f4fc}, {0x1f4ff, 0x1f53d}, {0x1f54b, 0x1f567}, {0x1f5fb, 0x1f64f}, {0x1f680, 0x1f6c5},
    {0x1f6d0, 0x1f6d2}, {0x1f6eb, 0x1f6ec}, {0x1f6f4, 0x1f6fc}, {0x1f7e0, 0x1f7eb}, {0x1f90c, 0x1f9ff},
    {0x1fa70, 0x1faff}, {0x20000, 0x3fffd},
};

constexpr Range kZero[] = {
    {0x0300, 0x036f}, {0x0483, 0x0489}, {0x0591, 0x05bd}, {0x0610, 0x061a},   {0x064b, 0x065f}, {0x0900, 0x0902},
    {0x093c, 0x093c}, {0x0941, 0x0948}, {0x0e31, 0x0e31}, {0x0e34, 0x0e3a},   {0x0e47, 0x0e4e}, {0x1ab0, 0x1aff},
    {0x1dc0, 0x1dff}, {0x200b, 0x200d}, {0x20d0, 0x20ff}, {0x2060, 0x2064},   {0x302a, 0x302d}, {0x3099, 0x309a},
    {0xfe00, 0xfe0f}, {0xfe20, 0xfe2f}, {0xfeff, 0xfeff}, {0xe0100, 0xe01ef},
};

template <std::size_t kCount>
bool within(const Range (&ranges)[kCount], char32_t c) {
  const Range* above = std::upper_bound(std::begin(ranges), std::end(ranges), c,
                                        [](char32_t value, const Range& range) { return value < range.first; });
  return above != std::begin(ranges) && c <= (above - 1)->last;
}

/// Nothing that a program wrote may steer the terminal or turn the reading direction around.
char32_t harmless(char32_t c) {
  if (c < 0x20) return 0x2400 + c;
  if (c == 0x7f) return 0x2421;
  const bool steers = (c >= 0x80 && c < 0xa0) || c == 0x061c || c == 0x200e || c == 0x200f || c == 0x2028 ||
                      c == 0x2029 || (c >= 0x202a && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069);
  return steers ? kReplacement : c;
}

bool is_blank(char32_t c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

std::string_view after_marker(std::string_view path, std::string_view marker) {
  const auto at = path.rfind(marker);
  return at == path.npos ? std::string_view() : path.substr(at + marker.size());
}

/// ".../site-packages/torch/x.py" gives "torch/x.py", ".../lib/python3.11/copy.py" "copy.py"; otherwise empty.
std::string_view inside_library(std::string_view path) {
  for (const std::string_view marker : {"/site-packages/", "/dist-packages/"}) {
    if (const std::string_view rest = after_marker(path, marker); !rest.empty()) return rest;
  }
  const std::string_view rest = after_marker(path, "/lib/python3");
  const auto slash = rest.find('/');
  return slash == rest.npos ? std::string_view() : rest.substr(slash + 1);
}

}  // namespace

std::string paint(std::string_view text, Tone tone, bool color) {
  if (!color || tone == Tone::kPlain || text.empty()) return std::string(text);
  static constexpr std::array<const char*, 7> kCodes = {"", "1", "1;31", "1;33", "1;34", "32", "2"};
  return fmt::format("\x1b[{}m{}\x1b[0m", kCodes[static_cast<std::size_t>(tone)], text);
}

std::string link(std::string_view text, std::string_view uri) {
  return fmt::format("\x1b]8;;{}\x1b\\{}\x1b]8;;\x1b\\", uri, text);
}

std::string encoded_path(std::string_view path) {
  std::string out;
  for (const char c : path) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    if (letter || std::string_view("-._~/").find(c) != std::string_view::npos) {
      out += c;
    } else {
      out += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    }
  }
  return out;
}

int character_width(char32_t character) {
  if (character < 0x300) return 1;
  return within(kZero, character) ? 0 : within(kWide, character) ? 2 : 1;
}

std::vector<Cell> cells_of(std::string_view line, std::vector<std::size_t>* starts) {
  std::vector<Cell> cells;
  cells.reserve(line.size());
  for (std::size_t at = 0; at < line.size();) {
    if (starts != nullptr) starts->push_back(cells.size());
    const char32_t c = next_character(line, at);
    if (c == '\t') {
      cells.insert(cells.end(), kTabWidth, Cell{' ', 1});
    } else {
      const char32_t shown = harmless(c);
      cells.push_back({shown, character_width(shown)});
    }
  }
  return cells;
}

std::string text_of(const std::vector<Cell>& cells, std::size_t begin, std::size_t end) {
  std::string text;
  for (std::size_t i = begin; i < std::min(end, cells.size()); ++i) append_utf8(text, cells[i].character);
  return text;
}

int width_of(const std::vector<Cell>& cells, std::size_t begin, std::size_t end) {
  int width = 0;
  for (std::size_t i = begin; i < std::min(end, cells.size()); ++i) width += cells[i].width;
  return width;
}

std::string clean(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const char32_t c = next_character(text, at);
    append_utf8(out, is_blank(c) ? U' ' : harmless(c));
  }
  while (!out.empty() && out.back() == ' ') out.pop_back();
  return out;
}

int width_of(std::string_view clean_text) {
  int width = 0;
  for (std::size_t at = 0; at < clean_text.size();) width += character_width(next_character(clean_text, at));
  return width;
}

std::vector<std::string> wrap(std::string_view text, int first, int rest) {
  std::vector<std::string> lines;
  std::size_t begin = text.find_first_not_of(' ');
  if (begin == text.npos) return {std::string()};
  if (first <= 0 || rest <= 0) return {std::string(text.substr(begin))};
  while (begin < text.size()) {
    const int room = lines.empty() ? first : rest;
    std::size_t end = begin;  // of the words that fit
    int width = 0;
    for (std::size_t at = begin; at < text.size();) {
      const std::size_t word = std::min(text.find_first_not_of(' ', at), text.size());
      const std::size_t word_end = std::min(text.find(' ', word), text.size());
      width += width_of(text.substr(at, word_end - at));
      if (end != begin && width > room) break;
      at = end = word_end;
    }
    lines.emplace_back(text.substr(begin, end - begin));
    begin = std::min(text.find_first_not_of(' ', end), text.size());
  }
  return lines;
}

std::string shorten(std::string_view text, int room) {
  if (room <= 0 || width_of(text) <= room) return std::string(text);
  const std::vector<Cell> cells = cells_of(text);
  const int head_room = room / 2, tail_room = room - 1 - head_room;
  std::size_t head = 0, tail = cells.size();
  for (int used = 0; head < cells.size() && used + cells[head].width <= head_room; ++head) used += cells[head].width;
  for (int used = 0; tail > head && used + cells[tail - 1].width <= tail_room; --tail) used += cells[tail - 1].width;
  return text_of(cells, 0, head) + "…" + text_of(cells, tail);
}

std::string padded(std::string_view text, int room) {
  std::string out(text);
  out.append(static_cast<std::size_t>(std::max(0, room - width_of(text))), ' ');
  return out;
}

std::int64_t add_up(std::int64_t a, std::int64_t b) {
  std::int64_t sum = 0;
  if (!__builtin_add_overflow(a, b, &sum)) return sum;
  return a < 0 ? std::numeric_limits<std::int64_t>::min() : std::numeric_limits<std::int64_t>::max();
}

std::string grouped(std::int64_t number) {
  std::string digits = fmt::format("{}", number);
  const std::size_t sign = number < 0 ? 1 : 0;
  for (std::size_t at = digits.size(); at > sign + 3;) digits.insert(at -= 3, ",");
  return digits;
}

std::string counted(std::int64_t number, std::string_view noun) {
  return fmt::format("{} {}{}", grouped(number), noun, number == 1 ? "" : "s");
}

std::string counted_more(std::int64_t number, std::string_view noun) {
  return fmt::format("{} more {}{}", grouped(number), noun, number == 1 ? "" : "s");
}

std::string bytes_text(std::int64_t bytes) {
  if (bytes < 1024) return fmt::format("{} B", bytes);
  auto value = static_cast<double>(bytes);
  const char* unit = "";
  for (const char* next : {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"}) {
    value /= 1024;
    unit = next;
    if (value < 1023.95) break;
  }
  return fmt::format("{:.1f} {}", value, unit);
}

std::string short_path(std::string_view path, std::string_view directory) {
  if (const std::string_view inside = inside_library(path); !inside.empty()) return clean(inside);
  while (directory.size() > 1 && directory.ends_with('/')) directory.remove_suffix(1);
  const bool inside = !directory.empty() && path.size() > directory.size() + 1 && path.starts_with(directory) &&
                      path[directory.size()] == '/';
  if (inside) path.remove_prefix(directory.size() + 1);
  if (path.starts_with("./")) path.remove_prefix(2);
  return clean(path);
}

}  // namespace locus::report
