// Keeps a trace of the run while one is asked for: operators by PyTorch's own observer (RecordFunction), copies and
// waits where the ledger hears of them. Off, nothing of this is called. Bounded: what comes later is counted only.
#include "locus/bridge/python/write_trace.h"

#include <ATen/core/Tensor.h>
#include <ATen/record_function.h>
#include <pybind11/pybind11.h>

#include <chrono>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "locus/bridge/door/origins.h"
#include "locus/bridge/door/watch.h"
#include "locus/bridge/python/ledger.h"
#include "locus/bridge/state.h"
#include "locus/report/trace.h"

namespace locus::bridge {

std::atomic<bool> g_tracing{false};

namespace {

namespace py = pybind11;
using Kind = report::TraceEvent::Kind;

constexpr std::size_t kMaxEvents = 1'000'000;

/// A moment in few bytes; words come when the trace is written.
struct Moment {
  Kind kind;
  int8_t device, other;
  engine::OperatorId what;
  engine::SiteId site;
  std::int64_t stream, begin, duration, bytes;
};

struct Trace {
  std::mutex mutex;
  std::vector<Moment> moments;
  std::int64_t dropped = 0;
  std::unordered_map<int, std::int64_t> in_use;
  std::size_t findings = 0;
  std::chrono::steady_clock::time_point began = std::chrono::steady_clock::now();
};

Trace& trace() {
  static auto* kept = new Trace;
  return *kept;
}

std::int64_t now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() - trace().began).count();
}

/// With the lock held.
void keep(const Moment& moment) {
  if (trace().moments.size() < kMaxEvents) {
    trace().moments.push_back(moment);
  } else {
    ++trace().dropped;
  }
}

std::int64_t stream_of(int device) { return device >= 0 && simulating() ? current_stream(device) : 0; }

/// The device that an operator works on: that of its operands, or the one it is told; -1: the host.
int device_of(const at::RecordFunction& function) {
  int device = -1;
  const auto look = [&](const at::Tensor& t) {
    if (device < 0 && t.defined() && t.device().is_cuda()) device = t.device().index();
  };
  for (const c10::IValue& value : function.inputs()) {
    if (value.isTensor()) {
      look(value.toTensor());
    } else if (value.isTensorList()) {
      for (const at::Tensor& t : value.toTensorVector()) look(t);
    } else if (value.isDevice() && value.toDevice().is_cuda()) {
      device = value.toDevice().has_index() ? value.toDevice().index() : t_current_device;
    }
    if (device >= 0) break;
  }
  return device;
}

struct Running : at::ObserverContext {
  Moment moment{};
};

std::unique_ptr<at::ObserverContext> begin_operator(const at::RecordFunction& function) {
  if (!tracing() || t_kernel_device >= 0) return nullptr;  // what a kernel calls inside is its own business
  auto running = std::make_unique<Running>();
  const int device = device_of(function);
  running->moment = {Kind::kOperator,
                     static_cast<int8_t>(device),
                     0,
                     operator_number(function.name()),
                     current_site(),
                     stream_of(device),
                     now(),
                     0,
                     0};
  return running;
}

void end_operator(const at::RecordFunction&, at::ObserverContext* context) {
  if (context == nullptr || !tracing()) return;
  Moment& moment = static_cast<Running*>(context)->moment;
  moment.duration = now() - moment.begin;
  const int device = moment.device;
  const std::int64_t in_use = device >= 0 && simulating() ? allocated_now(device) : 0;
  const std::size_t findings = found_so_far();
  const std::scoped_lock lock(trace().mutex);
  keep(moment);
  if (device >= 0 && trace().in_use[device] != in_use) {
    trace().in_use[device] = in_use;
    keep({Kind::kMemory, moment.device, 0, 0, 0, 0, moment.begin + moment.duration, 0, in_use});
  }
  if (findings > trace().findings) {
    trace().findings = findings;
    keep({Kind::kFinding, moment.device, 0, moment.what, moment.site, moment.stream, moment.begin, 0, 0});
  }
}

std::string device_name(int device) { return device < 0 ? "cpu" : "cuda:" + std::to_string(device); }

report::TraceEvent in_words(const Moment& moment) {
  report::TraceEvent event;
  event.kind = moment.kind, event.device = moment.device, event.stream = moment.stream;
  event.begin = moment.begin, event.duration = moment.duration, event.bytes = moment.bytes;
  if (moment.kind == Kind::kTransfer) event.way = device_name(moment.device) + " → " + device_name(moment.other);
  const char* name = operator_name(moment.what);
  event.name = name == nullptr ? "" : name;
  const Place place = place_of(moment.site);
  if (place.file != nullptr) event.file = place.file, event.line = place.line;
  if (moment.kind == Kind::kTransfer && moment.device < 0) event.device = moment.other;  // in the lane of the card
  if (moment.kind == Kind::kWait) event.device = -1;                                     // the host waits
  return event;
}

void begin_trace() {
  static const auto handle = [] {
    trace();
    return at::addGlobalCallback(at::RecordFunctionCallback(&begin_operator, &end_operator)
                                     .needsInputs(true)
                                     .scopes({at::RecordScope::FUNCTION}));
  }();
  static_cast<void>(handle);
  g_tracing = true;
}

/// (the events of this process as a JSON array, how many were left out)
py::tuple end_trace(int process, const std::string& name) {
  g_tracing = false;
  std::vector<report::TraceEvent> events;
  const std::scoped_lock lock(trace().mutex);
  events.reserve(trace().moments.size());
  for (const Moment& moment : trace().moments) events.push_back(in_words(moment));
  return py::make_tuple(py::bytes(report::render_trace_events(events, process, name)), trace().dropped);
}

}  // namespace

void trace_transfer(int from, int to, std::int64_t bytes, engine::SiteId site) {
  const int lane = to >= 0 ? to : from;
  const std::scoped_lock lock(trace().mutex);
  keep(
      {Kind::kTransfer, static_cast<int8_t>(from), static_cast<int8_t>(to), 0, site, stream_of(lane), now(), 0, bytes});
}

void trace_wait(int device, engine::OperatorId what, engine::SiteId site) {
  const std::scoped_lock lock(trace().mutex);
  keep({Kind::kWait, static_cast<int8_t>(device), 0, what, site, 0, now(), 0, 0});
}

void define_trace(py::module_& m) {
  m.def("begin_trace", &begin_trace);
  m.def("end_trace", &end_trace);
}

}  // namespace locus::bridge
