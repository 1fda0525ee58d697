// See the header. What is short is decided in locus/sim; here it becomes an exception.
#include "locus/bridge/host_room.h"

#include <ATen/EmptyTensor.h>
#include <pybind11/pybind11.h>
#include <torch/csrc/Exceptions.h>

#include <string>
#include <utility>

#include "locus/bridge/compat.h"
#include "locus/bridge/dry/knowledge.h"
#include "locus/bridge/state.h"

namespace locus::bridge {
namespace {

/// locus.errors.HostMemoryError in Python. Neither a RuntimeError nor PyTorch's OutOfMemoryError: programs catch those
/// to try a smaller batch, and would learn something about the card that is not so.
struct HostMemoryError final : torch::PyTorchError {
  using PyTorchError::PyTorchError;
  PyObject* python_type() override {
    static PyObject* type = [] {
      PyObject* module = PyImport_ImportModule("locus.errors");
      PyObject* found = module != nullptr ? PyObject_GetAttrString(module, "HostMemoryError") : nullptr;
      if (found == nullptr) PyErr_Clear();
      return found != nullptr ? found : PyExc_MemoryError;
    }();
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
  if (fits == nullptr) raise_out_of_memory(sim::out_of_memory_message(why));
  memory.free(fits);
  throw HostMemoryError(sim::no_chunk_message(device, bytes, machine().arena(), refusal));
}

}  // namespace

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
