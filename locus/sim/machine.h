// The simulated machine: how many devices of what kind, with how much memory. The one owner of
// arena, caching models and streams. Lives from the first configure() to the end of the process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "locus/sim/arena.h"
#include "locus/sim/caching_model.h"
#include "locus/sim/cards.h"
#include "locus/sim/host_guard.h"
#include "locus/sim/stream.h"

namespace locus::sim {

constexpr int kMaxDevices = 64;

/// What torch.cuda.get_device_properties() tells of a card.
struct DeviceProperties {
  std::string name;
  int major = 0, minor = 0, multi_processor_count = 0, warp_size = 32;
  int max_threads_per_multi_processor = 2048, regs_per_multiprocessor = 65536;
  std::size_t shared_memory_per_block = 49152, shared_memory_per_block_optin = 232448,
              shared_memory_per_multiprocessor = 233472;
  std::size_t total_memory = 0, l2_cache_size = 0;
  int clock_rate_khz = 0, memory_clock_rate_khz = 0, memory_bus_width = 0;
  bool is_integrated = false, is_multi_gpu_board = false;
  int pci_bus_id = 0, pci_device_id = 0, pci_domain_id = 0;
  std::string uuid;  ///< 8-4-4-4-12 hex digits, the same in every run
};

struct MachineOptions {
  int devices = 1;                                   ///< 0 to kMaxDevices
  std::size_t memory_bytes = std::size_t{80} << 30;  ///< capacity of each device
  HostBudget host = {};                              ///< what all of them may fill of this machine's memory
  const Card* card = &default_card();                ///< what each of them is
  bool beyond_capacity = false;                      ///< more may be handed out than a device has, see dry runs
};

/// "80GiB", "24 GB", "512MiB", "1.5g", "1000000": bytes; nullopt for anything else (also 0, negative, too large).
std::optional<std::size_t> parse_bytes(std::string_view text);

/// The devices that CUDA_VISIBLE_DEVICES="1,0" leaves of so many, in its order; it ends at the first that is not there.
std::vector<int> visible_devices(std::string_view text, int devices);

class Machine {
 public:
  explicit Machine(const MachineOptions& options);
  ~Machine();
  int devices() const noexcept { return static_cast<int>(visible_.size()); }
  /// Hides all devices but these, and numbers them anew; before the first of them is used.
  void show(std::vector<int> devices) { visible_ = std::move(devices); }
  /// The number that a device has on the machine, whatever is hidden.
  int number(int device) const { return visible_.at(static_cast<std::size_t>(device)); }
  const MachineOptions& options() const noexcept { return options_; }
  const DeviceProperties& properties(int device) const { return properties_.at(device); }
  Arena& arena() noexcept { return *arena_; }
  HostGuard& host() noexcept { return *host_; }
  CachingModel& memory(int device) noexcept { return *memory_[device]; }
  Streams& streams() noexcept { return *streams_; }

 private:
  MachineOptions options_;
  std::vector<int> visible_;
  std::vector<DeviceProperties> properties_;
  std::unique_ptr<Arena> arena_;
  std::unique_ptr<HostGuard> host_;
  std::vector<std::unique_ptr<CachingModel>> memory_;
  std::unique_ptr<Streams> streams_;
};

}  // namespace locus::sim
