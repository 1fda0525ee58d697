// See the header. The files are small and read in one piece; whatever is missing or odd counts as "no limit".
#include "locus/sim/host_memory.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <sstream>
#include <string_view>
#include <utility>

namespace locus::sim {
namespace {

constexpr std::uint64_t kNone = ~std::uint64_t{0};
// v1 says "no limit" by the largest number of whole pages.
constexpr std::uint64_t kNoLimitV1 = std::uint64_t{1} << 60;

std::optional<std::string> read(const std::string& path) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return std::nullopt;
  std::string text;
  char buffer[4096];
  for (ssize_t count = 0; (count = ::read(file, buffer, sizeof buffer)) > 0;) {
    text.append(buffer, static_cast<std::size_t>(count));
  }
  close(file);
  return text;
}

std::optional<std::uint64_t> number_in(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end == text.data()) return std::nullopt;
  return value;
}

/// A file that is one number; "max" and whatever else is none.
std::optional<std::uint64_t> read_number(const std::string& path) {
  const auto text = read(path);
  return text.has_value() ? number_in(*text) : std::nullopt;
}

/// The number behind a name at the start of a line; 0 where it is missing.
std::optional<std::uint64_t> field(std::string_view text, std::string_view name) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = text.substr(at, end - at);
    if (line.size() > name.size() && line.substr(0, name.size()) == name) return number_in(line.substr(name.size()));
    at = end + 1;
  }
  return std::nullopt;
}

std::uint64_t less(std::uint64_t from, std::uint64_t what) { return from > what ? from - what : 0; }

/// Adds without passing over the end: "nothing known" stays that.
std::uint64_t plus(std::uint64_t a, std::uint64_t b) { return a > kNone - b ? kNone : a + b; }

bool is_folder(const std::string& path) {
  struct stat found = {};
  return stat(path.c_str(), &found) == 0 && S_ISDIR(found.st_mode);
}

/// One line of /proc/self/mountinfo: "36 35 0:30 ROOT POINT OPTIONS [TAGS …] - TYPE SOURCE SUPER-OPTIONS".
struct Mount {
  std::string root, point, type, options;
};

std::optional<Mount> mount_in(const std::string& line) {
  std::istringstream words(line);
  std::string skipped, source;
  Mount mount;
  words >> skipped >> skipped >> skipped >> mount.root >> mount.point >> skipped;
  while (words >> skipped && skipped != "-") {
  }
  if (!(words >> mount.type >> source >> mount.options)) return std::nullopt;
  return mount;
}

bool has_word(std::string_view list, std::string_view word) {
  for (std::size_t at = 0; at <= list.size();) {
    const std::size_t end = std::min(list.find(',', at), list.size());
    if (list.substr(at, end - at) == word) return true;
    at = end + 1;
  }
  return false;
}

/// The group's path below the mount's root; what lies outside of it is seen from the mount point only.
std::string below(const std::string& group, const std::string& root) {
  if (group.find("/..") != std::string::npos) return "";
  if (root == "/") return group == "/" ? "" : group;
  const bool inside =
      group.compare(0, root.size(), root) == 0 && (group.size() == root.size() || group[root.size()] == '/');
  return inside ? group.substr(root.size()) : "";
}

HostRoom unified_room(const std::string& folder, std::uint64_t swap_left) {
  HostRoom room;
  const auto most = read_number(folder + "/memory.max"), now = read_number(folder + "/memory.current");
  if (!most.has_value() || !now.has_value()) return room;
  const std::string stat = read(folder + "/memory.stat").value_or("");
  // Files that are kept in memory only because there is room make room when it is needed.
  const std::uint64_t kept = field(stat, "inactive_file ").value_or(0) + field(stat, "active_file ").value_or(0) +
                             field(stat, "slab_reclaimable ").value_or(0);
  const auto most_swap = read_number(folder + "/memory.swap.max");
  const std::uint64_t swap_now = read_number(folder + "/memory.swap.current").value_or(0);
  if (most_swap.has_value()) swap_left = std::min(swap_left, less(*most_swap, swap_now));
  room.left = plus(less(*most, less(*now, kept)), swap_left);
  room.total = *most;
  return room;
}

HostRoom classic_room(const std::string& folder, std::uint64_t swap_left) {
  HostRoom room;
  const std::string stat = read(folder + "/memory.stat").value_or("");
  const std::uint64_t kept =
      field(stat, "total_inactive_file ").value_or(0) + field(stat, "total_active_file ").value_or(0);
  const auto left_of = [&](const char* limit, const char* usage) {
    const auto most = read_number(folder + limit), now = read_number(folder + usage);
    if (!most.has_value() || !now.has_value() || *most >= kNoLimitV1) return kNone;
    room.total = std::min(room.total, *most);
    return less(*most, less(*now, kept));
  };
  const std::uint64_t memory = plus(left_of("/memory.limit_in_bytes", "/memory.usage_in_bytes"), swap_left);
  room.left = std::min(memory, left_of("/memory.memsw.limit_in_bytes", "/memory.memsw.usage_in_bytes"));
  return room;
}

}  // namespace

HostMemory::HostMemory(std::string root) : root_(std::move(root)) { find_groups(); }

void HostMemory::find_groups() {
  std::string unified, classic;  // the groups of this process, as the kernel names them
  bool has_unified = false, has_classic = false;
  std::istringstream groups(read(root_ + "/proc/self/cgroup").value_or(""));
  for (std::string line; std::getline(groups, line);) {  // "0::/a/b" and "5:memory,cpu:/a/b"
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    if (controllers.empty()) {
      unified = line.substr(second + 1);
      has_unified = true;
    } else if (has_word(controllers, "memory")) {
      classic = line.substr(second + 1);
      has_classic = true;
    }
  }
  std::istringstream mounts(read(root_ + "/proc/self/mountinfo").value_or(""));
  for (std::string line; std::getline(mounts, line);) {
    const auto mount = mount_in(line);
    if (!mount.has_value()) continue;
    const bool v2 = mount->type == "cgroup2";
    if (v2 ? !has_unified : !has_classic || mount->type != "cgroup" || !has_word(mount->options, "memory")) continue;
    const std::string top = root_ + mount->point;
    // A limit of any group above holds as well.
    for (std::string path = below(v2 ? unified : classic, mount->root);;) {
      if (is_folder(top + path)) groups_.push_back({top + path, path.empty() ? "/" : path, v2});
      if (path.empty()) break;
      path.erase(path.rfind('/'));
    }
  }
}

HostRoom HostMemory::room() const {
  HostRoom room;
  const std::string meminfo = read(root_ + "/proc/meminfo").value_or("");
  const auto kibibytes = [&](const char* name) {
    const auto value = field(meminfo, name);
    return value.has_value() ? std::optional(*value << 10) : std::nullopt;
  };
  const std::uint64_t swap_left = kibibytes("SwapFree:").value_or(0);
  if (const auto available = kibibytes("MemAvailable:")) {
    room.left = plus(*available, swap_left);
    room.total = plus(kibibytes("MemTotal:").value_or(*available), kibibytes("SwapTotal:").value_or(0));
  }
  for (const Group& group : groups_) {
    HostRoom of_group = group.unified ? unified_room(group.folder, swap_left) : classic_room(group.folder, swap_left);
    if (of_group.left >= room.left) continue;
    room = std::move(of_group);
    room.control_group = group.name;
  }
  return room;
}

AddressRoom address_room() {
  AddressRoom room;
  rlimit limit = {};
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return room;
  room.limit = limit.rlim_cur;
  const auto pages = read_number("/proc/self/statm");
  room.left = less(room.limit, pages.value_or(0) * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE)));
  return room;
}

}  // namespace locus::sim
