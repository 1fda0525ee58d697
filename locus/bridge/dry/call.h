// One operator call of a dry run: answered by shapes alone, or left to the kernel.
#pragma once

#include <memory>
#include <optional>

#include "locus/bridge/dry/geometry.h"
#include "locus/bridge/dry/knowledge.h"

namespace locus::bridge::dry {

enum class Answer : std::uint8_t {
  kDone,            ///< the results are on the stack
  kCompute,         ///< all operands are known and all is small: compute it
  kComputeUnknown,  ///< there is no shape rule: compute it on whatever bytes there are, and call finish()
  kTakeApart,       ///< a list of small calls, some known and some not: call them one by one
};

class Call {
 public:
  /// `device`: the simulated device of the call, or -1 for the host.
  Call(const Arguments& arguments, int device) : arguments_(arguments), device_(device) {}

  Answer answer();
  /// After kComputeUnknown: the results on the stack and what was written are unknown; calls like it need not be
  /// computed.
  void finish();
  /// After kTakeApart: calls the operator's parts, and counts the writes, which nobody above does.
  void take_apart();
  /// Whether there is a mask among the indices of an indexing call: a card's host waits for how much it selects.
  bool has_mask() const noexcept { return has_mask_; }

 private:
  using Storages = std::vector<c10::intrusive_ptr<c10::StorageImpl>>;

  Answer decide();
  /// What the known operand decides by itself; none where it does not.
  std::optional<Answer> answer_decided();
  /// How many different values the operator's last result can have; 0: nothing is known of that.
  std::int64_t bound_of_result() const;
  void keep_bound();
  Answer answer_by_shape(bool unknown);
  Answer answer_by_values();
  Answer answer_index(bool unknown);
  Answer answer_list(bool unknown);
  Answer answer_overwrite();
  Answer answer_uniform(Knowledge knowledge);
  Answer compute_unknown(bool quietly = false);
  /// The bytes of what is unknown may be anything: of an earlier tensor, too.
  void fill_unknown() const;
  /// LAPACK takes pivots for the numbers of rows, counted from 1, and some versions of PyTorch don't look at them
  /// before: unknown ones become 1.
  void make_pivots_valid() const;
  bool has_unknown_input() const;
  bool written_fits() const;
  bool returns_only_operands(const OperatorPlan& plan) const;
  bool result_is_small(const Geometry& geometry) const;
  bool draws_for_real(const Geometry& geometry) const;
  void materialize(const Geometry& geometry, Knowledge knowledge);
  at::Tensor make(const TensorGeometry& geometry, Storages& storages, const Geometry& all, Knowledge knowledge);
  c10::IValue make(const ReturnGeometry& geometry, Storages& storages, const Geometry& all, Knowledge knowledge);
  void give(std::initializer_list<TensorGeometry> results);
  const c10::IValue& argument(std::size_t i) const { return arguments_.stack[arguments_.base + i]; }

  Arguments arguments_;
  int device_;
  Operands operands_;
  GeometryKey key_;
  std::vector<at::Tensor> written_;
  bool learns_ = true;
  bool has_mask_ = false;
  std::int64_t bound_ = 0;   ///< of the values of the last result
  std::size_t counted_ = 0;  ///< what the result in hand counts for on the card; 0: its size
};

/// For kernels with a C++ signature: the results of a call by an operator's shape rule, all of them new tensors of
/// `device` (with `only_geometry`, Meta tensors in their place). None where the call is to be computed: nothing is
/// unknown and nothing large, or there is no rule.
std::optional<std::vector<at::Tensor>> by_rule(const char* name, const char* overload, int device,
                                               torch::jit::Stack arguments, bool only_geometry = false);

}  // namespace locus::bridge::dry
