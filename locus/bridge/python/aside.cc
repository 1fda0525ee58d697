// See aside.h.
#include "locus/bridge/python/aside.h"

#include <pybind11/pybind11.h>

#include <exception>
#include <system_error>
#include <thread>

#include "locus/bridge/door/verdicts.h"

namespace locus::bridge {
namespace {

namespace py = pybind11;

thread_local bool t_is_aside = false;

bool python_is_ending() {
#if PY_VERSION_HEX >= 0x030D0000
  return Py_IsFinalizing() != 0;
#else
  return _Py_IsFinalizing() != 0;
#endif
}

/// Room for our own calls where the program has used up its recursion limit.
class RecursionRoom {
 public:
  RecursionRoom() : limit_(Py_GetRecursionLimit()) { Py_SetRecursionLimit(limit_ + kOurs); }
  ~RecursionRoom() { Py_SetRecursionLimit(limit_); }
  RecursionRoom(const RecursionRoom&) = delete;
  RecursionRoom& operator=(const RecursionRoom&) = delete;

 private:
  static constexpr int kOurs = 600;
  int limit_;
};

}  // namespace

void aside(const std::function<void()>& work) {
  const RecursionRoom room;  // the limit is all threads'; a program may have set a small one
  if (t_is_aside || python_is_ending()) return work();
  std::exception_ptr thrown;
  std::thread thread;
  try {
    thread = std::thread([&] {
      t_is_aside = t_reporting = true;  // what is done here is not checked
      const py::gil_scoped_acquire gil;
      try {
        work();
      } catch (...) {
        thrown = std::current_exception();
      }
    });
  } catch (const std::system_error&) {
    return work();
  }
  {
    const py::gil_scoped_release waiting;
    thread.join();
  }
  if (thrown) std::rethrow_exception(thrown);
}

}  // namespace locus::bridge
