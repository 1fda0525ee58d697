// The machine: properties of its cards, sizes in words, and the sizes of the parts that it owns. It keeps no global
// instance; whoever configures it does.
#include "locus/sim/machine.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdio>
#include <stdexcept>

namespace locus::sim {

namespace {

constexpr std::size_t kGiB = std::size_t{1} << 30, kTiB = std::size_t{1} << 40;
constexpr std::size_t kMaxDeviceMemory = 16 * kTiB;
// Two ranges of this size still fit around the program in a 47-bit address space.
constexpr std::size_t kMaxArena = 40 * kTiB;
// Room for one span of each size class, and a little: with less than this a device is of no use.
constexpr std::size_t kLeastSlice = std::size_t{128} << 20;

/// Address space of one device. A chunk of just over 1 MiB takes 2 MiB of it, small ones up to a quarter more than the
/// card would count, each half of a slice serves its own sizes first, and kernels need scratch memory on top:
/// the model must always be the first to say no.
std::size_t slice_bytes(const MachineOptions& options) {
  if (options.devices == 0) return 0;
  if (options.beyond_capacity) return kMaxArena / static_cast<std::size_t>(options.devices);
  return std::min(4 * options.memory_bytes + 8 * kGiB, kMaxArena / static_cast<std::size_t>(options.devices));
}

std::uint64_t scramble(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

std::string uuid_of(int device) {
  const std::uint64_t a = scramble(2 * static_cast<std::uint64_t>(device)),
                      b = scramble(2 * static_cast<std::uint64_t>(device) + 1);
  char text[40];
  std::snprintf(text, sizeof text, "%08x-%04x-4%03x-%04x-%012llx", static_cast<unsigned>(a >> 32),
                static_cast<unsigned>(a >> 16 & 0xffff), static_cast<unsigned>(a & 0xfff),
                static_cast<unsigned>(0x8000 | (b >> 48 & 0x3fff)),
                static_cast<unsigned long long>(b & 0xffffffffffff));
  return text;
}

DeviceProperties properties_of(int device, const MachineOptions& options) {
  const Card& card = *options.card;
  DeviceProperties p;
  p.name = card.name;
  p.major = card.major;
  p.minor = card.minor;
  p.multi_processor_count = card.multiprocessors;
  p.max_threads_per_multi_processor = card.threads_per_multiprocessor;
  p.total_memory = options.memory_bytes;
  p.l2_cache_size = static_cast<std::size_t>(card.l2_mib) << 20;
  p.clock_rate_khz = 1980000;
  p.memory_clock_rate_khz = 3201000;
  p.memory_bus_width = card.bus_bits;
  p.pci_bus_id = 1 + device;
  p.uuid = uuid_of(device);
  return p;
}

/// Bytes of a unit in lower case; 0 for words that are none. "GB" is decimal and "GiB" binary, as everywhere; a
/// single letter is binary, as in most command lines.
std::uint64_t unit_bytes(std::string_view unit) {
  if (unit.empty() || unit == "b") return 1;
  constexpr std::string_view kPrefixes = "kmgt";
  const std::size_t power = kPrefixes.find(unit.front());
  if (power == std::string_view::npos) return 0;
  const std::string_view rest = unit.substr(1);
  if (rest.empty() || rest == "i" || rest == "ib") return std::uint64_t{1} << (10 * (power + 1));
  if (rest != "b") return 0;
  std::uint64_t bytes = 1;
  for (std::size_t i = 0; i <= power; ++i) bytes *= 1000;
  return bytes;
}

}  // namespace

std::optional<std::size_t> parse_bytes(std::string_view text) {
  const auto is_space = [](char c) { return c == ' ' || c == '\t'; };
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);

  // Integers only, so that "0.1GiB" is what a person would compute: whole + fraction / scale.
  std::size_t at = 0;
  unsigned __int128 whole = 0, fraction = 0, scale = 1;
  for (; at < text.size() && is_digit(text[at]); ++at) {
    whole = whole * 10 + static_cast<unsigned>(text[at] - '0');
    if (whole > kMaxDeviceMemory) return std::nullopt;
  }
  if (at == 0) return std::nullopt;
  if (at < text.size() && text[at] == '.') {
    const std::size_t point = at++;
    for (; at < text.size() && is_digit(text[at]); ++at) {
      if (scale >= 1'000'000'000'000'000) continue;  // more digits than bytes
      fraction = fraction * 10 + static_cast<unsigned>(text[at] - '0');
      scale *= 10;
    }
    if (at == point + 1) return std::nullopt;
  }
  while (at < text.size() && is_space(text[at])) ++at;
  std::string unit(text.substr(at));
  for (char& c : unit) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  const std::uint64_t each = unit_bytes(unit);
  if (each == 0 || (each == 1 && scale != 1)) return std::nullopt;  // there is no half byte
  const unsigned __int128 bytes = whole * each + fraction * each / scale;
  if (bytes == 0 || bytes > kMaxDeviceMemory) return std::nullopt;
  return static_cast<std::size_t>(bytes);
}

std::vector<int> visible_devices(std::string_view text, int devices) {
  std::vector<int> found;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(','), text.size());
    std::string_view item = text.substr(0, end);
    while (!item.empty() && item.front() == ' ') item.remove_prefix(1);
    while (!item.empty() && item.back() == ' ') item.remove_suffix(1);
    int number = -1;
    const auto [rest, error] = std::from_chars(item.data(), item.data() + item.size(), number);
    const bool is_number = error == std::errc() && rest == item.data() + item.size();
    if (!is_number || number < 0 || number >= devices) break;
    if (std::find(found.begin(), found.end(), number) != found.end()) return {};  // twice: CUDA then shows none
    found.push_back(number);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return found;
}

Machine::Machine(const MachineOptions& options) : options_(options) {
  if (options.devices < 0 || options.devices > kMaxDevices) {
    throw std::invalid_argument("a machine has 0 to " + std::to_string(kMaxDevices) + " devices, not " +
                                std::to_string(options.devices));
  }
  if (options.memory_bytes == 0 || options.memory_bytes > kMaxDeviceMemory) {
    throw std::invalid_argument("a device has at least 1 byte and at most 16 TiB of memory");
  }
  for (int d = 0; d < options.devices; ++d) {
    visible_.push_back(d);
    properties_.push_back(properties_of(d, options));
    memory_.push_back(std::make_unique<CachingModel>(d, options.memory_bytes));
  }
  arena_ = std::make_unique<Arena>(options.devices, slice_bytes(options), kLeastSlice);
  host_ = std::make_unique<HostGuard>(*arena_, options.host);
  streams_ = std::make_unique<Streams>(options.devices);
}

Machine::~Machine() = default;

}  // namespace locus::sim
