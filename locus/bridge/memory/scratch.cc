// See scratch.h.
#include "locus/bridge/memory/scratch.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <utility>

#include "locus/bridge/memory/library_handles.h"

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

/// cuBLAS's workspaces on one device.
struct Workspaces {
  std::mutex mutex;
  std::map<std::pair<int, int64_t>, Scratch> blas, blas_lt;  // by handle and stream
};
Workspaces& workspaces_of(int device) {
  static auto* all =
      new std::array<Workspaces, sim::kMaxDevices>;  // never destroyed: threads may end after exit handlers
  return (*all)[static_cast<size_t>(device)];
}
std::atomic<std::uint32_t> g_generation{0};  // how often workspaces were cleared

/// What this thread knows to be there: most products need no more than to look here.
struct KnownWorkspace {
  std::uint32_t generation = 0;
  int64_t stream = -1;
  bool blas = false, lt = false;
};
thread_local std::array<KnownWorkspace, sim::kMaxDevices> t_known;

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
  KnownWorkspace& known = t_known[static_cast<size_t>(device)];
  const int64_t stream = current_stream(device);
  const std::uint32_t generation = g_generation.load(std::memory_order_relaxed);
  if (known.blas && (known.lt || !lt) && known.stream == stream && known.generation == generation) return;
  const sim::Card& card = *machine().options().card;
  const std::pair<int, int64_t> key(library_handle(sim::Library::kBlas, device), stream);
  Workspaces& there = workspaces_of(device);
  // The handle is this thread's, so nobody else adds what is missing; booking it may ask Python, which takes no lock
  // along.
  const auto hold = [&](auto& workspaces, std::int64_t bytes) {
    std::unique_lock<std::mutex> lock(there.mutex);
    if (workspaces.find(key) != workspaces.end()) return;
    lock.unlock();
    Scratch taken(device, bytes);
    lock.lock();
    workspaces.emplace(key, std::move(taken));
  };
  hold(there.blas, sim::blas_workspace(card, settings()));
  if (lt) hold(there.blas_lt, sim::blas_lt_workspace(card, settings()));
  known.blas = true;
  known.lt = lt || (known.lt && known.stream == stream && known.generation == generation);
  known.stream = stream;
  known.generation = generation;
}

void clear_blas_workspaces() {
  g_generation.fetch_add(1, std::memory_order_relaxed);
  for (int device = 0; device < machine().devices(); ++device) {
    Workspaces& there = workspaces_of(device);
    const std::lock_guard<std::mutex> lock(there.mutex);
    there.blas.clear();
    there.blas_lt.clear();
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
