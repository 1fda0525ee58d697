// A process group of which only this rank is sure to run (--ranks): in Gloo's place, for host tensors and, behind a
// Carrier, for those of simulated devices. Every call is done at once, answered by shape. Small values come out as if
// the other ranks had given what this one gives; messages, and what a root hands out, are the real ones where the rank
// that sends them runs as well (locus/engine/ranks/mailbox.h).
#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <vector>

#include "locus/engine/made_up.h"
#include "locus/engine/ranks/mailbox.h"

namespace locus::bridge {

/// The ranks of a group, by its name: their global numbers in the group's own order; empty: not known.
using MembersOf = std::function<std::vector<int>(const std::string& group)>;

class LoneGroup final : public c10d::Backend {
 public:
  using Tensors = std::vector<at::Tensor>;
  using TensorLists = std::vector<Tensors>;
  using WorkPtr = c10::intrusive_ptr<c10d::Work>;

  LoneGroup(int rank, int size) : Backend(rank, size) {}

  /// Where these ranks leave messages for each other; once, before the first group.
  static void begin(engine::ranks::Mailbox mailbox, MembersOf members);
  static bool begun();

  const std::string getBackendName() const override { return "gloo"; }
  void setSequenceNumberForGroup() override {}
  uint64_t getSequenceNumberForGroup() override { return 0; }

  WorkPtr broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override;
  WorkPtr allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override;
  WorkPtr allreduce_coalesced(Tensors& tensors, const c10d::AllreduceCoalescedOptions& options) override;
  WorkPtr reduce(Tensors& tensors, const c10d::ReduceOptions& options) override;
  WorkPtr allgather(TensorLists& outputs, Tensors& inputs, const c10d::AllgatherOptions& options) override;
  WorkPtr _allgather_base(at::Tensor& output, at::Tensor& input, const c10d::AllgatherOptions& options) override;
  WorkPtr allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs, const c10d::AllgatherOptions& o) override;
  WorkPtr gather(TensorLists& outputs, Tensors& inputs, const c10d::GatherOptions& options) override;
  WorkPtr scatter(Tensors& outputs, TensorLists& inputs, const c10d::ScatterOptions& options) override;
  WorkPtr reduce_scatter(Tensors& outputs, TensorLists& inputs, const c10d::ReduceScatterOptions& options) override;
  WorkPtr _reduce_scatter_base(at::Tensor& output, at::Tensor& input, const c10d::ReduceScatterOptions& o) override;
  WorkPtr reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                          const c10d::ReduceScatterOptions& options) override;
  WorkPtr alltoall_base(at::Tensor& output, at::Tensor& input, std::vector<int64_t>& output_splits,
                        std::vector<int64_t>& input_splits, const c10d::AllToAllOptions& options) override;
  WorkPtr alltoall(Tensors& outputs, Tensors& inputs, const c10d::AllToAllOptions& options) override;
  WorkPtr send(Tensors& tensors, int destination, int tag) override;
  WorkPtr recv(Tensors& tensors, int source, int tag) override;
  WorkPtr barrier(const c10d::BarrierOptions& options) override;
  void monitoredBarrier(const c10d::BarrierOptions& options, bool wait_all_ranks) override;

 private:
  /// The global number of a rank of this group; -1: not known.
  int global(int place) const;
  /// The number of the next message from one rank to another (-1: to all), with the name of its channel.
  struct Mail {
    std::string key;
    std::string like;  ///< what that of another group along the same dimension of the cluster has, too; may be empty
  };
  Mail next_mail(const at::Tensor& t, int source, int target, int tag);
  void take(const at::Tensor& t, const Mail& mail, int source, bool on_demand);
  /// The reduction of what this rank gives, if all gave the same.
  void reduced(const at::Tensor& out, const at::Tensor& in, const c10d::ReduceOp& how);

  std::mutex mutex_;
  std::map<std::string, uint64_t> counts_;  ///< of messages, by who sends them to whom
};

/// Lines at which ranks that do not run were taken to have given what this one gave. It mattered there: small values
/// came out of it.
engine::MadeUpTable& taken_as_same();
void note_taken_as_same();

}  // namespace locus::bridge
