// See shared_counters.h.
#include "locus/bridge/python/shared_counters.h"

#include <pthread.h>
#include <signal.h>

#include "locus/bridge/door/passage.h"
#include "locus/bridge/door/watch.h"

namespace locus::bridge {
namespace {

/// What ends a process unless somebody handles it. SIGSEGV has a handler of its own, SIGINT and SIGTERM have Python's.
constexpr int kFatal[] = {SIGABRT, SIGBUS,    SIGFPE,  SIGILL,  SIGTRAP, SIGSYS,  SIGHUP, SIGQUIT,
                          SIGALRM, SIGVTALRM, SIGPROF, SIGXCPU, SIGIO,   SIGUSR1, SIGUSR2};

/// Ends the process as it would have ended, after a note.
void on_fatal(int number) {
  note_fatal_signal(number);
  struct sigaction standard = {};
  standard.sa_handler = SIG_DFL;
  sigaction(number, &standard, nullptr);
  sigset_t only;
  sigemptyset(&only);
  sigaddset(&only, number);
  raise(number);
  pthread_sigmask(SIG_UNBLOCK, &only, nullptr);
}

void watch_signals() {
  for (const int number : kFatal) {
    struct sigaction before = {};
    if (sigaction(number, nullptr, &before) != 0) continue;
    if ((before.sa_flags & SA_SIGINFO) != 0 || before.sa_handler != SIG_DFL) continue;  // the program's, or ignored
    struct sigaction ours = {};
    ours.sa_handler = &on_fatal;
    ours.sa_flags = SA_ONSTACK;
    sigemptyset(&ours.sa_mask);
    sigaction(number, &ours, nullptr);
  }
}

/// The same page; a fork, too, tells its parent of a fault.
std::atomic<SharedCounters*> g_hears_of_faults{nullptr};

}  // namespace

std::atomic<SharedCounters*> g_shared{nullptr};
std::atomic<bool> g_device_used{false};

void share_counters(SharedCounters* place) {
  // A forked child has the page too, and is not the program.
  static const int once = pthread_atfork(nullptr, nullptr, [] { g_shared.store(nullptr); });
  (void)once;
  g_shared.store(place), g_hears_of_faults.store(place);
  if (place == nullptr) return;
  publish_counters();
  watch_signals();
}

void publish_counters() {
  SharedCounters* place = g_shared.load(std::memory_order_relaxed);
  if (place == nullptr) return;
  place->steps.store(static_cast<uint64_t>(g_steps.load(std::memory_order_relaxed)), std::memory_order_relaxed);
  place->calls.store(g_calls.load(std::memory_order_relaxed), std::memory_order_relaxed);
  place->on_device.store(g_device_used.load(std::memory_order_relaxed) ? 1 : 0, std::memory_order_relaxed);
}

void publish_fault() noexcept {
  if (SharedCounters* place = g_hears_of_faults.load(std::memory_order_relaxed)) {
    place->faulty.store(1, std::memory_order_relaxed);
  }
}

void note_fatal_signal(int number) noexcept {
  publish_counters();
  if (SharedCounters* place = g_shared.load(std::memory_order_relaxed)) {
    place->signal.store(static_cast<uint64_t>(number), std::memory_order_relaxed);
  }
}

}  // namespace locus::bridge
