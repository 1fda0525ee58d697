// Tests of the arena with several threads and processes: chunks released elsewhere, find() during changes, from a
// signal handler and after fork(). Ends with a print of what a call costs; that is no pass mark.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "locus/sim/arena.h"
#include "locus/sim/caching_model.h"

namespace locus::sim {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20, kGiB = std::size_t{1} << 30;

TEST(ArenaThreads, ChunksTravelBetweenThreads) {
  Arena arena(2, kGiB);
  std::mutex mutex;
  std::vector<std::pair<char*, std::size_t>> shared;
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937 random(t);
      for (int i = 0; i < 5000; ++i) {
        if (random() % 2 == 0) {
          const std::size_t bytes = 1 + random() % (random() % 20 == 0 ? 3 * kMiB : 4000);
          char* chunk = static_cast<char*>(arena.allocate(static_cast<int>(random() % 2), bytes));
          if (chunk == nullptr) continue;
          arena.set_label(chunk, bytes);
          chunk[0] = chunk[bytes - 1] = static_cast<char>(bytes);
          const std::lock_guard guard(mutex);
          shared.emplace_back(chunk, bytes);
        } else {
          std::pair<char*, std::size_t> taken{nullptr, 0};
          {
            const std::lock_guard guard(mutex);
            if (shared.empty()) continue;
            std::swap(shared[random() % shared.size()], shared.back());
            taken = shared.back();
            shared.pop_back();
          }
          const auto [chunk, bytes] = taken;
          ChunkInfo info;
          if (!arena.find(arena.device_address(chunk + bytes - 1), &info) || info.host != chunk || info.label != bytes)
            ++wrong;
          if (chunk[0] != static_cast<char>(bytes) || chunk[bytes - 1] != static_cast<char>(bytes)) ++wrong;
          arena.release(chunk);
        }
        if (random() % 1000 == 0) arena.trim();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  for (const auto& [chunk, bytes] : shared) arena.release(chunk);
}

TEST(ArenaThreads, FindDuringChanges) {
  Arena arena(1, kGiB);
  char* fixed_small = static_cast<char*>(arena.allocate(0, 3000));
  char* fixed_large = static_cast<char*>(arena.allocate(0, 5 * kMiB));
  arena.set_label(fixed_small, 1);
  arena.set_label(fixed_large, 2);
  std::atomic<bool> stop{false};
  std::atomic<int> wrong{0};
  std::atomic<char*> moving{nullptr};
  std::thread changer([&] {
    std::mt19937 random(1);
    for (int i = 0; i < 20000; ++i) {
      char* chunk = static_cast<char*>(arena.allocate(0, 1 + random() % (random() % 2 == 0 ? 5000 : 6 * kMiB)));
      arena.set_label(chunk, 77);
      moving = chunk;
      arena.release(chunk);
    }
    stop = true;
  });
  while (!stop) {
    ChunkInfo info;
    if (!arena.find(fixed_small + 2999, &info) || info.host != fixed_small || info.label != 1) ++wrong;
    if (!arena.find(fixed_large + 4 * kMiB, &info) || info.host != fixed_large || info.label != 2) ++wrong;
    char* chunk = moving;
    // It may be gone or live; if live, a label is one that was set, never a link of a free list.
    if (chunk != nullptr && arena.find(chunk, &info) && info.label != 77 && info.label != 0) ++wrong;
  }
  changer.join();
  EXPECT_EQ(wrong, 0);
}

Arena* arena_for_handler = nullptr;
volatile std::sig_atomic_t found_in_handler = 0;

TEST(ArenaThreads, FindFromASignalHandler) {
  Arena arena(1, kGiB);
  static char* chunk;
  chunk = static_cast<char*>(arena.allocate(0, 1000));
  arena_for_handler = &arena;
  struct sigaction action = {}, before = {};
  action.sa_handler = [](int) {
    ChunkInfo info;
    found_in_handler = arena_for_handler->find(chunk + 500, &info) && info.host == chunk;
  };
  sigaction(SIGUSR1, &action, &before);
  raise(SIGUSR1);
  sigaction(SIGUSR1, &before, nullptr);
  EXPECT_EQ(found_in_handler, 1);
}

TEST(ArenaThreads, AForkedChildOnlyReads) {
  Arena arena(1, kGiB);
  char* small = static_cast<char*>(arena.allocate(0, 1000));
  char* large = static_cast<char*>(arena.allocate(0, 4 * kMiB));
  std::memset(large, 5, 4 * kMiB);
  arena.set_label(small, 9);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    arena.abandon();
    ChunkInfo info;
    bool good = arena.find(small + 10, &info) && info.label == 9 && arena.label(small) == 9;
    arena.release(small);
    arena.release(large);
    arena.trim();
    good = good && arena.find(small, nullptr) && arena.find(large, nullptr) && large[3 * kMiB] == 5;
    good = good && arena.allocate(0, 512) == nullptr && arena.allocate(0, 4 * kMiB) == nullptr;
    _exit(good ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  EXPECT_TRUE(arena.find(small, nullptr)) << "the parent keeps its own";
  EXPECT_EQ(large[4 * kMiB - 1], 5);
  arena.release(small);
  EXPECT_EQ(arena.allocate(0, 1000), small);
}

// fork() while other threads hold the arena's locks: the child must not wait for them.
TEST(ArenaThreads, ForkInTheMiddleOfThings) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "the thread sanitizer does not follow a fork of several threads";
#endif
  Arena arena(1, kGiB);
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < 2; ++t) {
    threads.emplace_back([&arena, &stop, t] {
      while (!stop) arena.release(arena.allocate(0, t == 0 ? 512 : 3 * kMiB));
    });
  }
  for (int i = 0; i < 20; ++i) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      alarm(20);  // a child that hangs is killed, and the test fails
      arena.abandon();
      void* nothing = arena.allocate(0, 512);
      arena.release(nothing);
      arena.trim();
      _exit(nothing == nullptr ? 0 : 1);
    }
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
}

template <class F>
void time_it(const char* what, int calls, F call) {
  double best = 1e9;
  for (int round = 0; round < 3; ++round) {
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < calls; ++i) call(i);
    best = std::min(best,
                    std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - start).count() / calls);
  }
  std::printf("    %-52s %8.1f ns\n", what, best);
}

TEST(Timing, IsPrinted) {
  Arena arena(1, 16 * kGiB);
  CachingModel model(0, 16 * kGiB);
  time_it("arena: allocate and release 512 bytes", 200000, [&](int) { arena.release(arena.allocate(0, 512)); });
  time_it("arena: allocate and release 100 KB", 200000, [&](int) { arena.release(arena.allocate(0, 100'000)); });
  time_it("arena: allocate and release 64 MiB", 50000, [&](int) { arena.release(arena.allocate(0, 64 * kMiB)); });
  const char* chunk = static_cast<const char*>(arena.allocate(0, 100'000));
  ChunkInfo info;
  time_it("arena: find", 200000, [&](int i) { arena.find(chunk + (i & 0xffff), &info); });
  time_it("model: allocate and free 512 bytes", 200000, [&](int) { model.free(model.allocate(512, 0, nullptr)); });
  time_it("model: allocate and free 30 MiB", 50000, [&](int) { model.free(model.allocate(30 * kMiB, 0, nullptr)); });
}

}  // namespace
}  // namespace locus::sim
