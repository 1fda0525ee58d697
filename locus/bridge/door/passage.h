// One call on its way through the door: the line it comes from, what its operands are, what it makes. Hot path.
#pragma once

#include <ATen/SequenceNumber.h>
#include <ATen/core/Tensor.h>

#include <atomic>

#include "locus/bridge/door/origins.h"
#include "locus/bridge/door/watch.h"
#include "locus/bridge/kernels/plan.h"

namespace locus::bridge {

/// What made a tensor's memory; 0 where it is not known.
engine::OriginId origin_of_tensor(const at::Tensor& t);

/// Operator calls that the door has seen.
extern std::atomic<uint64_t> g_calls;

/// How many composites of a real card's are under way on this thread, whose parts come to the door.
extern constinit thread_local int t_composites;
struct InsideComposite {
  InsideComposite() { t_composites += 1; }
  ~InsideComposite() { t_composites -= 1; }
  InsideComposite(const InsideComposite&) = delete;
  InsideComposite& operator=(const InsideComposite&) = delete;
};

/// Made before a call is judged. Its operands are looked at before the call runs, its results are noted after.
class Passage {
 public:
  explicit Passage(const OperatorPlan& plan);
  ~Passage() { site_ = outer_site_; }
  Passage(const Passage&) = delete;
  Passage& operator=(const Passage&) = delete;

  /// The result's history is that of the operand that was put where it is, else of the first one.
  void look_at(const at::Tensor& t) {
    if (!from_moved_ && t.defined()) look_closer(t);
  }
  /// The call is done: the autograd nodes that it made have its line.
  void end() const noexcept {
    const uint64_t after = at::sequence_number::peek();
    if (after != sequence_) note_forward_site(sequence_, after, site_);
  }
  /// A result, and its number among the results. A storage that is known already (a view, an in-place result) keeps its
  /// origin.
  void note(const at::Tensor& t, size_t number) {
    if (t.defined() && t.has_storage()) note_storage(t, number < 32 && (plan_.aliases >> number & 1) != 0);
  }

 private:
  void look_closer(const at::Tensor& t);
  void note_storage(const at::Tensor& t, bool aliased);
  engine::OriginId make(const at::Tensor& t) const;

  const OperatorPlan& plan_;
  engine::SiteId& site_;  ///< this thread's t_site
  engine::SiteId outer_site_;
  std::uint32_t waits_;  ///< this thread's t_card_waits
  uint64_t sequence_;    ///< moving an operand makes a node too
  bool has_operand_ = false;
  bool from_moved_ = false;
  c10::Device source_device_{c10::kCPU};
  engine::OriginId parent_ = 0;
};

}  // namespace locus::bridge
