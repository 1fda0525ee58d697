// A stray host read of device memory ends the program by SIGSEGV, as it would with a real card. Before that, this
// handler says which tensor it was and where it was made. The fault may come anywhere, also while a thread holds the
// lock of the heap, of a stream or of the interpreter. So what is looked up lies in tables that are read without a
// lock, the words are put together by hand, and the calls are those that POSIX allows in a handler.
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>

#include "locus/bridge/door/origins.h"
#include "locus/bridge/python/shared_counters.h"
#include "locus/bridge/state.h"
#include "locus/bridge/streams/pinned.h"

namespace locus::bridge {
namespace {

struct sigaction g_previous;
std::atomic<pid_t> g_speaker{0};  ///< the thread whose fault is being seen to

/// A line of text, cut off where there is no more room for it.
class Line {
 public:
  Line& operator<<(const char* text) {
    while (*text != 0 && size_ < sizeof text_) text_[size_++] = *text++;
    return *this;
  }
  Line& operator<<(std::uint64_t number) { return digits(number, 10); }
  Line& operator<<(const void* address) {
    return (*this << "0x").digits(reinterpret_cast<std::uintptr_t>(address), 16);
  }

  /// To standard error. Who does not read it does not hold up the end: a pipe is written to where it has room.
  void write_out() const {
    constexpr int kPatience = 2000;  // milliseconds
    for (std::size_t done = 0; done < size_;) {
      pollfd where = {STDERR_FILENO, POLLOUT, 0};
      if (poll(&where, 1, kPatience) <= 0) return;
      const ssize_t written = write(STDERR_FILENO, text_ + done, size_ - done);
      if (written < 0 && errno != EINTR) return;
      if (written > 0) done += static_cast<std::size_t>(written);
    }
  }

 private:
  Line& digits(std::uint64_t number, unsigned base) {
    char reversed[24];
    int count = 0;
    do {
      reversed[count++] = "0123456789abcdef"[number % base];
      number /= base;
    } while (number != 0);
    while (count > 0 && size_ < sizeof text_) text_[size_++] = reversed[--count];
    return *this;
  }

  char text_[1024];  // less than what a pipe takes in one piece
  std::size_t size_ = 0;
};

void explain(const void* address) {
  Line line;
  sim::ChunkInfo chunk;
  const auto device = static_cast<std::uint64_t>(machine().arena().device_of(address));
  line << "locus: host code followed a pointer into device memory: " << address;
  if (machine().arena().find(address, &chunk)) {
    const engine::Origin& origin = origins().at(origin_in(chunk.label));
    const Place place = place_of(origin.site);
    const char* op = operator_name(origin.op);
    if (std::strncmp(op, "aten::", 6) == 0) op += 6;
    line << " is in the " << std::uint64_t{bytes_in(chunk.label)} << " bytes of a tensor on cuda:" << device
         << ", made";
    // Memory taken by itself says nothing of what the program called.
    if (*op != 0 && std::strncmp(op, "empty", 5) != 0) line << " by " << op << "()";
    line << " at " << (place.file != nullptr ? place.file : "<unknown>") << ":"
         << static_cast<std::uint64_t>(place.line > 0 ? place.line : 0) << " in "
         << (place.function != nullptr ? place.function : "?") << ".\n";
  } else {
    line << " is an address of cuda:" << device << " that no live tensor uses (freed already?).\n";
  }
  line.write_out();
  Line way_out;
  way_out << "locus: on a real GPU this is a segmentation fault too. Copy the tensor first: tensor.cpu().\n";
  way_out.write_out();
}

/// Ends the process as if nobody handled the signal: at once where it was sent, else when the instruction runs again.
void end_by(int signal, const siginfo_t* info) {
  struct sigaction standard = {};
  standard.sa_handler = SIG_DFL;
  sigaction(signal, &standard, nullptr);
  if (info->si_code <= 0) raise(signal);
}

/// Whoever was there before.
void pass_on(int signal, siginfo_t* info, void* context) {
  if ((g_previous.sa_flags & SA_SIGINFO) != 0) return g_previous.sa_sigaction(signal, info, context);
  if (g_previous.sa_handler == SIG_IGN && info->si_code <= 0) return;
  if (g_previous.sa_handler == SIG_DFL || g_previous.sa_handler == SIG_IGN) return end_by(signal, info);
  g_previous.sa_handler(signal);
}

/// Whether the access that faulted was a write; where the machine does not say, it was a read.
bool is_write([[maybe_unused]] const void* context) {
#ifdef __x86_64__
  return (static_cast<const ucontext_t*>(context)->uc_mcontext.gregs[REG_ERR] & 2) != 0;
#else
  return false;
#endif
}

void on_fault(int signal, siginfo_t* info, void* context) {
  const bool ours = info->si_code > 0 && simulating() && machine().arena().is_device(info->si_addr);
  if (info->si_code == SEGV_ACCERR && simulating() && !ours && open_pinned(info->si_addr, is_write(context))) return;
  note_fatal_signal(signal);
  const int error = errno;
  const auto self = static_cast<pid_t>(syscall(SYS_gettid));
  pid_t speaker = 0;
  if (!g_speaker.compare_exchange_strong(speaker, self)) {
    // A fault in what follows here, or a handler that hands the signal on to us in turn: that is the end. Another
    // thread's fault is the end too, once that thread has had time to speak.
    if (speaker != self) poll(nullptr, 0, 5000);
    return end_by(signal, info);
  }
  if (ours) explain(info->si_addr);
  pass_on(signal, info, context);
  if (ours) return end_by(signal, info);  // nobody can make this address readable
  g_speaker.store(0);                     // somebody before us may know how to go on
  errno = error;
}

bool is_ours(const struct sigaction& action) {
  return (action.sa_flags & SA_SIGINFO) != 0 && action.sa_sigaction == &on_fault;
}

}  // namespace

void install_fault_handler(bool on) {
  struct sigaction now = {};
  sigaction(SIGSEGV, nullptr, &now);
  if (is_ours(now) == on) return;
  if (!on) {
    sigaction(SIGSEGV, &g_previous, nullptr);
    return;
  }
  struct sigaction action = {};
  action.sa_sigaction = &on_fault;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
  sigemptyset(&action.sa_mask);
  g_previous = now;
  sigaction(SIGSEGV, &action, nullptr);
}

}  // namespace locus::bridge
