// Counts the instructions that threads of another process execute, one by one: for machines whose processor counts none
// for us (virtual machines), and where what is counted is faster than a thousandth of the time it takes to count it.
//
//   single_step        reads lines of thread numbers; for each line: stops those threads, prints "go", lets them run
//                      instruction by instruction until the first one sends itself SIGUSR2, and prints how many that
//                      were
//
// The process is not told of the signal. Threads that it starts meanwhile are not counted. Used by
// bench/instructions.py.
#include <sys/ptrace.h>
#include <sys/wait.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iostream>
#include <map>
#include <sstream>
#include <string>

namespace {

[[noreturn]] void fail(const char* what) {
  std::fprintf(stderr, "single_step: %s: %s\n", what, std::strerror(errno));
  std::exit(1);
}

int wait_for(pid_t thread) {
  int status = 0;
  if (waitpid(thread, &status, __WALL) < 0) fail("waitpid");
  return status;
}

void step(pid_t thread, int signal) {
  if (ptrace(PTRACE_SINGLESTEP, thread, 0, signal) != 0) fail("PTRACE_SINGLESTEP");
}

/// What a stopped thread was to get: 0 for stops that are our own.
int signal_of(int status) {
  const bool ours = (status >> 16) != 0 || WSTOPSIG(status) == SIGTRAP;
  return ours ? 0 : WSTOPSIG(status);
}

void stop(pid_t thread) {
  if (ptrace(PTRACE_INTERRUPT, thread, 0, 0) != 0) fail("PTRACE_INTERRUPT");
  wait_for(thread);
}

/// Whether the trap of its last step is still to come: who leaves a call of the kernel gets it as a signal.
bool has_trap_ahead(pid_t thread) {
  std::ifstream file("/proc/" + std::to_string(thread) + "/status");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("SigPnd:")) return (std::stoull(line.substr(7), nullptr, 16) >> (SIGTRAP - 1) & 1) != 0;
  }
  return false;
}

/// Lets it go, without a trap that nobody would take.
void leave(pid_t thread) {
  while (has_trap_ahead(thread)) {
    if (ptrace(PTRACE_CONT, thread, 0, 0) != 0) fail("PTRACE_CONT");
    wait_for(thread);
  }
  if (ptrace(PTRACE_DETACH, thread, 0, 0) != 0) fail("PTRACE_DETACH");
}

std::map<pid_t, long> count(const std::map<pid_t, long>& threads, pid_t first) {
  std::map<pid_t, long> counts = threads;
  for (const auto& [thread, none] : threads) {
    if (ptrace(PTRACE_SEIZE, thread, 0, 0) != 0) fail("PTRACE_SEIZE");
    stop(thread);
  }
  std::cout << "go" << std::endl;
  for (const auto& [thread, none] : threads) step(thread, 0);
  for (;;) {
    int status = 0;
    const pid_t thread = waitpid(-1, &status, __WALL);
    if (thread < 0) fail("waitpid");
    if (!WIFSTOPPED(status)) {
      errno = ESRCH;
      fail("a thread has ended");
    }
    const int signal = signal_of(status);
    if (thread == first && signal == SIGUSR2) break;
    if (signal == 0) ++counts[thread];
    step(thread, signal);
  }
  for (const auto& [thread, none] : threads) {
    if (thread != first) stop(thread);
    leave(thread);
  }
  return counts;
}

}  // namespace

int main() {
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream words(line);
    std::map<pid_t, long> threads;
    pid_t first = 0;
    for (pid_t thread; words >> thread;) {
      if (first == 0) first = thread;
      threads[thread] = 0;
    }
    long all = 0;
    for (const auto& [thread, counted] : count(threads, first)) all += counted;
    std::cout << all << std::endl;
  }
}
