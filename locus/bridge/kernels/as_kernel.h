// Tensor code of our own that runs as one kernel of a simulated device: operands in at their host addresses,
// results out as device tensors, nothing counted in between. In a dry run the same code runs on tensors without bytes.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <exception>
#include <initializer_list>
#include <optional>
#include <vector>

#include "locus/bridge/door/check.h"
#include "locus/bridge/door/policy.h"
#include "locus/bridge/dry/geometry.h"
#include "locus/bridge/dry/knowledge.h"
#include "locus/bridge/dry/memory.h"
#include "locus/bridge/dry/rule_scope.h"
#include "locus/bridge/memory/memory.h"
#include "locus/bridge/state.h"
#include "locus/bridge/streams/ordering.h"

namespace locus::bridge {

/// For its lifetime the thread runs a kernel of the device that `anchor` is on. Where the values of one of `operands`
/// are not known, in() gives Meta tensors, and out() makes tensors without values of them.
class AsKernel {
 public:
  explicit AsKernel(const at::Tensor& anchor, std::initializer_list<std::optional<at::Tensor>> operands = {})
      : device_(anchor.device().is_cuda() ? anchor.device().index() : t_current_device),
        scope_(device_),
        below_(c10::autograd_dispatch_keyset_with_ADInplaceOrView | c10::DispatchKeySet(kCheckKey)) {
    is_unseen();
    if (!dry::on()) return;
    for (const auto& each : operands) {
      if (each.has_value() && dry::is_unknown(*each) && !rule_.has_value()) rule_.emplace();
    }
    if (!rule_.has_value()) return;
    for (const auto& each : operands) operands_.push_back(each.value_or(at::Tensor()));
  }
  ~AsKernel() {
    if (!key_.empty() && std::uncaught_exceptions() == failing_) dry::learn_geometry(key_, {}, made_, made_.size());
  }
  AsKernel(const AsKernel&) = delete;
  AsKernel& operator=(const AsKernel&) = delete;

  /// What out() gave in an earlier call with operands like these, where values are not known: shape rules in Python
  /// take their time. `call` is the operator's own number, and all that its shapes hang on besides.
  std::optional<std::vector<at::Tensor>> made_before(std::int64_t call) {
    if (!rule_.has_value()) return std::nullopt;
    dry::GeometryKey key{-1 - call};  // those of operators have positive numbers
    for (const at::Tensor& t : operands_) {
      dry::add_tensor(key, t);
      key.push_back(t.defined() ? t.device().index() : -1);
    }
    const auto geometry = dry::recall_geometry(key);
    if (geometry == nullptr) {
      key_ = std::move(key);
      return std::nullopt;
    }
    std::vector<at::Tensor> made;
    for (const auto& each : geometry->returns) {
      const bool none = each.tensors[0].source == dry::TensorGeometry::Source::kNone;
      made.push_back(none ? at::Tensor() : dry::new_unknown(each.tensors[0], device_));
    }
    note_dry(operands_, made);
    return made;
  }

  int device() const { return device_; }
  /// The operand at its host address; raises when it is elsewhere.
  at::Tensor in(const at::Tensor& t) const {
    if (!t.defined()) return t;
    TORCH_CHECK(t.device() == c10::Device(c10::kCUDA, static_cast<c10::DeviceIndex>(device_)),
                "Expected all tensors to be on the same device, but found at least two devices, cuda:", device_,
                " and ", t.device(), "!");
    unknown_ = unknown_ || (dry::on() && dry::is_unknown(t));
    if (ordering()) note_touch(t, /*written=*/false);
    return rule_.has_value() ? dry::twin_of(t) : host_alias(t);
  }
  at::Tensor in(const std::optional<at::Tensor>& t) const { return t.has_value() ? in(*t) : at::Tensor(); }
  /// The same for an operand that is written.
  at::Tensor in_and_out(const at::Tensor& t) const {
    at::Tensor operand = in(t);
    if (rule_.has_value()) dry::set_knowledge(t, dry::Knowledge::kUnknown);
    return operand;
  }
  /// A result made here, as a contiguous tensor of the device.
  at::Tensor out(const at::Tensor& t) const { return out_as_is(t.defined() ? t.contiguous() : t); }
  /// The same with the strides it has. The result must not share memory with an operand. It counts for `bytes` on the
  /// card, for its own size at 0.
  at::Tensor out_as_is(at::Tensor t, std::int64_t bytes = 0) const {
    if (!key_.empty()) made_.emplace_back(t);
    if (!t.defined()) return t;
    if (rule_.has_value()) {
      at::Tensor made = dry::new_unknown(t, device_, bytes);
      if (ordering()) note_touch(made, /*written=*/true);
      return made;
    }
    auto host = c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(t.storage().unsafeGetStorageImpl());
    at::Tensor made = adopt_tensor(std::move(t), adopt_storage(host, device_, static_cast<size_t>(bytes)));
    if (unknown_) dry::set_knowledge(made, dry::Knowledge::kUnknown);
    if (ordering()) note_touch(made, /*written=*/true);
    return made;
  }
  /// In a dry run nothing passes through here: these were read, and these made.
  void note_dry(at::TensorList read, at::TensorList made) const {
    if (!ordering()) return;
    StreamWork work(device_, t_operator);
    for (const at::Tensor& t : read) {
      if (t.defined()) work.touches(t, /*written=*/false);
    }
    for (const at::Tensor& t : made) {
      if (t.defined()) work.touches(t, /*written=*/true);
    }
    work.finish();
  }

 private:
  void note_touch(const at::Tensor& t, bool written) const {
    StreamWork work(device_, t_operator);
    work.touches(t, written);
    work.finish();
  }

  int device_;
  mutable bool unknown_ = false;  ///< an operand's values are, in a dry run: so are the results'
  KernelScope scope_;
  c10::impl::ExcludeDispatchKeyGuard below_;
  std::optional<dry::RuleScope> rule_;  ///< shapes are all there is
  std::vector<at::Tensor> operands_;    ///< then
  dry::GeometryKey key_;                ///< of a call that is to be remembered
  mutable torch::jit::Stack made_;      ///< by it
  int failing_ = std::uncaught_exceptions();
};

}  // namespace locus::bridge
