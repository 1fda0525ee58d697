// Where device memory comes from, and what is said when the card, or the machine under it, has no more.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>

namespace locus::bridge {

/// A chunk of device memory at its host address. `filled`: a kernel is about to write all of it. Raises
/// OutOfMemoryError where the card is full, locus.errors.HostMemoryError where the host is.
void* take_chunk(size_t bytes, int device, bool filled);

/// Before a kernel of `device` fills a host twin; raises HostMemoryError. Ask only while machine().host().tight().
void need_room_to_fill(const at::Tensor& host, int device);

/// Has pybind11 hand HostMemoryError on to Python; PyTorch's own bindings do by themselves.
void define_host_memory_error();

}  // namespace locus::bridge
