// CUDA graphs. While a stream is captured, each operator that is put there is run, so that its results have their
// shapes, and kept; when the capture ends, what it has written is put back, as if nothing had run. A replay runs what
// was kept into the same memory. What a card refuses in a capture is refused in its words.
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <unordered_set>
#include <utility>
#include <vector>

#include "locus/bridge/kernels/plan.h"
#include "locus/bridge/streams/ordering.h"
#include "locus/sim/caching_model.h"

namespace locus::bridge {

/// Whether a capture is under way somewhere in this process.
extern std::atomic<bool> g_capturing;
inline bool capturing() { return g_capturing.load(std::memory_order_relaxed); }

using sim::PoolId;

/// Who may not do, while a capture is under way, what takes memory or waits for the card: `capture_error_mode`.
enum class CaptureMode : std::uint8_t { kEveryThread, kItsThread, kNobody };

/// torch.cuda.CUDAGraph.
class Graph {
 public:
  /// One operator, or one copy where there is no operator.
  struct Step {
    std::optional<c10::OperatorHandle> op;
    torch::jit::Stack inputs;
    std::vector<at::Tensor> outputs;  ///< what the replay's results go to
  };
  /// Memory from before the capture that the graph works on.
  struct Outside {
    c10::weak_intrusive_ptr<c10::StorageImpl> storage;
    const void* data;
    engine::SiteId site;
    engine::OperatorId op;
    bool written;
    PoolId pool;  ///< a graph's: freed or not, the memory is there as long as somebody holds the pool
  };

  Graph();
  ~Graph();
  void capture_begin(std::optional<PoolId> pool, CaptureMode mode);
  void capture_end();
  void replay();
  void reset();
  void register_generator(at::Generator generator);
  PoolId pool() const { return pool_; }
  /// The line of the capture that reads this memory from before it; none where the graph does not, or writes to it.
  std::optional<engine::SiteId> read_at(const at::Tensor& t) const;
  /// The memory that the graph itself has made and that is still a tensor's.
  std::unordered_set<const c10::StorageImpl*> made_storages() const;

 private:
  friend class Capture;
  void run(const Step& step) const;
  void look_at_outside(StreamWork* work) const;
  void let_go_of_pool();

  bool captured_ = false;
  int device_ = 0;
  PoolId pool_{0, 0};
  bool holds_pool_ = false;  // until it is reset or gone: nobody else gets that memory
  std::vector<Step> steps_;
  std::map<const c10::StorageImpl*, Outside> outside_;
  std::vector<c10::weak_intrusive_ptr<c10::StorageImpl>> made_;
  std::vector<at::Generator> generators_;
};

/// Whether work on this stream goes into a graph.
bool is_captured(int device, int64_t stream);

// What the rest of the bridge says, where capturing().

/// A kernel; `run` runs it. The arguments are on the stack, the results take their place.
void capture_call(const c10::OperatorHandle& op, const OperatorPlan& plan, torch::jit::Stack* stack,
                  const std::function<void()>& run);
/// A copy; false: it is none of the capture's.
bool capture_copy(const at::Tensor& to, const at::Tensor& from, bool non_blocking);
/// Memory is taken: the pool that a card would have it from.
PoolId capture_memory(const c10::intrusive_ptr<c10::StorageImpl>& host, int device, int64_t stream);
/// An event is recorded on a stream, or a stream waits for it.
void capture_record(OrderedEvent* event, int device, int64_t stream);
void capture_wait(int device, int64_t stream, const OrderedEvent& event);
/// The host waits for a stream (any: -1) or an event: not in a capture.
void refuse_to_wait(const char* op, int device, int64_t stream);
void refuse_event(const char* op, const OrderedEvent& event);

}  // namespace locus::bridge
