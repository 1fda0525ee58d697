// Text as it appears on a screen: harmless characters, columns, wrapping, colors, short paths and short numbers.
// Knows nothing of findings.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace locus::report {

/// What a piece of text is, for the palette.
enum class Tone : std::uint8_t { kPlain, kBold, kError, kWarning, kGutter, kGood, kDim };

/// The text in the color of its tone, or as it is when colors are off.
std::string paint(std::string_view text, Tone tone, bool color);

/// The text as a link (OSC 8), for terminals that know them; others show the text.
std::string link(std::string_view text, std::string_view uri);

/// The path part of a URI: everything but letters, digits, "-._~" and slashes is encoded.
std::string encoded_path(std::string_view path);

/// One character with its place on the screen.
struct Cell {
  char32_t character;
  int width;
};

/// Columns a character takes: 0 (combining), 1 or 2 (East Asian wide, emoji).
int character_width(char32_t character);

/// A tab is this many columns, wherever it stands.
constexpr int kTabWidth = 4;

/// The characters of a source line, one or more cells for each: tabs become spaces, control characters pictures,
/// what is not UTF-8 U+FFFD. `starts[i]` is the cell at which character i of the line begins.
std::vector<Cell> cells_of(std::string_view line, std::vector<std::size_t>* starts = nullptr);

std::string text_of(const std::vector<Cell>& cells, std::size_t begin = 0, std::size_t end = std::string::npos);
int width_of(const std::vector<Cell>& cells, std::size_t begin = 0, std::size_t end = std::string::npos);

/// Words made harmless: one line, no control characters, valid UTF-8.
std::string clean(std::string_view text);

/// Columns that clean text takes.
int width_of(std::string_view clean_text);

/// Clean text broken at spaces: the first line has room for `first` columns, the others for `rest`. Longer words
/// stay whole. Always gives at least one line. Negative or zero room: nothing is broken.
std::vector<std::string> wrap(std::string_view clean_text, int first, int rest);

/// At most `room` columns, the middle replaced by an ellipsis. No limit when `room` is zero or less.
std::string shorten(std::string_view clean_text, int room);

/// Padded with spaces on the right to `room` columns.
std::string padded(std::string_view clean_text, int room);

/// A sum without overflow: a report may say anything.
std::int64_t add_up(std::int64_t a, std::int64_t b);

/// "1,204".
std::string grouped(std::int64_t number);

/// "1 step", "12 steps", "1,204 ops".
std::string counted(std::int64_t number, std::string_view noun);

/// "512 B", "1.2 MiB".
std::string bytes_text(std::int64_t bytes);

/// "194 more operands".
std::string counted_more(std::int64_t number, std::string_view noun);

/// A path as a person calls it: without the folders in front of an installed library, relative to `directory` when
/// inside it.
std::string short_path(std::string_view path, std::string_view directory);

}  // namespace locus::report
