// What the machine that Locus runs on can still give: its own memory and swap, less what control groups allow.
// Reads the kernel's files and decides nothing; host_guard.h does.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace locus::sim {

/// Memory that can still be touched before the kernel has to end a process.
struct HostRoom {
  std::uint64_t left = ~std::uint64_t{0};   ///< bytes; all ones where nothing is known
  std::uint64_t total = ~std::uint64_t{0};  ///< of so many
  std::string control_group;                ///< whose limit it is; empty: the machine's
};

class HostMemory {
 public:
  /// `root` stands before /proc and /sys; a test has a tree of its own.
  explicit HostMemory(std::string root = "");
  /// The tightest of the machine's memory and the limits of this process's control groups, with all those above them.
  HostRoom room() const;

 private:
  struct Group {
    std::string folder;  ///< in the file system
    std::string name;    ///< as the kernel calls it
    bool unified;        ///< cgroup v2; else v1's memory controller
  };
  void find_groups();

  std::string root_;
  std::vector<Group> groups_;  ///< innermost first
};

/// The limit on this process's address space (`ulimit -v`), and how much of it is left. All ones without a limit.
struct AddressRoom {
  std::uint64_t left = ~std::uint64_t{0};
  std::uint64_t limit = ~std::uint64_t{0};
};
AddressRoom address_room();

}  // namespace locus::sim
