// A stray host read of device memory ends the program by SIGSEGV, as it would with a real card. Before
// that, this handler says which tensor it was and where it was made. Only async-signal-safe calls.
#include <Python.h>
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "locus/bridge/origins.h"
#include "locus/bridge/state.h"

namespace locus::bridge {
namespace {

struct sigaction g_previous;

/// Gives Python's and C's buffered output a last chance. Not safe in general; the process dies next in any case,
/// and the default action is back in force should this fault too.
void flush_output() {
  std::fflush(nullptr);
  if (PyGILState_Check() == 0) return;
  for (const char* name : {"stdout", "stderr"}) {
    PyObject* stream = PySys_GetObject(name);
    if (stream == nullptr) continue;
    PyObject* done = PyObject_CallMethod(stream, "flush", nullptr);
    Py_XDECREF(done);
    PyErr_Clear();
  }
}

void explain(const void* address) {
  char text[1024];
  sim::ChunkInfo chunk;
  const int device = machine().arena().device_of(address);
  int length = 0;
  if (machine().arena().find(address, &chunk)) {
    const engine::Origin& origin = origins().at(origin_in(chunk.label));
    const Place place = place_of(origin.site);
    const char* op = operator_name(origin.op);
    if (std::strncmp(op, "aten::", 6) == 0) op += 6;
    char by[128] = "";  // memory taken by itself says nothing of what the program called
    if (*op != 0 && std::strncmp(op, "empty", 5) != 0) std::snprintf(by, sizeof by, " by %s()", op);
    length =
        std::snprintf(text, sizeof text,
                      "locus: host code followed a pointer into device memory: %p is in the %zu bytes of a tensor on "
                      "cuda:%d, made%s at %s:%d in %s.\n",
                      address, bytes_in(chunk.label), device, by, place.file != nullptr ? place.file : "<unknown>",
                      place.line, place.function != nullptr ? place.function : "?");
  } else {
    length =
        std::snprintf(text, sizeof text,
                      "locus: host code followed a pointer into device memory: %p is an address of cuda:%d that no "
                      "live tensor uses (freed already?).\n",
                      address, device);
  }
  const auto write_all = [](const char* data, int size) {
    if (size > 0 && write(STDERR_FILENO, data, static_cast<size_t>(size)) < 0) return;
  };
  write_all(text, length < static_cast<int>(sizeof text) ? length : static_cast<int>(sizeof text) - 1);
  static constexpr char kWayOut[] =
      "locus: on a real GPU this is a segmentation fault too. Copy the tensor first: tensor.cpu().\n";
  write_all(kWayOut, static_cast<int>(sizeof kWayOut) - 1);
}

void on_fault(int signal, siginfo_t* info, void* context) {
  if (simulating() && machine().arena().is_device(info->si_addr)) {
    struct sigaction standard = {};
    standard.sa_handler = SIG_DFL;
    sigaction(SIGSEGV, &standard, nullptr);
    flush_output();
    explain(info->si_addr);
    return;  // the instruction runs again and ends the process
  }
  // Somebody else's fault: whoever was there before handles it, when the instruction runs again.
  sigaction(SIGSEGV, &g_previous, nullptr);
  (void)signal;
  (void)context;
}

}  // namespace

void install_fault_handler() {
  struct sigaction action = {};
  action.sa_sigaction = &on_fault;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
  sigemptyset(&action.sa_mask);
  sigaction(SIGSEGV, &action, &g_previous);
}

}  // namespace locus::bridge
