// What is done about a broken rule, so that the program can go on: operands are moved to where they belong.
#pragma once

#include <c10/util/SmallVector.h>

#include <utility>

#include "locus/bridge/door/check.h"

namespace locus::bridge {

/// Replaces the odd operands of a call by copies on `target`; where an operand is written to, its device wins.
void move_operands(const Call& call, const Violation& violation, c10::Device target);

/// Batch norms write to their running averages, which their schemas don't say. Where these were moved, what was written
/// is brought back.
class Averages {
 public:
  /// Before the operands are moved.
  explicit Averages(const Call& call);
  /// After that, before the call takes them.
  void compare();
  void bring_back() const;

 private:
  const Call& call_;
  c10::SmallVector<std::pair<size_t, at::Tensor>, 2> given_;
  c10::SmallVector<std::pair<at::Tensor, at::Tensor>, 2> moved_;
};

}  // namespace locus::bridge
