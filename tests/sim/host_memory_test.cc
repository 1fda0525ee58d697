// Tests of what the host can still give: the kernel's files in a tree of the test's own, small address spaces in child
// processes, and the guard that asks before memory is filled.
#include "locus/sim/host_memory.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>

#include "locus/sim/host_guard.h"
#include "locus/sim/machine.h"
#include "locus/sim/reservation.h"

namespace locus::sim {
namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20, kGiB = std::uint64_t{1} << 30;

/// /proc and /sys of another machine.
class Tree {
 public:
  Tree() : root_(std::filesystem::path(testing::TempDir()) / ("host" + std::to_string(getpid()))) {
    std::filesystem::remove_all(root_);
    machine(16 * kGiB, 8 * kGiB);
  }
  ~Tree() { std::filesystem::remove_all(root_); }
  Tree& file(const std::string& path, const std::string& text) {
    std::filesystem::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text;
    return *this;
  }
  Tree& machine(std::uint64_t total, std::uint64_t available, std::uint64_t swap_free = 0) {
    const auto line = [](const char* name, std::uint64_t bytes) {
      return std::string(name) + "       " + std::to_string(bytes >> 10) + " kB\n";
    };
    return file("proc/meminfo", line("MemTotal:", total) + line("MemFree:", available / 2) +
                                    line("MemAvailable:", available) + line("SwapTotal:", swap_free) +
                                    line("SwapFree:", swap_free));
  }
  Tree& unified(const std::string& group, const std::string& root = "/") {
    file("proc/self/cgroup", "0::" + group + "\n");
    return file("proc/self/mountinfo",
                "21 1 8:1 / / rw - ext4 /dev/sda rw\n"
                "30 21 0:26 " +
                    root + " /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n");
  }
  Tree& limit(const std::string& group, const std::string& most, std::uint64_t now, std::uint64_t cached = 0) {
    const std::string folder = "sys/fs/cgroup" + group;
    file(folder + "/memory.max", most + "\n");
    file(folder + "/memory.current", std::to_string(now) + "\n");
    return file(folder + "/memory.stat",
                "anon 1\nfile 7\ninactive_file " + std::to_string(cached) + "\nactive_file 0\n");
  }
  HostRoom room() const { return HostMemory(root_.string()).room(); }
  std::string path() const { return root_.string(); }

 private:
  std::filesystem::path root_;
};

TEST(HostMemory, OfTheMachineWithItsSwap) {
  Tree tree;
  EXPECT_EQ(tree.room().left, 8 * kGiB);
  EXPECT_EQ(tree.room().total, 16 * kGiB);
  EXPECT_EQ(tree.machine(16 * kGiB, 8 * kGiB, 2 * kGiB).room().left, 10 * kGiB);
  EXPECT_EQ(tree.room().control_group, "");
}

TEST(HostMemory, NothingKnownIsNoLimit) {
  EXPECT_EQ(HostMemory("/nonexistent").room().left, ~std::uint64_t{0});
  EXPECT_GT(HostMemory().room().left, 0u) << "this machine's own files";
}

TEST(HostMemory, AControlGroupCounts) {
  Tree tree;
  tree.unified("/user/job").limit("/user/job", std::to_string(3 * kGiB), kGiB);
  EXPECT_EQ(tree.room().left, 2 * kGiB);
  EXPECT_EQ(tree.room().total, 3 * kGiB);
  EXPECT_EQ(tree.room().control_group, "/user/job");
  tree.limit("/user/job", std::to_string(3 * kGiB), 2 * kGiB, kGiB);
  EXPECT_EQ(tree.room().left, 2 * kGiB) << "cached files make room";
  tree.limit("/user/job", "max", kGiB);
  EXPECT_EQ(tree.room().left, 8 * kGiB) << "no limit";
}

TEST(HostMemory, TheTightestGroupAboveCounts) {
  Tree tree;
  tree.unified("/a/b/c").limit("/a/b/c", std::to_string(4 * kGiB), 0).limit("/a/b", "max", 0);
  tree.limit("/a", std::to_string(6 * kGiB), 5 * kGiB);
  EXPECT_EQ(tree.room().left, kGiB);
  EXPECT_EQ(tree.room().control_group, "/a");
}

TEST(HostMemory, SwapOfAGroupIsLimitedToo) {
  Tree tree;
  tree.machine(16 * kGiB, 8 * kGiB, 4 * kGiB).unified("/j").limit("/j", std::to_string(2 * kGiB), kGiB);
  EXPECT_EQ(tree.room().left, 5 * kGiB);
  tree.file("sys/fs/cgroup/j/memory.swap.max", "1073741824\n").file("sys/fs/cgroup/j/memory.swap.current", "0\n");
  EXPECT_EQ(tree.room().left, 2 * kGiB);
}

TEST(HostMemory, InsideAContainerTheMountIsTheGroup) {
  Tree tree;
  tree.unified("/", "/").limit("", std::to_string(kGiB), 0);
  EXPECT_EQ(tree.room().left, kGiB) << "a namespace of its own";
  Tree other;
  other.unified("/docker/abc", "/docker/abc").limit("", std::to_string(kGiB), 256 * kMiB);
  EXPECT_EQ(other.room().left, 768 * kMiB) << "the host's name, but mounted from there";
  Tree outside;
  outside.unified("/../other", "/").limit("", std::to_string(kGiB), 0);
  EXPECT_EQ(outside.room().left, kGiB);
}

TEST(HostMemory, TheOldKindOfGroups) {
  Tree tree;
  tree.file("proc/self/cgroup", "7:cpu,cpuacct:/x\n5:memory:/job\n0::/x\n");
  tree.file("proc/self/mountinfo",
            "30 21 0:26 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n"
            "31 21 0:27 / /sys/fs/cgroup/memory rw shared:9 - cgroup cgroup rw,memory\n");
  const std::string folder = "sys/fs/cgroup/memory/job/memory.";
  tree.file(folder + "limit_in_bytes", "2147483648\n").file(folder + "usage_in_bytes", "1073741824\n");
  tree.file(folder + "stat", "cache 5\ntotal_inactive_file 536870912\ntotal_active_file 0\n");
  EXPECT_EQ(tree.room().left, 1536 * kMiB);
  tree.file(folder + "limit_in_bytes", "9223372036854771712\n");
  EXPECT_EQ(tree.room().left, 8 * kGiB) << "the largest number is no limit";
  tree.file(folder + "memsw.limit_in_bytes", "1610612736\n").file(folder + "memsw.usage_in_bytes", "1073741824\n");
  EXPECT_EQ(tree.room().left, kGiB) << "memory and swap together";
}

// ---- the guard ----

TEST(HostGuard, MemoryThatNobodyFillsIsFree) {
  Tree tree;
  Arena arena(1, 160 * kGiB);
  HostGuard guard(arena, {}, HostMemory(tree.path()));
  void* big = arena.allocate(0, 40 * kGiB);
  EXPECT_FALSE(guard.admit(big, 40 * kGiB, false).has_value());
  EXPECT_TRUE(guard.tight());
  const auto shortage = guard.may_fill(big, 40 * kGiB);
  ASSERT_TRUE(shortage.has_value());
  EXPECT_EQ(shortage->asked, 40 * kGiB);
  EXPECT_FALSE(guard.may_fill(big, kGiB).has_value()) << "a part of it fits";
}

TEST(HostGuard, RefusesWhatAKernelWouldFill) {
  Tree tree;
  tree.machine(2 * kGiB, 512 * kMiB);
  Arena arena(1, 8 * kGiB);
  HostGuard guard(arena, {}, HostMemory(tree.path()));
  void* small = arena.allocate(0, 100 * kMiB);
  EXPECT_FALSE(guard.admit(small, 100 * kMiB, true).has_value());
  EXPECT_FALSE(guard.tight());
  void* large = arena.allocate(0, 500 * kMiB);  // 512 are there, of which 64 are kept
  const auto shortage = guard.admit(large, 500 * kMiB, true);
  ASSERT_TRUE(shortage.has_value());
  const std::string words = host_shortage_message(1, *shortage);
  for (const char* part : {"not the simulated card", "cuda:1", "500.00 MiB more", "512.00 MiB left of 2.00 GiB",
                           "64.00 MiB of it kept free", "LOCUS_HOST_MEMORY=off"}) {
    EXPECT_NE(words.find(part), std::string::npos) << part << " in " << words;
  }
  EXPECT_EQ(words.find("CUDA out of memory"), std::string::npos) << "programs look for these words";
}

TEST(HostGuard, MemoryInUseAlreadyNeedsNoMore) {
  Tree tree;
  tree.machine(2 * kGiB, kGiB);
  Arena arena(1, 8 * kGiB);
  HostGuard guard(arena, {}, HostMemory(tree.path()));
  void* chunk = arena.allocate(0, 64 * kMiB);
  std::memset(chunk, 1, 64 * kMiB);
  tree.machine(2 * kGiB, 0);
  void* next = arena.allocate(0, 200 * kMiB);
  EXPECT_TRUE(guard.admit(next, 200 * kMiB, true).has_value());
  EXPECT_FALSE(guard.may_fill(chunk, 64 * kMiB).has_value());
}

TEST(HostGuard, ABudgetOfItsOwn) {
  Tree tree;
  Arena arena(1, 8 * kGiB);
  HostGuard guard(arena, {true, 100 * kMiB}, HostMemory(tree.path()));
  void* chunk = arena.allocate(0, 64 * kMiB);
  EXPECT_FALSE(guard.admit(chunk, 64 * kMiB, true).has_value());
  std::memset(chunk, 1, 64 * kMiB);
  const auto shortage = guard.admit(arena.allocate(0, 64 * kMiB), 64 * kMiB, true);
  ASSERT_TRUE(shortage.has_value());
  EXPECT_NE(host_shortage_message(0, *shortage).find("LOCUS_HOST_MEMORY leaves 36.00 MiB of 100.00 MiB"),
            std::string::npos);
  HostGuard off(arena, {false, {}}, HostMemory(tree.path()));
  tree.machine(2 * kGiB, 0);
  EXPECT_FALSE(off.admit(chunk, 64 * kMiB, true).has_value());
}

// ---- small address spaces ----

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // their own memory takes terabytes of it

/// Runs `body` in a child that may have so much more of a resource than it has now; its exit code.
int with_limit(__rlimit_resource resource, std::uint64_t more, const std::function<int()>& body) {
  const pid_t child = fork();
  if (child == 0) {
    std::uint64_t pages = 0, skip = 0, data = 0;
    std::ifstream("/proc/self/statm") >> pages >> skip >> skip >> skip >> skip >> data;
    if (resource == RLIMIT_DATA) pages = data;
    const rlim_t most = pages * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE)) + more;
    const rlimit limit{most, most};
    setrlimit(resource, &limit);
    _exit(body());
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

TEST(SmallAddressSpace, TakesWhatThereIs) {
  const int code = with_limit(RLIMIT_AS, 4 * kGiB, [] {
    Machine machine({2, 80 * kGiB});
    const std::size_t each = machine.arena().bytes_per_device();
    if (each < 300 * kMiB || each > 600 * kMiB) return 1;
    for (int device = 0; device < 2; ++device) {
      void* chunk = machine.arena().allocate(device, 100 * kMiB);
      if (chunk == nullptr) return 2;
      std::memset(chunk, 1, 100 * kMiB);
    }
    auto why = Arena::Refusal::kSystem;
    if (machine.arena().allocate(0, kGiB, &why) != nullptr || why != Arena::Refusal::kFull) return 3;
    const std::string words = no_chunk_message(0, kGiB, machine.arena(), why);
    if (words.find("address space") == std::string::npos || words.find("ulimit -v") == std::string::npos) return 4;
    return std::malloc(256 * kMiB) != nullptr ? 0 : 5;  // the rest of the process has room as well
  });
  EXPECT_EQ(code, 0);
}

TEST(SmallAddressSpace, TooSmallIsSaid) {
  const int code = with_limit(RLIMIT_AS, kGiB, [] {
    try {
      Machine machine({8, 80 * kGiB});
    } catch (const NoAddressSpace& error) {
      const std::string words = error.what();
      for (const char* part : {"8 simulated devices need at least", "ulimit -v", "--devices"}) {
        if (words.find(part) == std::string::npos) return 2;
      }
      return 0;
    }
    return 1;
  });
  EXPECT_EQ(code, 0);
}

TEST(SmallAddressSpace, MemoryIsUsableAsFarAsTheSystemLets) {
  const int code = with_limit(RLIMIT_DATA, 600 * kMiB, [] {
    Machine machine({1, 80 * kGiB});
    auto why = Arena::Refusal::kFull;
    if (machine.arena().allocate(0, 200 * kMiB, &why) == nullptr) return 1;
    if (machine.arena().allocate(0, kGiB, &why) != nullptr || why != Arena::Refusal::kSystem) return 2;
    if (no_chunk_message(0, kGiB, machine.arena(), why).find("ulimit -d") == std::string::npos) return 3;
    return machine.arena().allocate(0, 100 * kMiB, &why) != nullptr ? 0 : 4;  // what was refused is still there
  });
  EXPECT_EQ(code, 0);
}

#endif

}  // namespace
}  // namespace locus::sim
