// The clock that DistributedDataParallel reads around its phases, for modules on simulated devices: kernels run on the
// calling thread, so the host's clock is right.
#include <c10/util/Registry.h>

#include <chrono>
#include <memory>
#include <torch/csrc/distributed/c10d/reducer_timer.hpp>

#include "locus/bridge/python/module.h"

namespace locus::bridge {
namespace {

class HostTimer final : public c10d::Timer {
 public:
  void record(Event event) override { getTimeRef(event) = now(); }
  std::optional<int64_t> measureDifference(Event start, Event end) override {
    const int64_t from = getTimeRef(start), to = getTimeRef(end);
    if (to < from) return std::nullopt;  // the end was not recorded in this iteration
    return to - from;
  }

 private:
  static int64_t now() {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
  }
};

}  // namespace

void install_ddp_timer() {
  static const bool once = [] {
    // Before that of a CUDA build, which would ask the driver.
    c10d::TimerRegistry()->Register(
        c10::DeviceType::CUDA,
        [](c10::Device) -> std::unique_ptr<c10d::Timer> { return std::make_unique<HostTimer>(); },
        c10::REGISTRY_PREFERRED);
    return true;
  }();
  (void)once;
}

}  // namespace locus::bridge
