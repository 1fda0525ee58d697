// See ranks.h.
#include "locus/bridge/dry/ranks.h"

#include <ATen/core/ivalue.h>

#include <cstring>

#include "locus/bridge/distributed/collective_rules.h"
#include "locus/bridge/door/origins.h"
#include "locus/bridge/door/watch.h"
#include "locus/bridge/dry/knowledge.h"
#include "locus/bridge/memory/memory.h"
#include "locus/engine/ranks/call.h"

namespace locus::bridge {

using at::Tensor;
using c10::ivalue::Future;
using c10d::OpType;
using c10d::ReduceOp;
using dry::Knowledge;

namespace {

constexpr std::chrono::minutes kLongestWait{10};

struct World {
  engine::ranks::Mailbox mailbox;
  MembersOf members;
};
World* g_world = nullptr;

/// Done when it is made, or, where something is to be received, when somebody asks.
class LoneWork final : public c10d::Work {
 public:
  LoneWork(int rank, OpType type, const std::vector<Tensor>& results, std::function<void()> rest = {})
      : Work(rank, type),
        rest_(std::move(rest)),
        future_(c10::make_intrusive<Future>(c10::ListType::create(c10::TensorType::get()))) {
    for (const Tensor& t : results) {
      if (!is_simulated(t)) results_.push_back(t);  // those of devices are a Carrier's
    }
    if (!rest_) complete();
  }

  bool isCompleted() override {
    complete();
    return true;
  }
  bool wait(std::chrono::milliseconds timeout) override {
    complete();
    return Work::wait(timeout);
  }
  std::vector<Tensor> result() override { return results_; }
  c10::intrusive_ptr<Future> getFuture() override {
    complete();
    return future_;
  }
  void abort() override {}

 private:
  void complete() {
    std::call_once(done_, [this] {
      if (rest_) rest_();
      rest_ = nullptr;
      future_->markCompleted(c10::IValue(results_));
      finish();
    });
  }

  std::once_flag done_;
  std::function<void()> rest_;
  c10::intrusive_ptr<Future> future_;
  std::vector<Tensor> results_;
};

/// The elements of a dense tensor, in memory's order, where the host can have them.
Tensor flat(const Tensor& t) {
  if (is_simulated(t)) return host_flat(t, t.scalar_type());
  return t.is_contiguous() ? t.view({-1}) : t.as_strided({t.numel()}, {1}, t.storage_offset());
}

bool has_values(const Tensor& t) { return !dry::on() || !dry::is_unknown(t); }

/// Whether a tensor may have values, by what every rank knows of it.
bool may_have_values(const Tensor& t) {
  return !dry::on() || dry::is_small(dry::bytes_of_storage(t), t.scalar_type(), t.device().is_cpu());
}

/// Nobody knows what is in it now.
void forget(const Tensor& t) {
  if (!dry::on()) return;
  if (t.device().is_cpu() && may_have_values(t)) dry::fill_for_real(t, dry::made_up_value(t.scalar_type()));
  dry::set_knowledge(t, Knowledge::kUnknown);
}

/// Its values were written.
void learn(const Tensor& t) {
  if (dry::on() && dry::is_unknown(t) && dry::covers_storage(t)) dry::set_knowledge(t, Knowledge::kKnown);
}

/// Whether a result of these inputs has values; else it is forgotten.
bool keeps(const Tensor& out, const Tensor& in) {
  if (has_values(in) && may_have_values(out) && (!dry::on() || !dry::is_unknown(out) || dry::covers_storage(out))) {
    return true;
  }
  forget(out);
  return false;
}

/// `out` is so many times `in`, one after the other.
void repeat(const Tensor& out, const Tensor& in) {
  if (out.numel() == 0) return;
  if (in.numel() == 0 || out.numel() % in.numel() != 0) return forget(out);
  if (!keeps(out, in)) return;
  note_taken_as_same();
  Below below;
  const Tensor from = flat(in).clone();
  flat(out).view({-1, in.numel()}).copy_(from);
  learn(out);
}

/// Each of the outputs is what this rank gives; all of them.
std::vector<Tensor> gathered(const std::vector<std::vector<Tensor>>& outputs, const std::vector<Tensor>& inputs) {
  std::vector<Tensor> results;
  for (size_t i = 0; i < outputs.size() && i < inputs.size(); ++i) {
    for (const Tensor& out : outputs[i]) repeat(out, inputs[i]);
    results.insert(results.end(), outputs[i].begin(), outputs[i].end());
  }
  return results;
}

std::string bytes_of(const Tensor& t) {
  Below below;
  const Tensor whole = flat(t).contiguous();
  std::string message(1, has_values(t) ? '1' : '0');
  message.append(static_cast<const char*>(whole.const_data_ptr()), whole.nbytes());
  return message;
}

/// What all groups along one dimension of a cluster have in common: "16 x 64", so many ranks and so far apart. Empty
/// where they are not evenly apart.
std::string kind_of(const std::vector<int>& members) {
  if (members.size() < 2) return "";
  const int step = members[1] - members[0];
  for (size_t i = 2; i < members.size(); ++i) {
    if (members[i] - members[i - 1] != step) return "";
  }
  return std::to_string(members.size()) + " x " + std::to_string(step);
}

/// Numbers that steer a program, objects among them, are worth a file; so is any message of a few bytes.
bool is_mail(const Tensor& t, bool message) {
  const bool steers = c10::isIntegralType(t.scalar_type(), /*includeBool=*/true);
  return g_world != nullptr && (message || steers) && dry::is_small(t.nbytes(), t.scalar_type(), t.device().is_cpu());
}

}  // namespace

void LoneGroup::begin(engine::ranks::Mailbox mailbox, MembersOf members) {
  if (g_world == nullptr) g_world = new World{std::move(mailbox), std::move(members)};
}

bool LoneGroup::begun() { return g_world != nullptr; }

engine::MadeUpTable& taken_as_same() {
  static auto* table = new engine::MadeUpTable;
  return *table;
}

void note_taken_as_same() { taken_as_same().add({current_site(), engine::MadeUpKind::kValue, t_operator}); }

int LoneGroup::global(int place) const {
  const std::vector<int> members = g_world->members(getGroupUid());
  if (members.empty()) return place;  // the group is still being made: the default one
  return place >= 0 && static_cast<size_t>(place) < members.size() ? members[static_cast<size_t>(place)] : -1;
}

LoneGroup::Mail LoneGroup::next_mail(const Tensor& t, int source, int target, int tag) {
  // A group has one of these for devices and one for the host, under the same name.
  const std::string host = is_simulated(t) ? "" : "/host";
  const std::string channel = engine::ranks::channel(getGroupUid() + host, source, target, tag);
  std::string number;
  {
    const std::lock_guard lock(mutex_);
    number = "/" + std::to_string(++counts_[channel]);
  }
  const std::string kind = target >= 0 ? kind_of(g_world->members(getGroupUid())) : "";
  return {channel + number, kind.empty() ? "" : engine::ranks::channel(kind + host, source, target, tag) + number};
}

void LoneGroup::take(const Tensor& t, const Mail& mail, int source, bool on_demand) {
  const auto message =
      source < 0 ? std::nullopt : g_world->mailbox.take(mail.key, source, on_demand, kLongestWait, mail.like);
  if (!message || message->size() != t.nbytes() + 1) {
    if (on_demand) return forget(t);  // of a message nothing is known; of what a root hands out, what is here
    return note_taken_as_same();
  }
  if (message->front() != '1' || !may_have_values(t)) return forget(t);
  if (!mail.like.empty() && g_world->mailbox.is_stood_for(source)) note_taken_as_same();
  Below below;
  Tensor whole = flat(t);
  std::memcpy(whole.mutable_data_ptr(), message->data() + 1, whole.nbytes());
  learn(t);
}

void LoneGroup::reduced(const Tensor& out, const Tensor& in, const ReduceOp& how) {
  const auto op = how.op_;
  if (out.is_same(in) && dry::on() && dry::knowledge_of(in) == Knowledge::kZeros && op != ReduceOp::PRODUCT) return;
  if (!keeps(out, in)) return;
  note_taken_as_same();
  Below below;
  Tensor host = flat(out);
  if (!out.is_same(in)) host.copy_(flat(in));
  multiply_before(host, how);
  if (op == ReduceOp::PRODUCT) host.copy_(host.pow(size_));
  if ((op == ReduceOp::SUM || op == ReduceOp::PREMUL_SUM) && host.scalar_type() != at::kBool) host.mul_(size_);
  if (op == ReduceOp::BXOR && size_ % 2 == 0) host.zero_();
  learn(out);
}

LoneGroup::WorkPtr LoneGroup::broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) {
  const auto root = static_cast<int>(options.rootRank);
  for (const Tensor& t : tensors) {
    if (!is_mail(t, /*message=*/false)) continue;
    const Mail mail = next_mail(t, root, -1, 0);
    if (rank_ == root) {
      g_world->mailbox.put(mail.key, bytes_of(t));
    } else {
      take(t, mail, global(root), /*on_demand=*/false);
    }
  }
  return c10::make_intrusive<LoneWork>(rank_, OpType::BROADCAST, tensors);
}

LoneGroup::WorkPtr LoneGroup::allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) {
  for (const Tensor& t : tensors) reduced(t, t, options.reduceOp);
  return c10::make_intrusive<LoneWork>(rank_, OpType::ALLREDUCE, tensors);
}

LoneGroup::WorkPtr LoneGroup::allreduce_coalesced(Tensors& tensors, const c10d::AllreduceCoalescedOptions& options) {
  for (const Tensor& t : tensors) reduced(t, t, options.reduceOp);
  return c10::make_intrusive<LoneWork>(rank_, OpType::ALLREDUCE_COALESCED, tensors);
}

LoneGroup::WorkPtr LoneGroup::reduce(Tensors& tensors, const c10d::ReduceOptions& options) {
  for (const Tensor& t : tensors) {
    if (rank_ == options.rootRank) reduced(t, t, options.reduceOp);
  }
  return c10::make_intrusive<LoneWork>(rank_, OpType::REDUCE, tensors);
}

LoneGroup::WorkPtr LoneGroup::allgather(TensorLists& outputs, Tensors& inputs, const c10d::AllgatherOptions&) {
  return c10::make_intrusive<LoneWork>(rank_, OpType::ALLGATHER, gathered(outputs, inputs));
}

LoneGroup::WorkPtr LoneGroup::_allgather_base(Tensor& output, Tensor& input, const c10d::AllgatherOptions&) {
  repeat(output, input);
  return c10::make_intrusive<LoneWork>(rank_, OpType::_ALLGATHER_BASE, Tensors{output});
}

LoneGroup::WorkPtr LoneGroup::allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                                              const c10d::AllgatherOptions&) {
  for (size_t i = 0; i < inputs.size(); ++i) repeat(outputs[i], inputs[i]);
  return c10::make_intrusive<LoneWork>(rank_, OpType::COALESCED, outputs);
}

LoneGroup::WorkPtr LoneGroup::gather(TensorLists& outputs, Tensors& inputs, const c10d::GatherOptions&) {
  return c10::make_intrusive<LoneWork>(rank_, OpType::GATHER, gathered(outputs, inputs));
}

LoneGroup::WorkPtr LoneGroup::scatter(Tensors& outputs, TensorLists& inputs, const c10d::ScatterOptions& options) {
  const auto root = static_cast<int>(options.rootRank);
  for (size_t i = 0; i < outputs.size(); ++i) {
    const Tensor& out = outputs[i];
    const bool mail = is_mail(out, /*message=*/false);
    for (int place = 0; rank_ == root && place < size_; ++place) {
      const Tensor& part = inputs[i][static_cast<size_t>(place)];
      const std::string key = mail ? next_mail(out, root, place, 0).key : "";
      if (mail && place != rank_) g_world->mailbox.put(key, bytes_of(part));
      if (place == rank_) repeat(out, part);
    }
    if (rank_ == root) continue;
    if (mail) {
      take(out, next_mail(out, root, rank_, 0), global(root), /*on_demand=*/false);
    } else {
      forget(out);
    }
  }
  return c10::make_intrusive<LoneWork>(rank_, OpType::SCATTER, outputs);
}

LoneGroup::WorkPtr LoneGroup::reduce_scatter(Tensors& outputs, TensorLists& inputs,
                                             const c10d::ReduceScatterOptions& options) {
  for (size_t i = 0; i < outputs.size(); ++i) {
    reduced(outputs[i], inputs[i][static_cast<size_t>(rank_)], options.reduceOp);
  }
  return c10::make_intrusive<LoneWork>(rank_, OpType::REDUCE_SCATTER, outputs);
}

LoneGroup::WorkPtr LoneGroup::_reduce_scatter_base(Tensor& output, Tensor& input,
                                                   const c10d::ReduceScatterOptions& options) {
  if (keeps(output, input)) {
    Below below;
    const Tensor part = flat(input).narrow(0, output.numel() * rank_, output.numel());
    flat(output).copy_(part);
    learn(output);
    reduced(output, output, options.reduceOp);
  }
  return c10::make_intrusive<LoneWork>(rank_, OpType::_REDUCE_SCATTER_BASE, Tensors{output});
}

LoneGroup::WorkPtr LoneGroup::reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                                              const c10d::ReduceScatterOptions& options) {
  for (size_t i = 0; i < inputs.size(); ++i) _reduce_scatter_base(outputs[i], inputs[i], options);
  return c10::make_intrusive<LoneWork>(rank_, OpType::COALESCED, outputs);
}

LoneGroup::WorkPtr LoneGroup::alltoall_base(Tensor& output, Tensor& input, std::vector<int64_t>& output_splits,
                                            std::vector<int64_t>& input_splits, const c10d::AllToAllOptions&) {
  const bool even = output_splits.empty() && input_splits.empty();
  if (even && output.numel() == input.numel()) {
    repeat(output, input);
  } else {
    note_taken_as_same();  // its sizes are those that the others send
    forget(output);
  }
  return c10::make_intrusive<LoneWork>(rank_, OpType::ALLTOALL_BASE, Tensors{output});
}

LoneGroup::WorkPtr LoneGroup::alltoall(Tensors& outputs, Tensors& inputs, const c10d::AllToAllOptions&) {
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (i < inputs.size() && outputs[i].numel() == inputs[i].numel()) {
      repeat(outputs[i], inputs[i]);
    } else {
      forget(outputs[i]);
    }
  }
  return c10::make_intrusive<LoneWork>(rank_, OpType::ALLTOALL, outputs);
}

LoneGroup::WorkPtr LoneGroup::send(Tensors& tensors, int destination, int tag) {
  for (const Tensor& t : tensors) {
    if (!is_mail(t, /*message=*/true)) continue;
    const Mail mail = next_mail(t, rank_, destination, tag);
    g_world->mailbox.put(mail.key, bytes_of(t), mail.like);
  }
  return c10::make_intrusive<LoneWork>(rank_, OpType::SEND, Tensors{});
}

LoneGroup::WorkPtr LoneGroup::recv(Tensors& tensors, int source, int tag) {
  const Tensor t = tensors.front();
  if (!is_mail(t, /*message=*/true)) {
    forget(t);
    return c10::make_intrusive<LoneWork>(rank_, OpType::RECV, tensors);
  }
  // Not here: what this rank sends after it, the other side may need first.
  const auto self = c10::intrusive_ptr<LoneGroup>::reclaim_copy(this);
  return c10::make_intrusive<LoneWork>(
      rank_, OpType::RECV, tensors,
      [self, t, mail = next_mail(t, source, rank_, tag), source] { self->take(t, mail, self->global(source), true); });
}

LoneGroup::WorkPtr LoneGroup::barrier(const c10d::BarrierOptions&) {
  return c10::make_intrusive<LoneWork>(rank_, OpType::BARRIER, Tensors{});
}

void LoneGroup::monitoredBarrier(const c10d::BarrierOptions&, bool) {}

}  // namespace locus::bridge
