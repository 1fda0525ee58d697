// See card_work.h.
#include "locus/bridge/streams/card_work.h"

#include <ATen/core/enum_tag.h>

#include <string_view>

#include "locus/bridge/door/watch.h"
#include "locus/bridge/kernels/special.h"
#include "locus/bridge/streams/card_calls.h"
#include "locus/bridge/streams/pending.h"
#include "locus/bridge/streams/races.h"
#include "locus/bridge/streams/spans.h"

namespace locus::bridge {
namespace {

using at::Tensor;
using order::Lane;

bool begins(const std::string& name, std::string_view with) { return name.compare(0, with.size(), with) == 0; }

bool fills_results(const OperatorPlan& plan) { return plan.name.find("empty") == std::string::npos; }

/// Collectives work on streams of their own, and are waited for in ways that PyTorch's trace does not tell.
bool is_collective(const OperatorPlan& plan) {
  for (const std::string_view name : {"c10d", "_c10d", "symm_mem"}) {
    if (begins(plan.name, name)) return true;
  }
  return false;
}

bool has_card_tensor(const Call& call) {
  for (const OperandRef& ref : all_operands(call)) {
    if (operand(call, ref).is_cuda()) return true;
  }
  return false;
}

}  // namespace

bool leaves_values(const Call& call) {
  const OperatorPlan& plan = call.plan;
  if (plan.is_view || call.op.hasTag(at::Tag::inplace_view)) return true;
  for (const std::string_view name : {"aten::_unsafe_view", "aten::unsafe_", "aten::set_", "aten::lift", "aten::is_",
                                      "aten::sym_", "aten::size", "aten::stride", "aten::record_stream"}) {
    if (begins(plan.name, name)) return true;
  }
  return false;
}

bool reads_values(const OperatorPlan& plan) {
  return plan.name.find("_like") == std::string::npos && !begins(plan.name, "aten::new_");
}

bool follows_on_card(const OperatorPlan& plan) {
  // Copies between the host and the card matter to a program with one stream, too.
  return card_ordering() || ((plan.moves || plan.copies) && hears_card());
}

CardWork::CardWork(const Call& call) : call_(call), taken_(card_blocks_taken()), waits_(t_card_waits) {
  if (hears_card()) {
    guarded(&CardWork::tell_operands);
  } else {
    stop_card_order();
  }
}

void CardWork::guarded(void (CardWork::*part)()) noexcept {
  try {
    (this->*part)();
  } catch (...) {
    stop_card_order();  // what has no bytes, or a card that refuses to answer, is no reason to take the program down
  }
}

StreamWork CardWork::work_on(Lane lane) const { return {lane, {current_site(), call_.plan.number, 0}}; }

void CardWork::touch(StreamWork* work, const Tensor& t, bool written, int argument) {
  if (!t.is_cuda() || !is_plain(t) || t.numel() == 0) return;
  if (const auto block = card_block(t)) {
    held_.push_back(block);
    work->touches(t, &block->shadow, written, argument);
  }
}

void CardWork::tell_operands() {
  const OperatorPlan& plan = call_.plan;
  const auto argument = [&](size_t i) -> const c10::IValue& { return call_.stack[call_.base + i]; };
  if (is_collective(plan)) {
    if (has_card_tensor(call_)) stop_card_order();
    return;
  }
  if (plan.name == "aten::record_stream") {
    const Tensor& t = argument(0).toTensor();
    if (card_ordering() && t.is_cuda() && is_plain(t)) {
      card_block(t);  // it may not be known yet
      card_memory_recorded(t.storage().data_ptr().get(), argument(1).toStream());
    }
    return;
  }
  if (leaves_values(call_) || !begins(plan.name, "aten::")) return;
  if (plan.copies) {
    const Tensor &to = argument(0).toTensor(), &from = argument(1).toTensor();
    if (to.device() != from.device()) return tell_copy(from, &to);
  } else if (plan.moves) {
    const Tensor& from = argument(0).toTensor();
    const c10::Device to = argument(3).isDevice() ? argument(3).toDevice() : from.device();
    if (to.type() != from.device().type() || (to.is_cuda() && to.has_index() && to != from.device()))
      return tell_copy(from, nullptr);
  }
  if (!card_ordering()) return;
  const auto operands = all_operands(call_);
  tensors_.reserve(operands.size());
  std::optional<StreamWork> work;
  c10::Device device(c10::kCPU);
  const bool fills = fills_results(plan) && !call_.op.schema().returns().empty();
  bool writes = false;
  for (const Argument& each : plan.arguments) writes = writes || each.written;
  const bool reads = reads_values(plan) && (fills || writes || plan.synchronizes);
  for (const OperandRef& ref : operands) {
    tensors_.push_back(operand(call_, ref));
    const Tensor& t = tensors_.back();
    if (!t.is_cuda()) continue;
    if (!work.has_value()) {
      const std::optional<Lane> lane = card_lane(t.device().index());
      if (!lane.has_value()) return;
      device = t.device();
      work.emplace(work_on(*lane));
    }
    const bool written = plan.arguments[static_cast<size_t>(ref.argument)].written;
    if (t.device() == device && (written || reads)) touch(&*work, t, written, ref.argument);
  }
  if (work.has_value()) work->finish();
}

void CardWork::tell_copy(const Tensor& from, const Tensor* to) {
  const bool from_host = from.device().is_cpu();
  const c10::Device target = to != nullptr ? to->device() : call_.stack[call_.base + 3].toDevice();
  if ((!from_host && !from.is_cuda()) || !(target.is_cpu() || target.is_cuda())) return;
  const int device = !from_host ? from.device().index() : target.has_index() ? target.index() : card_device();
  const std::optional<Lane> here = card_lane(device);
  if (!here.has_value()) return;
  const bool waits = !call_.stack[call_.base + (to != nullptr ? 2 : 5)].toBool();
  if (!from_host && target.is_cuda()) {
    // The source's stream copies, after what the other stream has so far; the other goes on after the copy.
    const std::optional<Lane> there = card_lane(target.has_index() ? target.index() : card_device());
    if (!there.has_value()) return;
    stream_order().wait_for(*here, *there);
    StreamWork work = work_on(*here);
    if (card_ordering()) touch(&work, from, false, 1);
    if (card_ordering() && to != nullptr) touch(&work, *to, true, 0);
    work.finish();
    stream_order().wait_for(*there, *here);
    return;
  }
  StreamWork work = work_on(*here);
  const auto touch_pinned = [&](const Tensor& host, bool written) {
    if (!is_plain(host) || host.numel() == 0) return;
    if (waits ? !copies_pending() : !host.is_pinned()) return;
    const auto shadow = waits ? busy_pinned_shadow(host) : make_pinned_shadow(host);
    if (shadow == nullptr) return;
    held_.push_back(shadow);
    work.touches(host, shadow.get(), written, written ? 0 : 1);
  };
  if (from_host) {
    const c10::IValue& type = call_.stack[call_.base + 1];
    const bool same = to != nullptr || !type.isInt() || type.toScalarType() == from.scalar_type();
    if (to == nullptr ? same && from.is_contiguous() : is_direct(*to, from)) touch_pinned(from, false);
    if (card_ordering() && to != nullptr) touch(&work, *to, true, 0);
  } else {
    if (card_ordering()) touch(&work, from, false, to != nullptr ? 1 : 0);
    if (to != nullptr && is_direct(*to, from)) touch_pinned(*to, true);
    if (to == nullptr && !waits) source_ = from;
  }
  work.finish();
  // The driver waits by itself, too: memory of the host's that is not pinned is written when the call returns.
  if (waits || (!from_host && to != nullptr && !(is_direct(*to, from) && to->is_pinned()))) {
    card_is_done(card_stream(device));
  }
}

void CardWork::finish(size_t returns) {
  returns_ = returns;
  guarded(&CardWork::tell_results);
}

void CardWork::tell_results() {
  const OperatorPlan& plan = call_.plan;
  if (source_.defined() && call_.stack.back().isTensor()) {
    const Tensor& host = call_.stack.back().toTensor();
    const std::optional<Lane> lane = card_lane(source_.device().index());
    if (!lane.has_value() || !host.device().is_cpu()) return;
    if (!host.is_pinned() || !is_direct(host, source_)) return card_is_done(card_stream(source_.device().index()));
    const auto shadow = make_pinned_shadow(host);
    if (shadow == nullptr) return;
    StreamWork work = work_on(*lane);
    work.touches(host, shadow.get(), true, 0);
    return work.finish();
  }
  if (!card_ordering() || leaves_values(call_) || !fills_results(plan) || !begins(plan.name, "aten::")) return;
  // What the host has waited for meanwhile may be these very results.
  if (waits_ != t_card_waits) return;
  for (size_t i = call_.stack.size() - returns_; i < call_.stack.size(); ++i) {
    const c10::IValue& value = call_.stack[i];
    if (value.isTensor()) {
      tell_result(value.toTensor());
    } else if (value.isTensorList()) {
      for (const Tensor& t : value.toTensorVector()) tell_result(t);
    }
  }
  // Libraries that PyTorch calls wait without a word.
  if (plan.synchronizes && !tensors_.empty() && tensors_.front().is_cuda()) {
    card_is_done(card_stream(tensors_.front().device().index()));
  }
}

void CardWork::tell_result(const Tensor& t) {
  if (!t.defined() || !t.is_cuda() || !is_plain(t) || t.numel() == 0) return;
  const auto block = card_block(t);
  if (block == nullptr || block->number <= taken_) return;
  const std::optional<Lane> lane = card_lane(t.device().index());
  if (!lane.has_value()) return;
  StreamWork work = work_on(*lane);
  work.touches(t, &block->shadow, true, 0);
  work.finish();
}

bool order_card_host_access(const std::string& op, const Tensor& t, order::Kind kind, int argument) {
  if (!hears_card() || !is_plain(t) || !t.device().is_cpu()) return false;
  const auto shadow = busy_pinned_shadow(t);
  const Span span = span_of(t);
  if (shadow == nullptr || span.begin == span.end) return false;
  const std::function<bool(uint64_t, uint64_t)> gaps = [&t](uint64_t begin, uint64_t end) {
    return has_bytes_in(t, begin, end);
  };
  const order::Range range{span.begin, span.end >= t.storage().nbytes() ? order::Range::kEnd : span.end,
                           span.gaps ? &gaps : nullptr};
  const order::Note note{current_site(), operator_number(op), static_cast<uint8_t>(argument)};
  order::Conflicts found;
  stream_order().host_access({shadow.get(), kind, range, note}, &found);
  for (const order::Conflict& conflict : found) report_race(conflict, {order::kHost, kind, note, &t});
  return !found.empty();
}

}  // namespace locus::bridge
