// The capture of a CUDA graph that is under way: what has been kept, what must be put back, which streams take part.
#pragma once

#include <c10/core/impl/LocalDispatchKeySet.h>

#include <cstring>
#include <map>
#include <memory>
#include <ranges>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "locus/bridge/door/check.h"
#include "locus/bridge/door/watch.h"
#include "locus/bridge/dry/knowledge.h"
#include "locus/bridge/kernels/generator.h"
#include "locus/bridge/kernels/special.h"
#include "locus/bridge/memory/memory.h"
#include "locus/bridge/streams/graphs.h"

namespace locus::bridge {

using Memory = c10::intrusive_ptr<c10::StorageImpl>;

/// What must not see the calls of a capture's or a replay's own.
constexpr c10::DispatchKeySet kAboveGraphs =
    c10::autograd_dispatch_keyset_with_ADInplaceOrView | c10::DispatchKeySet(kCheckKey);

/// The capture that is under way: one a process, as PyTorch has it.
class Capture {
 public:
  Capture(Graph* graph, int device, int64_t stream, CaptureMode mode)
      : graph_(graph), device_(device), origin_(stream), mode_(mode) {
    streams_[stream] = order::Lane{0};
    clocks_.emplace_back();
    for (const at::Generator& generator : generators()) {
      states_.emplace_back(generator, cpu_generator_of(generator).get_state());  // a tensor of its own
    }
  }

  /// Puts back what was written, as if nothing had run.
  void undo() {
    const c10::impl::ExcludeDispatchKeyGuard below(kAboveGraphs);
    for (auto& [memory, bytes] : saved_) std::memcpy(memory->mutable_data(), bytes.data(), bytes.size());
    for (const Memory& memory : made_) {
      if (dry::on() && memory->nbytes() > dry::settings().keep) continue;  // nobody fills it
      std::memset(memory->mutable_data(), 0, memory->nbytes());
    }
    for (const auto& [t, knowledge] : std::views::reverse(knowledge_)) dry::set_knowledge(t, knowledge);
    for (auto& [generator, state] : states_) {
      at::Generator cpu = cpu_generator_of(generator);
      cpu.set_state(state);
    }
  }

  /// Whether its mode forbids this thread to take memory past PyTorch's allocator.
  bool forbids_here() const {
    return mode_ == CaptureMode::kEveryThread ||
           (mode_ == CaptureMode::kItsThread && thread_ == std::this_thread::get_id());
  }
  bool has(int device, int64_t stream) const { return device == device_ && streams_.contains(stream); }
  bool is_origin(int device, int64_t stream) const { return device == device_ && stream == origin_; }
  void worked(int64_t stream) {
    const order::Lane lane = streams_.at(stream);
    clocks_[lane].set(lane, clocks_[lane].at(lane) + 1);
  }
  bool joined() const {
    for (const auto& [stream, lane] : streams_) {
      if (clocks_[lane].at(lane) > clocks_.front().at(lane)) return false;
    }
    return true;
  }
  const order::VectorClock& clock(int64_t stream) const { return clocks_[streams_.at(stream)]; }
  void join(int64_t stream, const order::VectorClock& clock) {
    const auto [entry, is_new] = streams_.try_emplace(stream, static_cast<order::Lane>(clocks_.size()));
    if (is_new) clocks_.emplace_back();
    clocks_[entry->second].join(clock);
  }

  /// A tensor as the graph keeps it: the same memory, whoever else holds it.
  at::Tensor keep(const at::Tensor& t) {
    if (!t.is_cuda()) return t.is_pinned() ? t : t.clone();
    if (!is_plain(t)) return t;
    const Memory host = host_storage(*storage(t));
    Memory& kept = kept_[host.get()];
    if (!kept) kept = device_storage_over(host, t.device().index());
    return adopt_tensor(host_alias(t), kept);
  }
  void note_use(const at::Tensor& t, bool written, engine::OperatorId op) {
    if (!t.is_cuda() || !is_plain(t)) return;
    const Memory host = host_storage(*storage(t));
    if (made_.contains(host) || storage(t)->nbytes() == 0) return;  // what arange() fills has no memory yet
    if (dry::on() && written) knowledge_.emplace_back(t, dry::knowledge_of(t));
    if (written && !saved_.contains(host) && !(dry::on() && dry::is_unknown(t))) {
      const auto* bytes = static_cast<const char*>(host->data());
      saved_[host].assign(bytes, bytes + host->nbytes());
    }
    const auto known = graph_->outside_.find(storage(t));
    if (known != graph_->outside_.end()) {
      known->second.written |= written;
      return;
    }
    const DeviceBlock* const block = block_of(*storage(t));
    const bool is_booked = block != nullptr && block->booking.account != nullptr;
    const PoolId pool = is_booked ? machine().memory(device_).pool_of(block->booking.account) : PoolId{};
    graph_->outside_.emplace(storage(t),
                             Graph::Outside{c10::weak_intrusive_ptr<c10::StorageImpl>(t.storage().getWeakStorageImpl()),
                                            storage(t)->data(), current_site(), op, written, pool});
  }
  void made(const Memory& host) { made_.insert(host); }
  void made_storage(const at::Tensor& t) {
    if (t.is_cuda() && is_plain(t) && made_.contains(host_storage(*storage(t)))) {
      graph_->made_.emplace_back(t.storage().getWeakStorageImpl());
    }
  }
  void add(Graph::Step step) { graph_->steps_.push_back(std::move(step)); }
  PoolId pool() const { return graph_->pool_; }
  bool is_registered(const at::Generator& generator) const {
    for (const at::Generator& each : generators()) {
      if (each.unsafeGetGeneratorImpl() == generator.unsafeGetGeneratorImpl()) return true;
    }
    return false;
  }

  bool is_invalid = false;
  bool is_empty() const { return graph_->steps_.empty(); }

 private:
  static c10::StorageImpl* storage(const at::Tensor& t) {
    return t.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl();
  }
  std::vector<at::Generator> generators() const {
    std::vector<at::Generator> all = graph_->generators_;
    all.push_back(default_generator(device_));
    return all;
  }

  Graph* graph_;
  int device_;
  int64_t origin_;
  CaptureMode mode_;
  std::thread::id thread_ = std::this_thread::get_id();
  std::map<int64_t, order::Lane> streams_;  ///< those that have joined
  std::vector<order::VectorClock> clocks_;  ///< what each has done and waited for; the origin's first
  std::map<Memory, std::vector<char>> saved_;
  std::vector<std::pair<at::Tensor, dry::Knowledge>> knowledge_;  ///< in a dry run, of what is written
  std::set<Memory> made_;
  std::map<const c10::StorageImpl*, Memory> kept_;
  std::vector<std::pair<at::Generator, at::Tensor>> states_;
};

}  // namespace locus::bridge
