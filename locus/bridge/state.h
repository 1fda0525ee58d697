// What the parts of the bridge share: the simulated machine, the calling thread's current device
// and streams, and the mark that says "this thread is inside a simulated kernel".
#pragma once

#include <c10/core/Device.h>
#include <c10/core/Stream.h>

#include <atomic>
#include <cstdint>

#include "locus/sim/machine.h"

namespace locus::bridge {

/// The machine under simulation; nullptr until simulate(). Never freed: tensors may outlive everything.
extern std::atomic<sim::Machine*> g_machine;
inline sim::Machine& machine() { return *g_machine.load(std::memory_order_acquire); }
inline bool simulating() { return g_machine.load(std::memory_order_acquire) != nullptr; }

/// Device that `device="cuda"` means on this thread.
extern constinit thread_local int t_current_device;
/// Device whose kernel runs on this thread now, or -1: the CPU allocator then hands out device memory.
extern constinit thread_local int t_kernel_device;

/// Marks the calling thread as running a kernel of `device`, for the lifetime of the object.
class KernelScope {
 public:
  explicit KernelScope(int device) : previous_(t_kernel_device) { t_kernel_device = device; }
  ~KernelScope() { t_kernel_device = previous_; }
  KernelScope(const KernelScope&) = delete;
  KernelScope& operator=(const KernelScope&) = delete;

 private:
  int previous_;
};

/// Checks a device index as the CUDA runtime would: "CUDA error: invalid device ordinal".
void check_device_index(int index);
/// The index of a `cuda` or `cuda:N` device, with the current device for the former; checked.
int resolve_device(c10::Device device);

/// The stream that is current on `device` for this thread.
int64_t current_stream(int device);
void set_current_stream(int device, int64_t stream);

/// Whether this process was forked from one that had used the simulated devices.
bool in_bad_fork();
/// The process has used a device: children that fork from here on are "bad".
void mark_used();
/// Shows the devices that the program leaves itself by CUDA_VISIBLE_DEVICES; without effect once one was used.
void look_at_visible_devices();

/// Installs guard, hooks, allocators and generators for `options`. Throws c10::Error with the way out.
void install_backend(const sim::MachineOptions& options, bool shared_rng);
/// Registers the kernels of every operator on dispatch key CUDA; returns how many.
int install_kernels();
/// Installs the handler that names the tensor behind a stray host read of device memory, above the one that is there;
/// or takes it away, where no other stands above it.
void install_fault_handler(bool on);

}  // namespace locus::bridge
