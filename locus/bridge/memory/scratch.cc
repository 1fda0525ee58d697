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
struct HeldHandle {
  int handle = -1;
  std::uint32_t generation = 0;
  int64_t stream = -1;
  bool blas = false, lt = false;
};
struct ThreadHandles {
  std::array<HeldHandle, sim::kMaxDevices> held;
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
  HeldHandle& held = t_handles.held[static_cast<size_t>(device)];
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

void tell(const Tensor& t, sim::OperatorArgument& argument) { argument.tensor = geometry_of(t); }

void tell(std::int64_t number, sim::OperatorArgument& argument) {
  if (argument.count < sim::Geometry::kMaxDims) argument.numbers[argument.count++] = number;
}

void tell(const at::Scalar& number, sim::OperatorArgument& argument) {
  if (number.isFloatingPoint()) return tell(static_cast<std::int64_t>(number.toDouble()), argument);
  if (number.isIntegral(/*includeBool=*/true)) tell(number.toLong(), argument);
}

void tell(const IValue& value, sim::OperatorArgument& argument) {
  if (value.isTensor()) {
    tell(value.toTensor(), argument);
  } else if (value.isInt()) {
    tell(value.toInt(), argument);
  } else if (value.isBool()) {
    tell(std::int64_t{value.toBool()}, argument);
  } else if (value.isDouble()) {
    tell(static_cast<std::int64_t>(value.toDouble()), argument);
  } else if (value.isIntList()) {
    tell_each(value.toIntVector(), argument);
  } else if (value.isBoolList()) {
    for (const bool flag : value.toBoolList()) tell(std::int64_t{flag}, argument);
  } else if (value.isTensorList()) {
    tell_each(value.toTensorVector(), argument);
  } else if (value.isOptionalTensorList()) {
    for (const std::optional<Tensor>& t : value.toOptionalTensorVector()) {
      if (t.has_value() && !argument.tensor.defined()) tell(*t, argument);
    }
  }
}

CardMemory::CardMemory(const OperatorPlan& plan, const torch::jit::Stack& stack, size_t base, int device)
    : rule_(plan.memory), device_(device) {
  if (!begin(plan.arguments.size())) return;
  for (size_t i = 0; i < call_->argument_count; ++i) tell(stack[base + i], call_->arguments[i]);
}

bool CardMemory::begin(size_t arguments) {
  if (rule_ == sim::MemoryRule::kBlas) return false;
  call_.emplace();
  call_->rule = rule_;
  call_->argument_count = std::min(arguments, sim::OperatorCall::kMaxArguments);
  return true;
}

void CardMemory::show_result(size_t i, const Tensor* t) {
  if (t != nullptr) call_->results[i] = geometry_of(*t);
}

sim::OperatorMemory CardMemory::ask() const {
  static const sim::OperatorCall product{sim::MemoryRule::kBlas, {}, 0, {}, 0};
  return sim::operator_memory(call_.has_value() ? *call_ : product, *machine().options().card);
}

}  // namespace locus::bridge
