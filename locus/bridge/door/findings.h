// From a broken rule to a finding: hands what the bridge saw to Python, which knows names and sources, and takes
// back what to do.
#pragma once

#include <ATen/core/Tensor.h>
#include <pybind11/pybind11.h>

#include <functional>

#include "locus/bridge/door/check.h"
#include "locus/engine/site.h"

namespace locus::bridge {

struct Decision {
  bool raise = false;  ///< the program means to catch the error
  c10::Device device;  ///< where the odd operands should go
};

/// Asks Python, by the way of courier.h. Never throws for a fault of the reporting itself: the program goes on.
Decision report_violation(const Call& call, const Violation& violation, engine::SiteId site, uint64_t key);
/// The same for what Python saw itself (a CASE that is not yet one); the GIL is held.
Decision report_raw(pybind11::dict& raw, c10::Device fallback);
/// Who is asked: called with a raw case, gives (raise, device). The GIL is held.
void set_reporter(pybind11::object reporter);
/// Whether the reporting itself had a fault that could only be said on standard error.
bool fault_said() noexcept;
/// Optimizer steps that the program has made.
int64_t steps_made() noexcept;
/// A host read of a tensor whose copy from `device` was still under way.
void report_early_read(const std::string& op, const at::Tensor& tensor, int argument, int device,
                       const std::function<bool()>& in_doubt = nullptr);

}  // namespace locus::bridge
