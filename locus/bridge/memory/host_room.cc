// See the header. What is short is decided in locus/sim; here it becomes an exception.
#include "locus/bridge/memory/host_room.h"

#include <ATen/EmptyTensor.h>
#include <pybind11/pybind11.h>
#include <torch/csrc/Exceptions.h>

#include <string>
#include <utility>

#include "locus/bridge/compat.h"
#include "locus/bridge/door/origins.h"
#include "locus/bridge/door/real.h"
#include "locus/bridge/door/watch.h"
#include "locus/bridge/dry/knowledge.h"
#include "locus/bridge/memory/memory.h"
#include "locus/bridge/memory/memory_history.h"
#include "locus/bridge/memory/out_of_memory.h"
#include "locus/bridge/memory/pools.h"
#include "locus/bridge/memory/purpose.h"
#include "locus/bridge/python/own_errors.h"
#include "locus/bridge/state.h"

namespace locus::bridge {
namespace {

/// locus.errors.HostMemoryError in Python. Neither a RuntimeError nor PyTorch's OutOfMemoryError: programs catch those
/// to try a smaller batch, and would learn something about the card that is not so.
struct HostMemoryError final : torch::PyTorchError {
  using PyTorchError::PyTorchError;
  PyObject* python_type() override {
    static PyObject* type = own_error("HostMemoryError", PyExc_MemoryError);
    return type;
  }
};

[[noreturn]] void raise_no_chunk(size_t bytes, int device, sim::Arena::Refusal refusal) {
  TORCH_CHECK(!in_bad_fork(),
              "Cannot re-initialize CUDA in forked subprocess. To use CUDA with multiprocessing, you must use the "
              "'spawn' start method");
  auto& memory = machine().memory(device);
  sim::OutOfMemory why;  // asked of the model too, so that the failure is counted where PyTorch counts it
  auto* fits = memory.allocate(bytes, current_stream(device), &why);
  if (fits == nullptr) raise_out_of_memory(why);
  memory.free(fits);
  throw HostMemoryError(sim::no_chunk_message(device, bytes, machine().arena(), refusal));
}

constinit thread_local bool t_uncounted = false;  // see UncountedScope

}  // namespace

UncountedScope::UncountedScope() : outer_(t_uncounted) { t_uncounted = true; }
UncountedScope::~UncountedScope() { t_uncounted = outer_; }
bool in_uncounted_scope() noexcept { return t_uncounted; }

void book_late(const c10::StorageImpl& storage) {
  DeviceBlock* block = block_of(storage);
  if (block == nullptr || block->booking.account != nullptr) return;
  block->booking = book(storage.nbytes(), block->device, nullptr);
}

Booking book(size_t bytes, int device, void* host, bool scratch) {
  if (t_uncounted) {
    if (host != nullptr) label_new_memory(host, bytes);
    return {};
  }
  auto& memory = machine().memory(device);
  sim::OutOfMemory why;
  Booking booking;
  const int64_t stream = current_stream(device);
  const sim::PoolId pool = current_pool(device, stream);
  note_asker_if_recorded();
  booking.account = memory.allocate(bytes, stream, &why, pool);
  if (booking.account == nullptr) {
    if (!dry::on() || dry::settings().strict_memory) raise_out_of_memory(why);
    report_out_of_memory(why);
    booking.account = memory.allocate_beyond(bytes, stream, pool);
    dry::note(engine::MadeUpKind::kMemory, memory.reserved() - static_cast<std::int64_t>(why.capacity));
  }
  booking.counted = watching() && !on_real_devices();
  if (host != nullptr) {
    booking.site = label_new_memory(host, bytes);
  } else if (booking.counted) {
    booking.site = current_site();
  }
  if (booking.counted) {
    booking.mark = memory_by_line(device).allocated(booking.site,
                                                    static_cast<int64_t>(sim::CachingModel::size_of(booking.account)),
                                                    scratch ? engine::MemoryKind::kWorkspace : kind_of_new_memory());
    note_in_timeline(device, memory.allocated());
  }
  return booking;
}

void unbook(const Booking& booking, int device) noexcept {
  auto& memory = machine().memory(device);
  if (booking.counted) {
    memory_by_line(device).freeing(booking.site, static_cast<int64_t>(sim::CachingModel::size_of(booking.account)),
                                   memory.allocated(), booking.mark);
  }
  note_asker_if_recorded();
  memory.free(booking.account);
  if (watching() && !on_real_devices()) note_in_timeline(device, memory.allocated());
}

void* take_chunk(size_t bytes, int device, bool filled) {
  auto& arena = machine().arena();
  auto refusal = sim::Arena::Refusal::kFull;
  // A result larger than the whole card can't fit whatever else is freed: refuse before the host's memory is spent.
  const bool fits = bytes <= machine().memory(device).capacity() || dry::on();
  void* host = fits ? arena.allocate(device, bytes, &refusal) : nullptr;
  if (host == nullptr) raise_no_chunk(bytes, device, refusal);
  if (const auto shortage = machine().host().admit(host, bytes, filled)) {
    arena.release(host);
    throw HostMemoryError(sim::host_shortage_message(device, *shortage));
  }
  return host;
}

void need_room_to_fill(const at::Tensor& host, int device) {
  if (!host.defined() || !host.has_storage() || host.numel() == 0) return;
  const size_t bytes = at::detail::computeStorageNbytes(host.sizes(), host.strides(), host.dtype().itemsize());
  if (const auto shortage = machine().host().may_fill(host.const_data_ptr(), bytes)) {
    throw HostMemoryError(sim::host_shortage_message(device, *shortage));
  }
}

void define_host_memory_error() {
  pybind11::register_exception_translator([](std::exception_ptr thrown) {
    try {
      if (thrown) std::rethrow_exception(thrown);
    } catch (HostMemoryError& error) {
      PyErr_SetString(error.python_type(), error.what());
    }
  });
}

}  // namespace locus::bridge
