// See carrier.h. Calls that only move bytes hand Gloo the bytes, whatever their type; calls that compute hand it flat
// tensors of the type. What Gloo has no collective for is made of those it has.
#include "locus/bridge/distributed/carrier.h"

#include <limits>
#include <numeric>

#include "locus/bridge/distributed/collective_rules.h"
#include "locus/bridge/dry/ranks.h"
#include "locus/bridge/kernels/kernels.h"
#include "locus/bridge/memory/memory.h"

namespace locus::bridge {

using at::Tensor;
using c10d::OpType;
using c10d::ReduceOp;
using std::chrono::milliseconds;

namespace {

/// Of an exchange in which each rank may have sizes of its own: too many to be carried in a dry run.
constexpr size_t kUnevenBytes = std::numeric_limits<size_t>::max();

Tensor new_bytes(int64_t count) { return at::empty({count}, at::TensorOptions(at::kByte).device(at::kCPU)); }

/// Where Gloo may put the bytes of `t`: its own memory, or, where that has gaps, a stand-in that is copied back.
Tensor landing(const Tensor& t, std::vector<std::pair<Tensor, Tensor>>& stand_ins) {
  if (t.is_non_overlapping_and_dense()) return host_bytes(t);
  Tensor stand_in = at::empty(t.sizes(), at::TensorOptions(t.scalar_type()).device(at::kCPU));
  stand_ins.emplace_back(host_alias(t), stand_in);
  return stand_in.view({-1}).view(at::kByte);
}

std::function<void()> copy_back(std::vector<std::pair<Tensor, Tensor>> stand_ins) {
  if (stand_ins.empty()) return {};
  return [stand_ins = std::move(stand_ins)] {
    Below below;
    for (const auto& [target, stand_in] : stand_ins) target.copy_(stand_in);
  };
}

const char* name_of(const ReduceOp& how) {
  static constexpr const char* kNames[] = {"sum", "avg", "product", "min", "max", "band", "bor", "bxor", "premul_sum"};
  const auto number = static_cast<size_t>(how.op_);
  return number < std::size(kNames) ? kNames[number] : "unused";
}

template <class Options>
Options within(milliseconds timeout) {
  Options options;
  options.timeout = timeout;
  return options;
}

}  // namespace

Carrier::Carrier(c10::intrusive_ptr<c10d::Backend> gloo, c10::intrusive_ptr<c10d::Store> store, std::string name,
                 c10::intrusive_ptr<Options> options)
    : Backend(gloo->getRank(), gloo->getSize()),
      gloo_(std::move(gloo)),
      lone_(dynamic_cast<LoneGroup*>(gloo_.get()) != nullptr),
      store_(std::move(store)),
      name_(std::move(name)),
      options_(std::move(options)) {}

WorkPtr Carrier::broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) {
  const Tensor t = only_tensor(tensors);
  const Collective call{"broadcast", OpType::BROADCAST, t, t.numel(), static_cast<int>(options.rootRank)};
  begin(call);
  if (lone_) return carry(call, {gloo_->broadcast(tensors, options)}, tensors);
  if (!has_bytes(t.nbytes(), t)) return carry(call, {}, tensors);
  Tensors host{host_bytes(t)};
  return carry(call, {gloo_->broadcast(host, options)}, tensors);
}

WorkPtr Carrier::add_up(Tensor& host, const ReduceOp& how, milliseconds timeout) {
  auto options = within<c10d::AllreduceOptions>(timeout);
  options.reduceOp = how.op_ == ReduceOp::AVG || how.op_ == ReduceOp::PREMUL_SUM ? ReduceOp(ReduceOp::SUM) : how;
  Below below;
  multiply_before(host, how);
  Tensors tensors{host};
  return gloo_->allreduce(tensors, options);
}

WorkPtr Carrier::allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) {
  const Tensor t = only_tensor(tensors);
  const Collective call{"all_reduce", OpType::ALLREDUCE, t, t.numel(), -1, name_of(options.reduceOp)};
  const auto [type, how] = reducible("all_reduce", t, options.reduceOp);
  begin(call);
  if (lone_) return carry(call, {gloo_->allreduce(tensors, options)}, tensors);
  if (!has_bytes(t.nbytes(), t)) return carry(call, {}, tensors);
  Tensor host = host_flat(t, type);
  WorkPtr sum = add_up(host, how, options.timeout);
  return carry(call, {sum}, tensors, [host, how = how, size = size_] {
    Below below;
    divide_after(host, how, size);
  });
}

WorkPtr Carrier::allreduce_coalesced(Tensors& tensors, const c10d::AllreduceCoalescedOptions& options) {
  TORCH_CHECK_VALUE(!tensors.empty(), "Tensor list must be nonempty");
  int64_t elements = 0;
  size_t bytes = 0;
  Parts sums;
  std::vector<std::pair<Tensor, ReduceOp>> hosts;
  for (const Tensor& t : tensors) {
    check_tensor(t);
    elements += t.numel(), bytes += t.nbytes();
  }
  const Collective call{.name = "all_reduce_coalesced",
                        .type = OpType::ALLREDUCE_COALESCED,
                        .tensor = tensors.front(),
                        .elements = elements,
                        .reduction = name_of(options.reduceOp),
                        .given = tensors};
  begin(call);
  if (lone_) return carry(call, {gloo_->allreduce_coalesced(tensors, options)}, tensors);
  if (!has_bytes(bytes, tensors.front())) return carry(call, {}, tensors);
  for (const Tensor& t : tensors) {
    const auto [type, how] = reducible("all_reduce", t, options.reduceOp);
    hosts.emplace_back(host_flat(t, type), how);
    sums.push_back(add_up(hosts.back().first, how, options.timeout));
  }
  return carry(call, std::move(sums), tensors, [hosts, size = size_] {
    Below below;
    for (const auto& [host, how] : hosts) divide_after(host, how, size);
  });
}

WorkPtr Carrier::reduce(Tensors& tensors, const c10d::ReduceOptions& options) {
  const Tensor t = only_tensor(tensors);
  const Collective call{
      "reduce", OpType::REDUCE, t, t.numel(), static_cast<int>(options.rootRank), name_of(options.reduceOp)};
  const auto [type, how] = reducible("reduce", t, options.reduceOp);
  begin(call);
  if (lone_) return carry(call, {gloo_->reduce(tensors, options)}, tensors);
  if (!has_bytes(t.nbytes(), t)) return carry(call, {}, tensors);
  Below below;
  // NCCL changes the root's tensor only; Gloo may use the others' as scratch.
  Tensor host = host_flat(t, type);
  if (rank_ != options.rootRank) host = host.clone();
  multiply_before(host, how);
  auto summed = options;
  if (how.op_ == ReduceOp::AVG || how.op_ == ReduceOp::PREMUL_SUM)
    summed.reduceOp = ReduceOp(ReduceOp::SUM);
  else
    summed.reduceOp = how;
  Tensors given{host};
  return carry(call, {gloo_->reduce(given, summed)}, tensors, [host, how = how, size = size_] {
    Below below;
    divide_after(host, how, size);
  });
}

WorkPtr Carrier::allgather(TensorLists& outputs, Tensors& inputs, const c10d::AllgatherOptions& options) {
  const Tensor in = only_tensor(inputs);
  const Tensors& out = only_list(outputs, size_, in);
  bool even = true;
  size_t bytes = 0;
  for (const Tensor& t : out) even = even && t.numel() == out.front().numel(), bytes += t.nbytes();
  const Collective call{"all_gather", OpType::ALLGATHER, in, even ? in.numel() : -1};
  begin(call);
  TORCH_CHECK_VALUE(out[static_cast<size_t>(rank_)].numel() == in.numel(), "all_gather() got a tensor of ", in.numel(),
                    " elements, and a place of ", out[static_cast<size_t>(rank_)].numel(),
                    " for it in the list of results");
  if (lone_) return carry(call, {gloo_->allgather(outputs, inputs, options)}, out);
  if (!has_bytes(bytes, in)) return carry(call, {}, out);
  Below below;
  std::vector<std::pair<Tensor, Tensor>> stand_ins;
  Tensors landings;
  for (const Tensor& t : out) landings.push_back(landing(t, stand_ins));
  Tensors given{host_bytes(in)};
  Parts parts;
  if (even) {
    TensorLists lists{landings};
    parts.push_back(gloo_->allgather(lists, given, options));
  } else {
    // Lists of different sizes: one broadcast from each rank.
    landings[static_cast<size_t>(rank_)].copy_(given.front());
    for (int root = 0; root < size_; ++root) {
      auto from = within<c10d::BroadcastOptions>(options.timeout);
      from.rootRank = root;
      Tensors one{landings[static_cast<size_t>(root)]};
      parts.push_back(gloo_->broadcast(one, from));
    }
  }
  return carry(call, std::move(parts), out, copy_back(std::move(stand_ins)));
}

WorkPtr Carrier::_allgather_base(Tensor& output, Tensor& input, const c10d::AllgatherOptions& options) {
  check_whole(output, input, size_, "output tensor size must be equal to world_size times input tensor size");
  const Collective call{"all_gather_into_tensor", OpType::_ALLGATHER_BASE, input, input.numel()};
  begin(call);
  if (lone_) return carry(call, {gloo_->_allgather_base(output, input, options)}, {output});
  if (!has_bytes(output.nbytes(), input)) return carry(call, {}, {output});
  Tensor out = host_bytes(output), in = host_bytes(input);
  return carry(call, {gloo_->_allgather_base(out, in, options)}, {output});
}

WorkPtr Carrier::allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                                 const c10d::AllgatherOptions& options) {
  Parts parts;
  for (size_t i = 0; i < inputs.size(); ++i) parts.push_back(_allgather_base(outputs[i], inputs[i], options));
  return CarriedWork::start(c10::make_intrusive<CarriedWork>(rank_, OpType::COALESCED, std::move(parts), outputs,
                                                             inputs.front().device(), nullptr, sequence_.load()));
}

WorkPtr Carrier::gather(TensorLists& outputs, Tensors& inputs, const c10d::GatherOptions& options) {
  const Tensor in = only_tensor(inputs);
  const Collective call{"gather", OpType::GATHER, in, in.numel(), static_cast<int>(options.rootRank)};
  begin(call);
  const bool is_root = rank_ == options.rootRank;
  if (lone_ || !has_bytes(in.nbytes() * static_cast<size_t>(size_), in)) {
    const Tensors out = is_root ? only_list(outputs, size_, in) : Tensors();
    return carry(call, lone_ ? Parts{gloo_->gather(outputs, inputs, options)} : Parts{}, out);
  }
  Below below;
  Tensors given{host_bytes(in)};
  if (!is_root) {
    TensorLists none;
    return carry(call, {gloo_->gather(none, given, options)}, {});
  }
  const Tensors& out = only_list(outputs, size_, in);
  std::vector<std::pair<Tensor, Tensor>> stand_ins;
  TensorLists lists(1);
  for (const Tensor& t : out) lists.front().push_back(landing(t, stand_ins));
  return carry(call, {gloo_->gather(lists, given, options)}, out, copy_back(std::move(stand_ins)));
}

WorkPtr Carrier::scatter(Tensors& outputs, TensorLists& inputs, const c10d::ScatterOptions& options) {
  const Tensor out = only_tensor(outputs);
  Collective call{"scatter", OpType::SCATTER, out, out.numel(), static_cast<int>(options.rootRank)};
  if (rank_ == options.rootRank) call.given = only_list(inputs, size_, out);
  begin(call);
  if (lone_) return carry(call, {gloo_->scatter(outputs, inputs, options)}, outputs);
  if (!has_bytes(out.nbytes() * static_cast<size_t>(size_), out)) return carry(call, {}, outputs);
  Tensors landings{host_bytes(out)};
  TensorLists given;
  if (rank_ == options.rootRank) {
    given.emplace_back();
    for (const Tensor& t : only_list(inputs, size_, out)) {
      check_tensor(t);
      given.front().push_back(host_bytes(t));
    }
  }
  return carry(call, {gloo_->scatter(landings, given, options)}, outputs);
}

/// The sum over all ranks of the whole input, of which each rank keeps its own part.
WorkPtr Carrier::reduce_scatter_bytes(const Collective& call, Tensor sum, const Tensor& output, int64_t offset,
                                      const ReduceOp& how, milliseconds timeout) {
  WorkPtr added = add_up(sum, how, timeout);
  const Tensor out = host_flat(output, sum.scalar_type());
  return carry(call, {added}, {output}, [sum, out, offset, how, size = size_]() mutable {
    Below below;
    divide_after(sum, how, size);
    out.copy_(sum.narrow(0, offset, out.numel()));
  });
}

WorkPtr Carrier::reduce_scatter(Tensors& outputs, TensorLists& inputs, const c10d::ReduceScatterOptions& options) {
  const Tensor out = only_tensor(outputs);
  const Tensors& in = only_list(inputs, size_, out);
  const Collective call{.name = "reduce_scatter",
                        .type = OpType::REDUCE_SCATTER,
                        .tensor = out,
                        .reduction = name_of(options.reduceOp),
                        .given = in};
  const auto [type, how] = reducible("reduce_scatter", out, options.reduceOp);
  begin(call);
  size_t bytes = 0;
  for (const Tensor& t : in) bytes += t.nbytes();
  if (lone_) return carry(call, {gloo_->reduce_scatter(outputs, inputs, options)}, outputs);
  if (!has_bytes(bytes, out)) return carry(call, {}, outputs);
  Below below;
  Tensors flat;
  int64_t offset = 0;
  for (size_t i = 0; i < in.size(); ++i) {
    flat.push_back(host_flat(in[i], type));
    if (static_cast<int>(i) < rank_) offset += flat.back().numel();
  }
  return reduce_scatter_bytes(call, at::cat(flat), out, offset, how, options.timeout);
}

WorkPtr Carrier::_reduce_scatter_base(Tensor& output, Tensor& input, const c10d::ReduceScatterOptions& options) {
  check_whole(input, output, size_, "input tensor must be the same size as output size times world size");
  const Collective call{.name = "reduce_scatter_tensor",
                        .type = OpType::_REDUCE_SCATTER_BASE,
                        .tensor = output,
                        .elements = output.numel(),
                        .reduction = name_of(options.reduceOp),
                        .given = {input}};
  const auto [type, how] = reducible("reduce_scatter_tensor", input, options.reduceOp);
  begin(call);
  if (lone_) return carry(call, {gloo_->_reduce_scatter_base(output, input, options)}, {output});
  if (!has_bytes(input.nbytes(), input)) return carry(call, {}, {output});
  Below below;
  Tensor sum = host_flat(input, type).clone();
  const int64_t offset = sum.numel() / size_ * rank_;
  return reduce_scatter_bytes(call, std::move(sum), output, offset, how, options.timeout);
}

WorkPtr Carrier::reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                                 const c10d::ReduceScatterOptions& options) {
  Parts parts;
  for (size_t i = 0; i < inputs.size(); ++i) parts.push_back(_reduce_scatter_base(outputs[i], inputs[i], options));
  return CarriedWork::start(c10::make_intrusive<CarriedWork>(rank_, OpType::COALESCED, std::move(parts), outputs,
                                                             inputs.front().device(), nullptr, sequence_.load()));
}

WorkPtr Carrier::exchange(const Collective& call, Tensor out, std::vector<int64_t> out_bytes, Tensor in,
                          std::vector<int64_t> in_bytes, Tensors results, std::function<void()> finish,
                          const c10d::AllToAllOptions& options) {
  return carry(call, {gloo_->alltoall_base(out, in, out_bytes, in_bytes, options)}, std::move(results),
               std::move(finish));
}

WorkPtr Carrier::alltoall_base(Tensor& output, Tensor& input, std::vector<int64_t>& output_splits,
                               std::vector<int64_t>& input_splits, const c10d::AllToAllOptions& options) {
  check_tensor(output);
  check_tensor(input);
  const std::vector<int64_t> out_bytes = split_bytes(output, output_splits, size_);
  const std::vector<int64_t> in_bytes = split_bytes(input, input_splits, size_);
  const Collective call{"all_to_all_single", OpType::ALLTOALL_BASE, input, -1};
  begin(call);
  if (lone_) {
    return carry(call, {gloo_->alltoall_base(output, input, output_splits, input_splits, options)}, {output});
  }
  // Other ranks may have other sizes: only an even exchange is decided alike everywhere.
  const bool even = output_splits.empty() && input_splits.empty();
  if (!has_bytes(even ? output.nbytes() : kUnevenBytes, output)) return carry(call, {}, {output});
  return exchange(call, host_bytes(output), out_bytes, host_bytes(input), in_bytes, {output}, {}, options);
}

WorkPtr Carrier::alltoall(Tensors& outputs, Tensors& inputs, const c10d::AllToAllOptions& options) {
  TORCH_CHECK_VALUE(inputs.size() == static_cast<size_t>(size_) && outputs.size() == inputs.size(),
                    "Number of input and output tensors must be equal to the world size");
  std::vector<int64_t> out_bytes, in_bytes;
  Tensors given;
  for (const Tensor& t : inputs) {
    check_tensor(t);
    given.push_back(host_bytes(t));
    in_bytes.push_back(given.back().numel());
  }
  for (const Tensor& t : outputs) {
    check_tensor(t);
    out_bytes.push_back(static_cast<int64_t>(t.nbytes()));
  }
  const Collective call{.name = "all_to_all", .type = OpType::ALLTOALL, .tensor = inputs.front(), .given = inputs};
  begin(call);
  if (lone_) return carry(call, {gloo_->alltoall(outputs, inputs, options)}, outputs);
  if (!has_bytes(kUnevenBytes, inputs.front())) return carry(call, {}, outputs);
  Below below;
  Tensor landed = new_bytes(std::accumulate(out_bytes.begin(), out_bytes.end(), int64_t{0}));
  Tensors targets;
  for (const Tensor& t : outputs) targets.push_back(host_bytes(t));
  const auto finish = [landed, targets, out_bytes] {
    Below below;
    int64_t at = 0;
    for (size_t i = 0; i < targets.size(); at += out_bytes[i++]) targets[i].copy_(landed.narrow(0, at, out_bytes[i]));
  };
  return exchange(call, landed, out_bytes, at::cat(given), in_bytes, outputs, finish, options);
}

WorkPtr Carrier::send(Tensors& tensors, int destination, int tag) {
  const Tensor t = only_tensor(tensors);
  if (name_ == "nccl") tag = 0;  // NCCL knows no tags: messages keep their order
  const Collective call{"send", OpType::SEND, t, t.numel(), destination, "", tag};
  begin(call);
  if (lone_) return carry(call, {gloo_->send(tensors, destination, tag)}, {});
  if (!has_bytes(t.nbytes(), t)) return carry(call, {}, {});
  Tensors host{host_bytes(t)};
  return carry(call, {gloo_->send(host, destination, tag)}, {});
}

WorkPtr Carrier::recv(Tensors& tensors, int source, int tag) {
  const Tensor t = only_tensor(tensors);
  if (name_ == "nccl") tag = 0;
  const Collective call{"recv", OpType::RECV, t, t.numel(), source, "", tag};
  begin(call);
  if (lone_) return carry(call, {gloo_->recv(tensors, source, tag)}, tensors);
  if (!has_bytes(t.nbytes(), t)) return carry(call, {}, tensors);
  Tensors host{host_bytes(t)};
  return carry(call, {gloo_->recv(host, source, tag)}, tensors);
}

WorkPtr Carrier::barrier(const c10d::BarrierOptions& options) {
  const Collective call{"barrier", OpType::BARRIER, {}, -1};
  begin(call);
  return carry(call, {gloo_->barrier(within<c10d::BarrierOptions>(options.timeout))}, {});
}

}  // namespace locus::bridge
