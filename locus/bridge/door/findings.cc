// See findings.h.
#include "locus/bridge/door/findings.h"

#include <pybind11/pybind11.h>
#include <torch/csrc/utils/pybind.h>

#include "locus/bridge/door/door.h"
#include "locus/bridge/door/watch.h"
#include "locus/bridge/python/aside.h"
#include "locus/bridge/python/courier.h"
#include "locus/bridge/python/shared_counters.h"
#include "locus/bridge/streams/card_calls.h"

namespace locus::bridge {
namespace {

namespace py = pybind11;
using at::Tensor;

py::object* g_reporter = nullptr;  // called with a raw case, gives (raise, device)
std::atomic<bool> g_fault_said{false};

const char* rule_name(engine::ArgumentRule rule) {
  switch (rule) {
    case engine::ArgumentRule::kScalarOk:
      return "scalar";
    case engine::ArgumentRule::kIndex:
      return "index";
    case engine::ArgumentRule::kMustBeCpu:
      return "cpu";
    case engine::ArgumentRule::kFree:
      return "free";
    default:
      return "same";
  }
}

const char* kind_name(Violation::Kind kind) {
  switch (kind) {
    case Violation::Kind::kIndex:
      return "index";
    case Violation::Kind::kMustBeCpu:
      return "lengths";
    case Violation::Kind::kGenerator:
      return "generator";
    default:
      return "operator";
  }
}

/// A fault in the checking is said once, and the program goes on.
void say_fault(const std::string& what) {
  if (g_fault_said.exchange(true)) return;
  publish_fault();
  PySys_WriteStderr("locus: a fault inside Locus while it was explaining a finding; the program goes on: %.900s\n",
                    what.c_str());
}

py::dict operand_dict(const Call& call, const Violation& violation, OperandRef ref) {
  py::dict d;
  const Tensor t = operand(call, ref);
  d["argument"] = call.op.schema().arguments()[ref.argument].name();
  d["position"] = ref.argument;
  d["index"] = ref.element;
  d["tensor"] = t;
  bool odd = false;
  for (const OperandRef& other : violation.odd)
    odd = odd || (other.argument == ref.argument && other.element == ref.element);
  d["odd"] = odd;
  d["rule"] = rule_name(call.plan.rule.argument(ref.argument));
  d["written"] = call.plan.arguments[ref.argument].written;
  return d;
}

/// The frame that asks, for the thread that answers; none on autograd's own threads.
py::object asking_frame() {
  auto* frame = reinterpret_cast<PyObject*>(PyEval_GetFrame());
  return frame != nullptr ? py::reinterpret_borrow<py::object>(frame) : py::none();
}

Decision ask_python(const py::dict& raw, c10::Device fallback) {
  if (g_reporter == nullptr) return {false, fallback};
  Decision decision{false, fallback};
  py::object last_words = py::none();  // what is left to do in the program's own thread: a warning
  const py::object frame = asking_frame();
  const unsigned long thread = PyThread_get_thread_ident();
  aside([&] {
    try {
      const auto answer = (*g_reporter)(raw, frame, thread).cast<py::tuple>();
      const std::string device = answer[1].cast<std::string>();
      decision = {answer[0].cast<bool>(), device.empty() ? fallback : c10::Device(device)};
      last_words = answer[2];
    } catch (const std::exception& error) {
      say_fault(error.what());
    }
  });
  if (!last_words.is_none()) last_words();  // what the program's own filters make of it is the program's
  return decision;
}

}  // namespace

int64_t steps_made() noexcept { return g_steps.load(std::memory_order_relaxed); }

namespace {

/// Where a mistake was met, known on the thread that met it alone.
struct Moment {
  engine::SiteId site, forward = forward_site_of_current_node();
  bool in_backward = forward != 0 && user_site() == 0;
  bool alone = is_undecided() && user_site() == 0;  // no frame of the program's led here
  Policy in_force = policy();
  uint64_t key;
};

py::dict raw_case(const char* kind, const std::string& op, const Moment& moment, const std::string& device) {
  py::dict raw;
  raw["kind"] = kind, raw["overload"] = op, raw["error"] = "", raw["device"] = device;
  raw["in_backward"] = moment.in_backward, raw["forward_site"] = moment.forward;
  raw["site"] = moment.site, raw["key"] = moment.key;
  raw["policy"] = static_cast<int>(moment.in_force), raw["alone"] = moment.alone;
  return raw;
}

Decision report_call(const Call& call, const Violation& violation, const Moment& moment) {
  py::dict raw = raw_case(kind_name(violation.kind), call.plan.name, moment, violation.device.str());
  raw["error"] = violation_message(call, violation);
  py::list operands;
  for (const OperandRef& ref : all_operands(call)) operands.append(operand_dict(call, violation, ref));
  if (violation.kind == Violation::Kind::kGenerator) {
    py::dict d;
    d["argument"] = "generator", d["position"] = call.plan.generator, d["index"] = -1, d["tensor"] = py::none();
    d["generator_device"] = call.stack[call.base + call.plan.generator].toGenerator().device().str();
    d["odd"] = true, d["rule"] = "same", d["written"] = false;
    operands.append(std::move(d));
  }
  raw["operands"] = std::move(operands);
  return report_raw(raw, violation.device);
}

}  // namespace

Decision report_violation(const Call& call, const Violation& violation, engine::SiteId site, uint64_t key) {
  const Moment moment{.site = site, .key = key};
  torch::jit::Stack operands(call.stack.begin() + static_cast<std::ptrdiff_t>(call.base), call.stack.end());
  return in_python([op = call.op, operands = std::move(operands), violation,
                    moment]() mutable { return report_call(Call{plan_of(op), op, operands, 0}, violation, moment); },
                   {false, violation.device});
}

Decision report_raw(py::dict& raw, c10::Device fallback) {
  if (!raw.contains("policy")) raw["policy"] = static_cast<int>(policy());
  raw["step"] = g_steps.load();
  return ask_python(raw, fallback);
}

void report_early_read(const std::string& op, const Tensor& tensor, int argument, int device,
                       const std::function<bool()>& in_doubt) {
  const engine::SiteId site = current_site();
  const uint64_t key = engine::mix((uint64_t{site} << 20) ^ operator_number("read too early"));
  const Decision as_it_is{false, c10::Device(c10::kCPU)};
  decide(key, as_it_is, [&](uint64_t distinct) {
    const Moment moment{.site = site, .forward = 0, .in_backward = false, .key = distinct};
    return in_python(
        [op, tensor, argument, device, moment, in_doubt, current = device_here(), as_it_is] {
          if (in_doubt && in_doubt()) return as_it_is;
          py::dict raw = raw_case("read-too-early", op, moment, "cuda:" + std::to_string(device));
          raw["current"] = current;
          py::dict d;
          d["argument"] = "self", d["position"] = argument, d["index"] = -1, d["tensor"] = tensor, d["odd"] = true;
          d["rule"] = "same", d["written"] = false;
          py::list operands;
          operands.append(std::move(d));
          raw["operands"] = std::move(operands);
          return report_raw(raw, c10::Device(c10::kCPU));
        },
        as_it_is);
  });
}

void set_reporter(py::object reporter) {
  delete g_reporter;
  g_reporter = new py::object(std::move(reporter));
}

bool fault_said() noexcept { return g_fault_said.load(); }

}  // namespace locus::bridge
