// See courier.h. The thread starts with the first job; a fork leaves it behind, and the child's first job starts
// another. Never freed: a job may come to the very end.
#include "locus/bridge/python/courier.h"

#include <Python.h>
#include <pybind11/pybind11.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>

#include "locus/bridge/door/verdicts.h"

namespace locus::bridge {
namespace {

namespace py = pybind11;

constexpr std::chrono::milliseconds kPatience{1000};  // explaining a finding takes some 20
constexpr std::chrono::milliseconds kNoPatience{20};  // where jobs wait already, somebody sits on the lock

struct Job {
  std::function<Decision()> work;
  Decision decision;
  bool done = false;
};

class Courier {
 public:
  Courier() : process(getpid()) {
    std::thread([this] { serve(); }).detach();
  }

  Decision send(std::function<Decision()> work, const Decision& meanwhile) {
    auto job = std::make_shared<Job>(Job{std::move(work), meanwhile});
    std::unique_lock lock(mutex_);
    const auto patience = jobs_.empty() ? kPatience : kNoPatience;
    jobs_.push_back(job);
    changed_.notify_all();
    changed_.wait_for(lock, patience, [&] { return job->done; });
    return job->done ? job->decision : meanwhile;
  }

  void finish() {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, 4 * kPatience, [&] { return jobs_.empty(); });
  }

  const pid_t process;

 private:
  [[noreturn]] void serve() {
    t_reporting = true;
    for (;;) {
      std::shared_ptr<Job> job;
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return !jobs_.empty(); });
        job = jobs_.front();  // stays there until it is done
      }
      Decision decision = job->decision;
      {
        const PyGILState_STATE gil = PyGILState_Ensure();
        try {
          decision = job->work();
        } catch (const std::exception&) {  // of the program's, and for a thread that is not there
        }
        job->work = nullptr;  // its tensors too are let go of with the GIL
        PyGILState_Release(gil);
      }
      const std::lock_guard lock(mutex_);
      job->decision = decision;
      job->done = true;
      jobs_.pop_front();
      changed_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::shared_ptr<Job>> jobs_;
};

std::atomic<Courier*> g_courier{nullptr};

Courier& courier() {
  static std::mutex starting;
  Courier* known = g_courier.load(std::memory_order_acquire);
  if (known != nullptr && known->process == getpid()) return *known;
  const std::lock_guard lock(starting);
  known = g_courier.load(std::memory_order_acquire);
  if (known == nullptr || known->process != getpid()) g_courier.store(known = new Courier, std::memory_order_release);
  return *known;
}

}  // namespace

Decision in_python(std::function<Decision()> job, const Decision& meanwhile) {
  if (PyGILState_GetThisThreadState() == nullptr) return courier().send(std::move(job), meanwhile);
  const py::gil_scoped_acquire gil;
  return job();
}

void finish_jobs() {
  Courier* known = g_courier.load(std::memory_order_acquire);
  if (known == nullptr || known->process != getpid() || t_reporting) return;  // asked for by a job itself
  const py::gil_scoped_release no_gil;
  known->finish();
}

}  // namespace locus::bridge
