// Everything that differs between the PyTorch versions Locus builds against (2.6 to 2.14),
// in one place. Nothing else in the bridge may ask for the version.
#pragma once

#include <c10/core/Allocator.h>
#include <c10/util/Exception.h>
#include <torch/csrc/utils/device_lazy_init.h>
#include <torch/version.h>

#define LOCUS_TORCH_AT_LEAST(major, minor) \
  (TORCH_VERSION_MAJOR > (major) || (TORCH_VERSION_MAJOR == (major) && TORCH_VERSION_MINOR >= (minor)))

#if __has_include(<c10/core/CachingDeviceAllocator.h>) && LOCUS_TORCH_AT_LEAST(2, 9)
#include <c10/core/CachingDeviceAllocator.h>
#define LOCUS_HAS_DEVICE_ALLOCATOR 1
#else
#define LOCUS_HAS_DEVICE_ALLOCATOR 0
#endif

/// Whether a c10d backend is asked for its options and time limit through the base class.
#define LOCUS_HAS_BACKEND_OPTIONS LOCUS_TORCH_AT_LEAST(2, 13)

/// Whether a c10d backend is asked if it can put calls together.
#define LOCUS_HAS_COALESCING_QUESTION LOCUS_TORCH_AT_LEAST(2, 7)

namespace locus::bridge {

/// Raises what PyTorch raises when a CUDA call fails: AcceleratorError where it exists, else RuntimeError.
[[noreturn]] inline void raise_accelerator_error([[maybe_unused]] int code, const std::string& message) {
#if LOCUS_TORCH_AT_LEAST(2, 9)
  throw c10::AcceleratorError({__func__, __FILE__, static_cast<uint32_t>(__LINE__)}, code, message);
#else
  TORCH_CHECK(false, message);
#endif
}

/// Exceptions that Python sees as torch.OutOfMemoryError.
[[noreturn]] inline void raise_out_of_memory(const std::string& message) {
  throw c10::OutOfMemoryError({__func__, __FILE__, static_cast<uint32_t>(__LINE__)}, message);
}

/// PyTorch forgets in a forked child that CUDA was initialized only when told to; then it asks again, and refuses.
/// Older versions have no such call; there the first allocation in the child refuses.
inline void forget_initialization_in_children() {
#if LOCUS_TORCH_AT_LEAST(2, 9)
  torch::utils::register_fork_handler_for_device_init(c10::kCUDA);
#endif
}

}  // namespace locus::bridge
