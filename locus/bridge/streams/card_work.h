// What an operator does to the memory of a real card, and a copy to pinned memory, as the door sees it: told to
// locus/order. What is no operator of PyTorch's own is not seen: then nothing is said.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/SmallVector.h>

#include <memory>
#include <optional>
#include <string>

#include "locus/bridge/door/check.h"
#include "locus/bridge/streams/card_memory.h"
#include "locus/bridge/streams/ordering.h"

namespace locus::bridge {

/// One call. Its operands are told of before it is made: it may wait for them itself. Its results are afterwards.
class CardWork {
 public:
  explicit CardWork(const Call& call);
  void finish(size_t returns);

 private:
  void tell_operands();
  void tell_copy(const at::Tensor& from, const at::Tensor* to);
  void touch(StreamWork* work, const at::Tensor& t, bool written, int argument);
  StreamWork work_on(order::Lane lane) const;
  void tell_result(const at::Tensor& t);
  void guarded(void (CardWork::*part)()) noexcept;
  void tell_results();

  const Call& call_;
  size_t returns_ = 0;
  std::uint64_t taken_;  ///< blocks, when the call began
  std::uint32_t waits_;  ///< of this thread
  at::Tensor source_;    ///< of a copy from a card to the host that does not wait, and has no target yet
  c10::SmallVector<at::Tensor, 8> tensors_;  ///< stay where they are while they are told of
  c10::SmallVector<std::shared_ptr<void>, 8> held_;
};

/// The call asks for a tensor's geometry, or changes it; its values stay untouched.
bool leaves_values(const Call& call);
/// Not zeros_like, new_empty, …: they ask for the geometry of their operand, and for none of its values.
bool reads_values(const OperatorPlan& plan);
/// Whether a call is to be followed.
bool follows_on_card(const OperatorPlan& plan);

/// The host itself reads or writes pinned memory, by an operator. True: a copy may still be under way there.
bool order_card_host_access(const std::string& op, const at::Tensor& t, order::Kind kind, int argument);

}  // namespace locus::bridge
