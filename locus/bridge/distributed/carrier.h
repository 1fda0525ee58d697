// The c10d backend behind simulated CUDA tensors. Knows NCCL's rules; the bytes go through Gloo.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <vector>

#include "locus/bridge/compat.h"
#include "locus/bridge/distributed/carried_work.h"

namespace locus::bridge {

/// The options that a program may set for NCCL; only the time limit means anything here.
struct NcclOptions : c10d::Backend::Options {
  explicit NcclOptions(bool high_priority = false)
      : Options("nccl", std::chrono::minutes(10)), is_high_priority_stream(high_priority) {}
  bool is_high_priority_stream;
};

/// One call, as the rules and the other ranks need to know it.
struct Collective {
  const char* name;  ///< as in torch.distributed: "all_reduce"
  c10d::OpType type;
  at::Tensor tensor;      ///< the one that stands for the call; undefined in a barrier
  int64_t elements = -1;  ///< of what all ranks must agree on; -1: they need not
  int root = -1;          ///< of one-to-all and all-to-one calls; the other side of a send or recv
  const char* reduction = "";
  int tag = 0;                         ///< of a send or recv
  std::vector<at::Tensor> given = {};  ///< what this rank gives, where that is not `tensor` itself
};

class Carrier;
/// Hears of every call before it starts, while a program is checked; may throw, which ends the call.
using CollectiveListener = std::function<void(Carrier&, const Collective&, uint64_t sequence)>;
/// Hears that ranks of a group share a device; true: it was reported, and the group goes on.
using SharingListener = std::function<bool(Carrier&, c10::Device, const std::vector<int>& ranks)>;
void set_listeners(CollectiveListener on_call, SharingListener on_sharing);

using Tensors = std::vector<at::Tensor>;
using TensorLists = std::vector<Tensors>;
using WorkPtr = c10::intrusive_ptr<c10d::Work>;

class Carrier final : public c10d::Backend {
 public:
  Carrier(c10::intrusive_ptr<c10d::Backend> gloo, c10::intrusive_ptr<c10d::Store> store, std::string name,
          c10::intrusive_ptr<Options> options);

  const std::string getBackendName() const override { return name_; }
#if LOCUS_HAS_COALESCING_QUESTION
  bool supportsCoalescing() const override { return true; }
#endif
  c10::intrusive_ptr<Options> options() const { return options_; }
#if LOCUS_HAS_BACKEND_OPTIONS
  c10::intrusive_ptr<Options> getBackendOptions() override { return options_; }
  void setTimeout(std::chrono::milliseconds timeout) override { options_->timeout = timeout; }
#endif
  void startCoalescing() override;
  WorkPtr endCoalescing() override;
  void setSequenceNumberForGroup() override {}
  uint64_t getSequenceNumberForGroup() override { return sequence_; }

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

  /// The sequence numbers of the calls that are not done yet; those of sends and receives are negative.
  std::vector<int64_t> pending();
  /// Those of them that a thread of the program waits for.
  std::vector<int64_t> waited_for();
  /// The others will not come: ends every call that is under way, and the next ones, with this error.
  void give_up(const std::string& why);
  /// A call of Python's own making, such as all_gather_object(), where nothing else stands for it.
  void announce(const char* name);

 private:
  using Parts = std::vector<WorkPtr>;

  /// Checks NCCL's rules, and lets the other ranks know of the call.
  void begin(const Collective& call);
  WorkPtr carry(const Collective& call, Parts parts, Tensors results, std::function<void()> finish = {});
  /// Whether the bytes of a call travel: in a dry run, those of small tensors do.
  static bool has_bytes(size_t bytes, const at::Tensor& like);
  /// Dry runs: tells the others whether what this rank gives is known, and the results whether all was.
  void carry_knowledge(const Collective& call, Parts& parts, const Tensors& results, std::function<void()>& finish);
  /// What the call touches, and in which order with the rest.
  void follow(const Collective& call, CarriedWork& work, c10::Device device);
  /// One element-wise reduction over all ranks, in place, of a flat host tensor.
  WorkPtr add_up(at::Tensor& host, const c10d::ReduceOp& how, std::chrono::milliseconds timeout);
  WorkPtr reduce_scatter_bytes(const Collective& call, at::Tensor sum, const at::Tensor& output, int64_t offset,
                               const c10d::ReduceOp& how, std::chrono::milliseconds timeout);
  WorkPtr exchange(const Collective& call, at::Tensor out, std::vector<int64_t> out_bytes, at::Tensor in,
                   std::vector<int64_t> in_bytes, Tensors results, std::function<void()> finish,
                   const c10d::AllToAllOptions& options);
  /// NCCL wants each rank of a group on a device of its own; looked at before the first collective.
  void claim_device(c10::Device device);

  c10::intrusive_ptr<c10d::Backend> gloo_;
  bool lone_;  ///< the rest of the world does not run: a LoneGroup is in Gloo's place
  c10::intrusive_ptr<c10d::Store> store_;
  std::string name_;
  c10::intrusive_ptr<Options> options_;
  std::atomic<uint64_t> sequence_{0};       ///< of collectives: all ranks of the group count alike
  std::atomic<uint64_t> pair_sequence_{0};  ///< of sends and receives
  /// Apart from the group: the last work may end on a thread of Gloo's, which must not be the one to end Gloo.
  struct UnderWay {
    std::mutex mutex;
    std::map<int64_t, c10::weak_intrusive_ptr<CarriedWork>> works;
    std::string given_up;
    int64_t claiming = 0;  ///< the call that waits for the others' devices, before it is a work
  };
  std::shared_ptr<UnderWay> under_way_ = std::make_shared<UnderWay>();
  std::map<int, int64_t> streams_;  ///< that collectives run on, by device
  std::once_flag claimed_;
  std::optional<Parts> coalesced_;
  c10::Device coalesced_device_{c10::kCUDA, 0};
};

}  // namespace locus::bridge
