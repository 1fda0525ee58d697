// See scratch.h.
#include "locus/bridge/memory/scratch.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <vector>

namespace locus::bridge {

namespace {

using at::Tensor;
using c10::IValue;

sim::Geometry geometry_of(const Tensor& t) {
  sim::Geometry g;
  if (!t.defined() || t.layout() != at::kStrided) return g;
  g.item = static_cast<std::uint8_t>(std::min<size_t>(t.element_size(), 255));
  g.dims = static_cast<std::uint8_t>(std::min<int64_t>(t.dim(), sim::Geometry::kMaxDims));
  for (size_t i = 0; i < g.dims; ++i) {
    g.sizes[i] = t.sizes()[i];
    g.strides[i] = t.strides()[i];
  }
  for (int64_t i = g.dims; i < t.dim(); ++i) g.sizes[g.dims - 1] *= t.sizes()[i];  // more than a rule looks at
  g.floating = t.is_floating_point() || t.is_complex();
  g.is_bool = t.scalar_type() == at::kBool || t.scalar_type() == at::kByte;
  g.channels_last = g.dims >= 4 && g.strides[1] == 1 && g.sizes[1] > 1 && !t.is_contiguous();
  return g;
}

void add_number(sim::OperatorArgument& argument, std::int64_t number) {
  if (argument.count < sim::Geometry::kMaxDims) argument.numbers[argument.count++] = number;
}

/// Of a list the first tensor that is there: what rules ask of indices.
void read(const IValue& value, sim::OperatorArgument& argument) {
  if (value.isTensor()) {
    argument.tensor = geometry_of(value.toTensor());
  } else if (value.isInt()) {
    add_number(argument, value.toInt());
  } else if (value.isBool()) {
    add_number(argument, value.toBool() ? 1 : 0);
  } else if (value.isDouble()) {
    add_number(argument, static_cast<std::int64_t>(value.toDouble()));
  } else if (value.isIntList()) {
    for (const std::int64_t number : value.toIntVector()) add_number(argument, number);
  } else if (value.isBoolList()) {
    for (const bool flag : value.toBoolList()) add_number(argument, flag ? 1 : 0);
  } else if (value.isTensorList()) {
    const auto list = value.toTensorList();
    for (size_t i = 0; i < list.size() && !argument.tensor.defined(); ++i) argument.tensor = geometry_of(list.get(i));
  } else if (value.isOptionalTensorList()) {
    const auto list = value.toOptionalTensorList();
    for (size_t i = 0; i < list.size() && !argument.tensor.defined(); ++i) {
      if (const std::optional<Tensor> t = list.get(i); t.has_value()) argument.tensor = geometry_of(*t);
    }
  }
}

/// cuBLAS handles of one device. A thread has one from its first product to its end; the next thread takes it over.
struct Handles {
  std::mutex mutex;
  std::vector<int> free;
  int made = 0;
  std::map<std::pair<int, int64_t>, Scratch> blas, blas_lt;  // by handle and stream
};
Handles& handles_of(int device) {
  static auto* all = new std::array<Handles, sim::kMaxDevices>;  // never destroyed: threads may end after exit handlers
  return (*all)[static_cast<size_t>(device)];
}
std::atomic<std::uint32_t> g_generation{0};  // how often workspaces were cleared

/// What this thread knows to be there: most products need no more than to look here.
struct Held {
  int handle = -1;
  std::uint32_t generation = 0;
  int64_t stream = -1;
  bool blas = false, lt = false;
};
struct ThreadHandles {
  std::array<Held, sim::kMaxDevices> held;
  ~ThreadHandles() {
    for (size_t device = 0; device < held.size(); ++device) {
      if (held[device].handle < 0) continue;
      Handles& handles = handles_of(static_cast<int>(device));
      const std::lock_guard<std::mutex> lock(handles.mutex);
      handles.free.push_back(held[device].handle);
    }
  }
};
thread_local ThreadHandles t_handles;

const sim::LibrarySettings& settings() {
  static const sim::LibrarySettings read_once = sim::library_settings();
  return read_once;
}

}  // namespace

Scratch::Scratch(int device, std::int64_t bytes) : device_(device) {
  if (bytes > 0) booking_ = book(static_cast<size_t>(bytes), device, nullptr, /*scratch=*/true);
}

void Scratch::release() noexcept {
  if (booking_.account != nullptr) unbook(booking_, device_);
  booking_ = {};
}

void need_blas_workspace(int device, bool lt) {
  Held& held = t_handles.held[static_cast<size_t>(device)];
  const int64_t stream = current_stream(device);
  const std::uint32_t generation = g_generation.load(std::memory_order_relaxed);
  if (held.blas && (held.lt || !lt) && held.stream == stream && held.generation == generation) return;
  Handles& handles = handles_of(device);
  if (held.handle < 0) {
    const std::lock_guard<std::mutex> lock(handles.mutex);
    if (handles.free.empty()) {
      held.handle = handles.made++;
    } else {
      held.handle = handles.free.back();
      handles.free.pop_back();
    }
  }
  const sim::Card& card = *machine().options().card;
  const std::pair<int, int64_t> key(held.handle, stream);
  // The handle is this thread's, so nobody else adds what is missing; booking it may ask Python, which takes no lock
  // along.
  const auto hold = [&](auto& workspaces, std::int64_t bytes) {
    std::unique_lock<std::mutex> lock(handles.mutex);
    if (workspaces.find(key) != workspaces.end()) return;
    lock.unlock();
    Scratch taken(device, bytes);
    lock.lock();
    workspaces.emplace(key, std::move(taken));
  };
  hold(handles.blas, sim::blas_workspace(card, settings()));
  if (lt) hold(handles.blas_lt, sim::blas_lt_workspace(card, settings()));
  held.blas = true;
  held.lt = lt || (held.lt && held.stream == stream && held.generation == generation);
  held.stream = stream;
  held.generation = generation;
}

void clear_blas_workspaces() {
  g_generation.fetch_add(1, std::memory_order_relaxed);
  for (int device = 0; device < machine().devices(); ++device) {
    Handles& handles = handles_of(device);
    const std::lock_guard<std::mutex> lock(handles.mutex);
    handles.blas.clear();
    handles.blas_lt.clear();
  }
}

CardMemory::CardMemory(const OperatorPlan& plan, const torch::jit::Stack& stack, size_t base, int device)
    : device_(device) {
  call_.rule = plan.memory;
  if (call_.rule == sim::MemoryRule::kBlas) return;  // asks nothing of the operands
  call_.argument_count = std::min(plan.arguments.size(), sim::OperatorCall::kMaxArguments);
  for (size_t i = 0; i < call_.argument_count; ++i) read(stack[base + i], call_.arguments[i]);
}

sim::OperatorMemory CardMemory::ask(const torch::jit::Stack& stack, size_t returns) {
  if (call_.rule != sim::MemoryRule::kBlas) {
    call_.result_count = std::min(returns, sim::OperatorCall::kMaxResults);
    for (size_t i = 0; i < call_.result_count; ++i) {
      const IValue& value = stack[stack.size() - returns + i];
      if (value.isTensor()) call_.results[i] = geometry_of(value.toTensor());
    }
  }
  return sim::operator_memory(call_, *machine().options().card);
}

}  // namespace locus::bridge
