// Two accesses that nothing orders, on their way to a finding.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

#include "locus/engine/origin.h"
#include "locus/order/order.h"

namespace locus::bridge {

/// The later of two accesses; the earlier one is the conflict's.
struct LaterAccess {
  order::Lane lane;
  order::Kind kind;
  order::Note note;
  const at::Tensor* tensor;   ///< nullptr: it has none yet
  std::uint64_t address = 0;  ///< of an access that is no operator's
};

/// Reports the first of its kind, counts the others. Then the program goes on as if it had waited.
void report_race(const order::Conflict& conflict, const LaterAccess& later);

}  // namespace locus::bridge
