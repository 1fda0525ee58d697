// See graphs.h.
#include "locus/bridge/streams/graphs.h"

#include <mutex>
#include <utility>

#include "locus/bridge/compat.h"
#include "locus/bridge/door/origins.h"
#include "locus/bridge/dry/host.h"
#include "locus/bridge/streams/capture.h"
#include "locus/bridge/streams/captured_arguments.h"
#include "locus/bridge/streams/graph_findings.h"

namespace locus::bridge {

std::atomic<bool> g_capturing{false};

namespace {

using at::Tensor;
using c10::DispatchKey;
using c10::DispatchKeySet;
using c10::IValue;
using torch::jit::Stack;

using sim::kPageableInCapture;

/// Calls `visit(Tensor) -> Tensor` on each tensor of a value and puts the answer in its place.
template <class Visit>
IValue with_each(const IValue& value, Visit&& visit) {
  if (value.isTensor()) return value.toTensor().defined() ? IValue(visit(value.toTensor())) : value;
  if (value.isTensorList()) {
    c10::List<Tensor> fresh;
    for (const Tensor& t : value.toTensorVector()) fresh.push_back(t.defined() ? visit(t) : t);
    return fresh;
  }
  if (value.isOptionalTensorList()) {
    c10::List<std::optional<Tensor>> fresh;
    for (const std::optional<Tensor>& t : value.toOptionalTensorVector()) {
      fresh.push_back(t.has_value() && t->defined() ? std::optional<Tensor>(visit(*t)) : t);
    }
    return fresh;
  }
  return value;
}

std::recursive_mutex g_mutex;  // a kernel that is captured takes memory; never held while Python is asked
std::unique_ptr<Capture> g_capture;
std::atomic<int64_t> g_pools{0};
std::atomic<std::uint32_t> g_captures{0};

[[noreturn]] void raise_capture_error(int code, const char* words, const char* name) {
  raise_accelerator_error(
      code, std::string("CUDA error: ") + words + "\nSearch for `" + name +
                "' in https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__TYPES.html for more information.\n"
                "CUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below "
                "might be incorrect.\nFor debugging consider passing CUDA_LAUNCH_BLOCKING=1\n");
}

void invalidate() {
  const std::lock_guard lock(g_mutex);
  if (g_capture) g_capture->is_invalid = true;
}

/// A refusal of the card's: raised, or a finding with which the program goes on.
void refuse(const char* op, int code, const char* words, const char* name) {
  if (report_refusal(op, words)) return;
  invalidate();
  raise_capture_error(code, words, name);
}
void refuse_synchronization(const char* op) {
  refuse(op, 900, "operation not permitted when stream is capturing", "cudaErrorStreamCaptureUnsupported");
}

/// Whether the graph may draw from it.
bool is_drawn_from(const at::Generator& generator) {
  const std::lock_guard lock(g_mutex);
  return !generator.defined() || !generator.device().is_cuda() || !g_capture || g_capture->is_registered(generator);
}

/// Whether the capture's mode forbids this thread what takes memory past PyTorch's allocator.
bool forbids_here() {
  const std::lock_guard lock(g_mutex);
  return g_capture && g_capture->forbids_here();
}

/// What a kernel writes without its schema saying so: running statistics.
bool writes_silently(const OperatorPlan& plan) { return plan.name.find("batch_norm") != std::string::npos; }

}  // namespace

bool is_captured(int device, int64_t stream) {
  const std::lock_guard lock(g_mutex);
  return g_capture && g_capture->has(device, stream);
}

void capture_call(const c10::OperatorHandle& op, const OperatorPlan& plan, Stack* stack,
                  const std::function<void()>& run) {
  const size_t base = stack->size() - plan.arguments.size();
  const int device = device_of(plan, *stack, base);
  if (plan.is_view || !is_captured(device, current_stream(device))) return run();
  const std::string name = plan.name.substr(plan.name.find("::") + 2);
  const std::string word = name.substr(0, name.find('.'));
  if (word == "bincount" && !report_refusal(word.c_str(), kPageableInCapture)) TORCH_CHECK(false, kPageableInCapture);
  if ((plan.synchronizes && word != "bincount") || waits_for_mask(plan, *stack, base)) {
    refuse_synchronization(word.c_str());
  }
  if (plan.generator >= 0 && (*stack)[base + plan.generator].isGenerator() &&
      !is_drawn_from((*stack)[base + plan.generator].toGenerator())) {
    const char* const words = "Attempt to increase offset for a CUDA generator not in capture mode.";
    if (!report_refusal(word.c_str(), words)) TORCH_CHECK(false, words);
  }
  const auto [said, raised] = refused_for_library(plan, *stack, base, device, forbids_here());
  if (said != nullptr && !report_refusal(word.c_str(), said)) {
    invalidate();
    TORCH_CHECK(false, raised);
  }
  if (watching()) {
    const std::string numbers = numbers_of(op, *stack, base);
    if (!numbers.empty()) note_numbers(word, numbers, g_captures.load());
  }
  const std::lock_guard lock(g_mutex);
  Graph::Step step;
  step.op = op;
  for (size_t i = 0; i < plan.arguments.size(); ++i) {
    const bool written = plan.arguments[i].written || writes_silently(plan);
    step.inputs.push_back(with_each((*stack)[base + i], [&](const Tensor& t) {
      g_capture->note_use(t, written, plan.number);
      return g_capture->keep(t);
    }));
  }
  {
    const Unfollowed unfollowed;
    run();
  }
  const size_t returns = op.schema().returns().size();
  for (size_t i = stack->size() - returns; i < stack->size(); ++i) {
    with_each((*stack)[i], [&](const Tensor& t) {
      g_capture->made_storage(t);
      step.outputs.push_back(g_capture->keep(t));
      return t;
    });
  }
  g_capture->add(std::move(step));
  g_capture->worked(current_stream(device));
}

bool capture_copy(const Tensor& to, const Tensor& from, bool non_blocking) {
  const int device = to.is_cuda() ? to.device().index() : from.device().index();
  if (!is_captured(device, current_stream(device))) return false;
  if (to.device().is_cpu() || from.device().is_cpu()) {
    const Tensor& host = to.device().is_cpu() ? to : from;
    if (!host.is_pinned()) {
      if (!report_refusal("copy_", kPageableInCapture)) TORCH_CHECK(false, kPageableInCapture);
    } else if (!non_blocking) {
      refuse_synchronization("copy_");
    }
    if (to.device().is_cpu() && (!host.is_pinned() || !non_blocking)) return false;  // the program goes on with it
  }
  static const engine::OperatorId number = operator_number("aten::copy_");
  const std::lock_guard lock(g_mutex);
  g_capture->note_use(to, true, number);
  g_capture->note_use(from, false, number);
  Graph::Step step;
  step.inputs = {g_capture->keep(from)};
  step.outputs = {to.device().is_cpu() ? to : g_capture->keep(to)};
  const Unfollowed unfollowed;
  const c10::impl::ExcludeDispatchKeyGuard below(kAboveGraphs);
  if (to.is_cuda() && !(dry::on() && dry::copy_dry(to, from)))
    host_alias(to).copy_(from.is_cuda() ? host_alias(from) : from);
  g_capture->add(std::move(step));
  g_capture->worked(current_stream(device));
  return true;
}

PoolId capture_memory(const Memory& host, int device, int64_t stream) {
  const std::lock_guard lock(g_mutex);
  if (!g_capture || !g_capture->has(device, stream)) return {};
  if (host) g_capture->made(host);
  return g_capture->pool();
}

void capture_record(OrderedEvent* event, int device, int64_t stream) {
  const std::lock_guard lock(g_mutex);
  event->captured = g_capture && g_capture->has(device, stream);
  if (event->captured) event->capture_clock = g_capture->clock(stream);
}

void capture_wait(int device, int64_t stream, const OrderedEvent& event) {
  bool isolated = false;
  {
    const std::lock_guard lock(g_mutex);
    if (!g_capture || event.device < 0) return;
    if (event.captured) return g_capture->join(stream, event.capture_clock);
    isolated = g_capture->has(device, stream);
  }
  if (isolated) {
    refuse("wait_event", 905, "dependency created on uncaptured work in another stream",
           "cudaErrorStreamCaptureIsolation");
  }
}

void refuse_to_wait(const char* op, int device, int64_t stream) {
  if (stream < 0 || is_captured(device, stream)) refuse_synchronization(op);
}

void refuse_event(const char* op, const OrderedEvent& event) {
  if (!event.captured) return;
  refuse(op, 907, "operation not permitted on an event last recorded in a capturing stream", "cudaErrorCapturedEvent");
}

Graph::Graph() = default;
Graph::~Graph() { let_go_of_pool(); }

void Graph::let_go_of_pool() {
  if (std::exchange(holds_pool_, false) && !in_bad_fork()) machine().memory(device_).release_pool(pool_);
}

void Graph::capture_begin(std::optional<PoolId> pool, CaptureMode mode) {
  const int device = t_current_device;
  const int64_t stream = current_stream(device);
  TORCH_CHECK(!captured_,
              "This CUDAGraph instance already owns a captured graph. To capture a new graph, create a new instance.");
  TORCH_CHECK(
      !is_captured(device, stream),
      "Cannot register the state during capturing stage. during CUDA graph capture. If you need this call to be "
      "captured, please file an issue. Current cudaStreamCaptureStatus: cudaStreamCaptureStatusActive");
  TORCH_CHECK(
      stream != 0,
      "CUDA graphs must be captured on a non-default stream. (However, after capture, it's ok to replay them on "
      "the default stream.)");
  const std::lock_guard lock(g_mutex);
  TORCH_CHECK(!g_capture, "CUDA error: operation not permitted when stream is capturing");
  let_go_of_pool();  // of a capture that failed
  device_ = device;
  pool_ = pool.value_or(PoolId{++g_pools, 0});
  machine().memory(device).hold_pool(pool_);
  holds_pool_ = true;
  g_captures.fetch_add(1);
  g_capture = std::make_unique<Capture>(this, device, stream, mode);
  g_capturing.store(true);
}

void Graph::capture_end() {
  const int device = t_current_device;
  std::unique_ptr<Capture> capture;
  {
    const std::lock_guard lock(g_mutex);
    TORCH_CHECK(g_capture && g_capture->is_origin(device, current_stream(device)),
                "Capture must end on the same stream it began on.");
    capture = std::move(g_capture);
    g_capturing.store(false);
  }
  capture->undo();
  if (capture->is_invalid || !capture->joined()) steps_.clear();
  if (capture->is_invalid) {
    raise_capture_error(901, "operation failed due to a previous error during capture",
                        "cudaErrorStreamCaptureInvalidated");
  }
  if (!capture->joined()) {
    const char* const words = "capturing stream has unjoined work";
    if (!report_refusal("capture_end", words)) raise_capture_error(904, words, "cudaErrorStreamCaptureUnjoined");
  }
  if (steps_.empty()) {
    TORCH_WARN(
        "The CUDA Graph is empty. This usually means that the graph was attempted to be captured on wrong device or "
        "stream.");
  }
  captured_ = true;
}

void Graph::replay() {
  TORCH_CHECK(captured_, "Called CUDAGraph::replay without a preceding successful capture.");
  TORCH_CHECK(
      !is_captured(device_, current_stream(device_)),
      "Cannot prepare for replay during capturing stage. during CUDA graph capture. If you need this call to be "
      "captured, please file an issue. Current cudaStreamCaptureStatus: cudaStreamCaptureStatusActive");
  static const engine::OperatorId number = operator_number("replay");
  StreamWork work(device_, number);
  look_at_outside(&work);
  if (ordering()) work.finish();
  const Unfollowed unfollowed;
  const UncountedScope uncounted;  // a replay takes no memory
  const at::NoGradGuard no_grad;
  const c10::impl::ExcludeDispatchKeyGuard below(kAboveGraphs);
  for (const Step& step : steps_) run(step);
}

/// The memory from before the capture: is it still there, and who uses it?
void Graph::look_at_outside(StreamWork* work) const {
  for (const auto& [address, outside] : outside_) {
    const auto storage = outside.storage.lock();
    if (!storage && outside.pool != PoolId{} && machine().memory(device_).pool_users(outside.pool) > 0) continue;
    if (!storage || storage->data() != outside.data) {
      if (watching()) report_gone(outside.site, outside.op, !storage, outside.written);
    } else if (ordering()) {
      work->touches(*storage, outside.written);
    }
  }
  if (!ordering()) return;
  for (const auto& weak : made_) {
    if (const auto storage = weak.lock()) work->touches(*storage, true);
  }
}

void Graph::run(const Step& step) const {
  const auto put = [](const Tensor& from, const Tensor& to) {
    if (from.data_ptr() == to.data_ptr() || (dry::on() && dry::copy_dry(to, from))) return;
    (to.is_cuda() ? host_alias(to) : to).copy_(from.is_cuda() ? host_alias(from) : from);
  };
  if (!step.op.has_value()) return put(step.inputs.front().toTensor(), step.outputs.front());
  Stack stack = step.inputs;
  step.op->redispatchBoxed(DispatchKeySet(DispatchKey::CUDA), &stack);
  size_t next = 0;
  const size_t returns = step.op->schema().returns().size();
  for (size_t i = stack.size() - returns; i < stack.size(); ++i) {
    with_each(stack[i], [&](const Tensor& t) {
      put(t, step.outputs.at(next++));
      return t;
    });
  }
}

std::optional<engine::SiteId> Graph::read_at(const at::Tensor& t) const {
  if (!t.defined() || !t.has_storage()) return std::nullopt;
  const auto found = outside_.find(t.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl());
  if (found == outside_.end() || found->second.written) return std::nullopt;
  return found->second.site;
}

std::unordered_set<const c10::StorageImpl*> Graph::made_storages() const {
  std::unordered_set<const c10::StorageImpl*> all;
  for (const auto& weak : made_) {
    if (const auto storage = weak.lock()) all.insert(storage.get());
  }
  return all;
}

void Graph::reset() {
  captured_ = false;
  let_go_of_pool();
  steps_.clear();
  outside_.clear();
  made_.clear();
}

void Graph::register_generator(at::Generator generator) { generators_.push_back(std::move(generator)); }

}  // namespace locus::bridge
