// See ordering.h.
#include "locus/bridge/streams/ordering.h"

#include <algorithm>
#include <array>
#include <map>
#include <mutex>

#include "locus/bridge/door/real.h"
#include "locus/bridge/door/watch.h"
#include "locus/bridge/kernels/special.h"
#include "locus/bridge/memory/memory.h"
#include "locus/bridge/streams/gpu_trace.h"
#include "locus/bridge/streams/graphs.h"
#include "locus/bridge/streams/kept_outputs.h"
#include "locus/bridge/streams/pending.h"
#include "locus/bridge/streams/pinned.h"
#include "locus/bridge/streams/races.h"
#include "locus/bridge/streams/spans.h"

namespace locus::bridge {

std::atomic<bool> g_ordering{false};
constinit thread_local int t_unfollowed = 0;

namespace {

using at::Tensor;
using order::Kind;
using order::Lane;

struct Lanes {
  std::mutex mutex;
  std::map<std::pair<int, int64_t>, Lane> numbers;
  std::vector<LaneInfo> known{LaneInfo()};  ///< by lane; the first is the host
};
Lanes& lanes() {
  static auto* all = new Lanes;  // never destroyed: tensors may be freed after exit handlers ran
  return *all;
}

std::array<std::atomic<order::Time>, sim::kMaxDevices> g_default_time{};

/// The default stream's time has moved on.
void follow_default(int device, int64_t stream) {
  if (stream != 0) return;
  const order::Time now = stream_order().now(lane_of(device, 0));
  g_default_time[static_cast<size_t>(device)].store(now, std::memory_order_relaxed);
}

order::Shadow* shadow_of(DeviceBlock* block) {
  if (block == nullptr) return nullptr;
  order::Shadow* shadow = block->shadow.load(std::memory_order_acquire);
  if (shadow == nullptr) {
    auto made = std::make_unique<order::Shadow>();
    if (block->born != 0) {  // made on the only stream that there was
      const auto origin = origins().at(origin_in(machine().arena().label(block->host->data())));
      stream_order().assume_written(made.get(), lane_of(block->device, 0), block->born,
                                    {origin.site != 0 ? origin.site : block->booking.site, origin.op, 0});
    }
    // Another thread may have been faster.
    if (block->shadow.compare_exchange_strong(shadow, made.get(), std::memory_order_acq_rel)) shadow = made.release();
  }
  return shadow;
}

engine::OperatorId copy_number() {
  static const engine::OperatorId number = operator_number("aten::copy_");
  return number;
}

}  // namespace

order::Order& stream_order() {
  static auto* all = new order::Order(sim::kMaxDevices);
  return *all;
}

order::Time birth_time(int device, int64_t stream) {
  if (!watching() || ordering() || stream != 0) return 0;
  const order::Time time = g_default_time[static_cast<size_t>(device)].load(std::memory_order_relaxed);
  return time == 0 ? 1 : time;
}

Lane lane_of(int device, int64_t stream) {
  // A lane stays what it is; most work goes where the work before it went.
  thread_local struct {
    int device = -1;
    int64_t stream = 0;
    Lane lane = 0;
  } last;
  if (last.device == device && last.stream == stream) return last.lane;
  Lanes& all = lanes();
  const std::lock_guard lock(all.mutex);
  const auto [entry, is_new] = all.numbers.try_emplace({device, stream}, Lane{0});
  if (is_new) {
    entry->second = stream_order().add_lane();
    if (entry->second >= all.known.size()) all.known.resize(size_t{entry->second} + 1);
    all.known[entry->second] = {device, stream, 0, false};
  }
  last = {device, stream, entry->second};
  return entry->second;
}

LaneInfo lane_info(Lane lane) {
  Lanes& all = lanes();
  const std::lock_guard lock(all.mutex);
  return lane < all.known.size() ? all.known[lane] : LaneInfo();
}

std::vector<Lane> lanes_of(int device) {
  std::vector<Lane> all;
  const std::lock_guard lock(lanes().mutex);
  for (const auto& [key, lane] : lanes().numbers) {
    if (key.first == device) all.push_back(lane);
  }
  return all;
}

void name_lane(Lane lane, int64_t stream) {
  const std::lock_guard lock(lanes().mutex);
  lanes().known[lane].stream = stream;
}

void note_new_stream(int device, int64_t stream, bool collectives) {
  trace_gpu(
      [&](const auto& listener) { listener.trace_gpu_stream_creation(c10::kCUDA, stream_handle(device, stream)); });
  if (!watching() || on_real_devices()) return;
  const Lane lane = lane_of(device, stream);
  {
    Lanes& all = lanes();
    const std::lock_guard lock(all.mutex);
    if (all.known[lane].made == 0) all.known[lane].made = user_site();
    all.known[lane].collectives = collectives;
  }
  g_ordering.store(true, std::memory_order_relaxed);
}

void record_event(OrderedEvent* event, int device, int64_t stream) {
  if (capturing()) {
    capture_record(event, device, stream);
  } else {
    event->captured = false;
  }
  sim::Streams::record(*event, device, stream);
  if (on_real_devices()) return;
  event->stamp = stream_order().record(lane_of(device, stream));
  follow_default(device, stream);
}

void stream_waits(int device, int64_t stream, const OrderedEvent& event) {
  if (capturing()) capture_wait(device, stream, event);
  if (on_real_devices()) return;
  stream_order().wait(lane_of(device, stream), event.stamp);
}

void host_waits(const OrderedEvent& event) {
  if (on_real_devices()) return;
  stream_order().host_waits(event.stamp);
  settle_pinned();
}

void host_waits(int device, int64_t stream) {
  trace_gpu([&](const auto& listener) {
    listener.trace_gpu_stream_synchronization(c10::kCUDA, stream_handle(device, stream));
  });
  host_knows(device, stream);
}

void host_knows(int device, int64_t stream) {
  if (on_real_devices()) return;
  stream_order().host_waits(lane_of(device, stream));
  follow_default(device, stream);
  settle_pinned();
}

void host_waits_for_device(int device) {
  if (on_real_devices()) return;
  lane_of(device, 0);  // nothing may have asked for it yet, and what was made until now is its work
  for (const Lane lane : lanes_of(device)) stream_order().host_waits(lane);
  follow_default(device, 0);
  settle_pinned();
}

StreamWork::StreamWork(int device, int64_t stream, engine::OperatorId op)
    : lane_(lane_of(device, stream)), note_{current_site(), op, 0} {}

void StreamWork::add(order::Shadow* shadow, Kind kind, const order::Range& range, int argument, const Tensor* t) {
  order::Note note = note_;
  note.argument = static_cast<uint8_t>(argument);
  touches_.push_back({shadow, kind, range, note});
  tensors_.push_back(t);
}

void StreamWork::touches(const Tensor& t, bool written, int argument) {
  if (!t.defined() || !is_plain(t) || !t.has_storage()) return;
  if (t.numel() == 0) return;
  if (t.is_cuda()) {
    DeviceBlock* const block = block_of(*t.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl());
    order::Shadow* const shadow = shadow_of(block);
    reads_kept_ = reads_kept_ || (!written && shadow != nullptr && block->kept.load(std::memory_order_relaxed));
    touches(t, shadow, written, argument);
  } else if (HostHeader* header = pinned_header(t)) {
    touches(t, busy_shadow(header), written, argument);
  }
}

void StreamWork::touches(const Tensor& t, order::Shadow* shadow, bool written, int argument) {
  const Span span = span_of(t);
  if (shadow == nullptr || span.begin == span.end) return;
  const uint64_t size = t.unsafeGetTensorImpl()->unsafe_storage().nbytes();
  order::Range range{span.begin, span.end >= size ? order::Range::kEnd : span.end, nullptr};
  if (span.gaps) {
    gaps_.emplace_front([&t](uint64_t begin, uint64_t end) { return has_bytes_in(t, begin, end); });
    range.touches = &gaps_.front();
  }
  add(shadow, written ? Kind::kWrite : Kind::kRead, range, argument, &t);
}

void StreamWork::touches(const c10::StorageImpl& storage, bool written) {
  order::Shadow* shadow = shadow_of(block_of(storage));
  if (shadow != nullptr) add(shadow, written ? Kind::kWrite : Kind::kRead, order::Range(), 0, nullptr);
}

void StreamWork::finish() {
  if (touches_.empty() || t_unfollowed != 0) return;
  order::Conflicts found;
  stream_order().work(lane_, touches_.data(), touches_.size(), &found);
  for (const order::Conflict& conflict : found) {
    const order::Touch& touch = touches_[conflict.touch];
    report_race(conflict, {lane_, touch.kind, touch.note, tensors_[conflict.touch]});
  }
  if (reads_kept_) report_read_of_kept();
}

bool is_direct(const Tensor& to, const Tensor& from) {
  return to.scalar_type() == from.scalar_type() && to.is_conj() == from.is_conj() && to.is_neg() == from.is_neg() &&
         to.sizes() == from.sizes() &&
         ((to.is_contiguous() && from.is_contiguous()) ||
          (to.strides() == from.strides() && to.is_non_overlapping_and_dense()));
}

bool order_copy(const Tensor& to, const Tensor& from, bool non_blocking) {
  report_pinned_faults();
  const bool to_host = to.device().is_cpu(), from_host = from.device().is_cpu();
  const int device = to_host ? from.device().index() : to.device().index();
  if (!to_host && !from_host && to.device() != from.device()) {
    // The source's stream copies, after what the other stream has so far; the other goes on after the copy.
    const int source = from.device().index();
    const Lane here = lane_of(source, current_stream(source)), there = lane_of(device, current_stream(device));
    stream_order().wait_for(here, there);
    if (ordering()) {
      StreamWork work(source, copy_number());
      work.touches(from, false, 1);
      work.touches(to, true, 0);
      work.finish();
    }
    stream_order().wait_for(there, here);
    follow_default(source, current_stream(source));
    follow_default(device, current_stream(device));
    return false;
  }
  const bool direct = is_direct(to, from);
  const bool host_is_pinned =
      (to_host && is_pinned(to.storage().data())) || (from_host && is_pinned(from.storage().data()));
  const bool waits = (to_host || from_host) && (!non_blocking || (to_host && (!host_is_pinned || !direct)));
  // What stands between the two is PyTorch's own, and held for as long as it is needed.
  // A copy that the host waits for leaves nothing under way, but other streams' copies may be under way when it begins.
  const bool uses_pinned = direct && host_is_pinned && (!waits || copies_pending());
  if (ordering() || uses_pinned) {
    StreamWork work(device, copy_number());
    if (from_host ? uses_pinned : ordering()) work.touches(from, false, 1);
    if (to_host ? uses_pinned : ordering()) work.touches(to, true, 0);
    work.finish();
  }
  if (waits) host_waits(device, current_stream(device));
  return waits;
}

void order_host_access(const std::string& op, const Tensor& t, Kind kind, int argument) {
  HostHeader* header = pinned_header(t);
  if (header == nullptr || header->shadow == nullptr) return;
  report_pinned_faults();
  const Span span = span_of(t);
  if (span.begin == span.end) return;
  const std::function<bool(uint64_t, uint64_t)> gaps = [&t](uint64_t begin, uint64_t end) {
    return has_bytes_in(t, begin, end);
  };
  const order::Range range{span.begin, span.end >= t.storage().nbytes() ? order::Range::kEnd : span.end,
                           span.gaps ? &gaps : nullptr};
  const order::Note note{current_site(), operator_number(op), static_cast<uint8_t>(argument)};
  order::Conflicts found;
  stream_order().host_access({header->shadow, kind, range, note}, &found);
  for (const order::Conflict& conflict : found) report_race(conflict, {order::kHost, kind, note, &t});
  if (!found.empty()) settle_pinned();
}

void record_on_stream(const c10::DataPtr& data, int device, int64_t stream) {
  DeviceBlock* block = ordering() ? block_of(data) : nullptr;
  if (block == nullptr) return;
  stream_order().record_use(shadow_of(block), lane_of(device, stream));
}

void order_free(int device, uint64_t address, uint64_t bytes, const order::Shadow& shadow, int64_t home) {
  stream_order().free(device, address, bytes, shadow, lane_of(device, home));
}

std::unique_ptr<order::Shadow> order_reuse(int device, uint64_t address, uint64_t bytes) {
  if (!stream_order().any_freed()) return nullptr;
  auto shadow = std::make_unique<order::Shadow>();
  return stream_order().reuse(device, address, bytes, shadow.get()) ? std::move(shadow) : nullptr;
}

}  // namespace locus::bridge
