// What every collective has in common: it is announced before it starts, is known while it is under way, and can be
// given up. The collectives themselves are in carrier.cc.
#include <c10/util/ScopeExit.h>

#include "locus/bridge/distributed/carrier.h"
#include "locus/bridge/distributed/collective_rules.h"
#include "locus/bridge/door/watch.h"
#include "locus/bridge/dry/knowledge.h"
#include "locus/bridge/state.h"
#include "locus/bridge/streams/ordering.h"

namespace locus::bridge {

using c10d::OpType;

namespace {

CollectiveListener g_on_call;
SharingListener g_on_sharing;

bool is_pair(const Collective& call) { return call.type == OpType::SEND || call.type == OpType::RECV; }

}  // namespace

void set_listeners(CollectiveListener on_call, SharingListener on_sharing) {
  g_on_call = std::move(on_call);
  g_on_sharing = std::move(on_sharing);
}

std::vector<int64_t> Carrier::pending() {
  const std::lock_guard lock(under_way_->mutex);
  std::vector<int64_t> numbers;
  for (const auto& [number, work] : under_way_->works) numbers.push_back(number);
  if (under_way_->claiming != 0) numbers.push_back(under_way_->claiming);
  return numbers;
}

std::vector<int64_t> Carrier::waited_for() {
  const std::lock_guard lock(under_way_->mutex);
  std::vector<int64_t> numbers;
  for (const auto& [number, weak] : under_way_->works) {
    const auto work = weak.lock();
    if (work && work->is_waited_for()) numbers.push_back(number);
  }
  if (under_way_->claiming != 0) numbers.push_back(under_way_->claiming);
  return numbers;
}

void Carrier::give_up(const std::string& why) {
  std::vector<c10::intrusive_ptr<CarriedWork>> works;
  {
    const std::lock_guard lock(under_way_->mutex);
    under_way_->given_up = why;
    for (const auto& [number, weak] : under_way_->works) {
      if (auto work = weak.lock()) works.push_back(std::move(work));
    }
  }
  for (const auto& work : works) work->give_up(why);
}

void Carrier::begin(const Collective& call) {
  const uint64_t sequence = is_pair(call) ? ++pair_sequence_ : ++sequence_;
  {
    const std::lock_guard lock(under_way_->mutex);
    TORCH_CHECK(under_way_->given_up.empty(), under_way_->given_up);
  }
  if (lone_ && gloo_->getGroupUid().empty()) gloo_->setGroupUid(getGroupUid());
  if (g_on_call) g_on_call(*this, call, sequence);
  if (name_ == "nccl" && call.tensor.defined() && call.type != OpType::SEND && call.type != OpType::RECV) {
    const c10::Device device = call.tensor.device();
    std::call_once(claimed_, [&] { claim_device(device); });
  }
}

void Carrier::claim_device(c10::Device device) {
  if (store_ == nullptr || size_ == 1 || lone_) return;
  const auto gave_up = [this] {
    const std::lock_guard lock(under_way_->mutex);
    return !under_way_->given_up.empty();
  };
  const auto claiming = [this](int64_t number) {
    const std::lock_guard lock(under_way_->mutex);
    under_way_->claiming = number;
  };
  claiming(static_cast<int64_t>(sequence_.load()));
  const auto done = c10::make_scope_exit([&] { claiming(0); });
  const std::vector<int> sharing = ranks_on_device(*store_, rank_, size_, device, options_->timeout, gave_up);
  if (sharing.size() < 2 || (g_on_sharing && g_on_sharing(*this, device, sharing))) return;
  TORCH_CHECK(
      false,
      "NCCL error: invalid usage (run with NCCL_DEBUG=WARN for details)\nLast error:\nDuplicate GPU detected : rank ",
      sharing[1], " and rank ", sharing[0], " both on CUDA device ", device.index());
}

WorkPtr Carrier::carry(const Collective& call, Parts parts, Tensors results, std::function<void()> finish) {
  const c10::Device device = call.tensor.defined()
                                 ? call.tensor.device()
                                 : c10::Device(c10::kCUDA, static_cast<c10::DeviceIndex>(t_current_device));
  if (dry::on() && !lone_ && call.type != OpType::BARRIER) carry_knowledge(call, parts, results, finish);
  auto work = c10::make_intrusive<CarriedWork>(rank_, call.type, std::move(parts), std::move(results), device,
                                               std::move(finish), sequence_.load());
  const int64_t number =
      is_pair(call) ? -static_cast<int64_t>(pair_sequence_.load()) : static_cast<int64_t>(sequence_.load());
  {
    const std::lock_guard lock(under_way_->mutex);
    // Sends that the program does not wait for never end; they go when nobody holds them.
    if (under_way_->works.size() > 64)
      std::erase_if(under_way_->works, [](const auto& item) { return item.second.expired(); });
    under_way_->works.insert_or_assign(number, c10::weak_intrusive_ptr<CarriedWork>(work));
  }
  work->on_done([under_way = under_way_, number] {
    const std::lock_guard lock(under_way->mutex);
    under_way->works.erase(number);
  });
  follow(call, *work, device);
  WorkPtr started = CarriedWork::start(std::move(work));
  if (coalesced_.has_value()) {
    coalesced_->push_back(started);
    coalesced_device_ = device;
  }
  return started;
}

bool Carrier::has_bytes(size_t bytes, const at::Tensor& like) {
  return !dry::on() || dry::is_small(bytes, like.scalar_type(), /*on_host=*/false);
}

void Carrier::carry_knowledge(const Collective& call, Parts& parts, const Tensors& results,
                              std::function<void()>& finish) {
  const bool carried = !parts.empty();
  const bool is_root = call.root == rank_;
  at::Tensor flag = at::empty({1}, at::TensorOptions(at::kByte).device(at::kCPU));
  auto& known = *flag.mutable_data_ptr<uint8_t>();
  known = 1;
  const Tensors alone{call.tensor};
  for (const at::Tensor& t : call.given.empty() ? alone : call.given) known = known != 0 && !dry::is_unknown(t);
  Tensors flags{flag};
  switch (call.type) {
    case OpType::SEND:
      parts.push_back(gloo_->send(flags, call.root, call.tag));
      break;
    case OpType::RECV:
      parts.push_back(gloo_->recv(flags, call.root, call.tag));
      break;
    case OpType::BROADCAST:
    case OpType::SCATTER: {
      c10d::BroadcastOptions options;
      options.rootRank = call.root;
      parts.push_back(gloo_->broadcast(flags, options));
      break;
    }
    default: {
      c10d::AllreduceOptions options;
      options.reduceOp = c10d::ReduceOp::MIN;
      parts.push_back(gloo_->allreduce(flags, options));
    }
  }
  // What a root hands out, and what others reduce to it, it has already, or leaves as it is.
  const bool kept = (call.type == OpType::BROADCAST && is_root) || (call.type == OpType::REDUCE && !is_root);
  finish = [flag, results = kept ? Tensors() : results, carried, finish = std::move(finish)] {
    if (finish) finish();
    const bool all_known = carried && *flag.const_data_ptr<uint8_t>() != 0;
    for (const at::Tensor& t : results) {
      if (!all_known) {
        dry::set_knowledge(t, dry::Knowledge::kUnknown);
      } else if (dry::is_unknown(t) && dry::covers_storage(t)) {
        dry::set_knowledge(t, dry::Knowledge::kKnown);
      }
    }
  };
}

void Carrier::announce(const char* name) { begin({.name = name, .type = OpType::UNKNOWN, .tensor = {}}); }

/// NCCL's way: a stream of the group's own, which waits for the current one. The handle's wait() is the way back.
void Carrier::follow(const Collective& call, CarriedWork& work, c10::Device device) {
  if (!simulating() || !device.is_cuda()) return;
  const int index = device.index();
  int64_t stream = 0;
  {
    const std::lock_guard lock(under_way_->mutex);
    const auto [entry, is_new] = streams_.try_emplace(index, 0);
    if (is_new) entry->second = machine().streams().from_pool(index, 0);
    stream = entry->second;
  }
  if (!watching()) return;
  note_new_stream(index, stream, /*collectives=*/true);
  OrderedEvent ready, done;
  record_event(&ready, index, current_stream(index));
  stream_waits(index, stream, ready);
  const bool is_root = call.root == rank_;
  const bool only_reads = call.type == OpType::SEND || (call.type == OpType::BROADCAST && is_root) ||
                          (call.type == OpType::REDUCE && !is_root);
  StreamWork touched(index, stream, operator_number(call.name));
  const Tensors results = work.result();
  const auto touch = [&](const at::Tensor& t, bool written) {
    touched.touches(t, written);
    // NCCL's process group itself keeps the memory until the collective is done, whoever lets go of the tensor.
    if (t.has_storage()) record_on_stream(t.storage().data_ptr(), index, stream);
  };
  for (const at::Tensor& t : results) touch(t, !only_reads);
  bool in_place = false;
  for (const at::Tensor& t : results) in_place = in_place || t.is_same(call.tensor);
  if (!in_place && call.tensor.defined()) touch(call.tensor, /*written=*/false);
  touched.finish();
  record_event(&done, index, stream);
  work.on_stream(index, stream, done.stamp);
}

void Carrier::startCoalescing() { coalesced_.emplace(); }

WorkPtr Carrier::endCoalescing() {
  TORCH_CHECK(coalesced_.has_value(), "endCoalescing() was called without startCoalescing()");
  Parts parts = std::move(*coalesced_);
  coalesced_.reset();
  return CarriedWork::start(c10::make_intrusive<CarriedWork>(rank_, OpType::COALESCED, std::move(parts), Tensors{},
                                                             coalesced_device_, nullptr, sequence_.load()));
}

}  // namespace locus::bridge
