// Streams, events and waits of the simulated devices, told to locus/order; what kernels and copies touch, likewise.
// Everything that races are judged by comes through here. What is found goes to races.h.
//
// All threads of the host are one lane: they hand things to each other in ways that nobody sees.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/SmallVector.h>

#include <atomic>
#include <forward_list>
#include <functional>
#include <memory>
#include <vector>

#include "locus/bridge/state.h"
#include "locus/engine/origin.h"
#include "locus/engine/site.h"
#include "locus/order/order.h"

namespace locus::bridge {

/// Whether work on device memory is followed: from a program's second stream on. Until then that is one comparison an
/// operator.
extern std::atomic<bool> g_ordering;
inline bool ordering() { return g_ordering.load(std::memory_order_relaxed); }
order::Order& stream_order();

/// The time of the device's default stream, for its memory that is taken before anything is followed; 0: followed now,
/// or never, where a stream has it that was made before the check.
order::Time birth_time(int device, int64_t stream);

/// A lane as the program knows it.
struct LaneInfo {
  int device = -1;  ///< -1: the host
  int64_t stream = 0;
  engine::SiteId made = 0;   ///< the line that made the stream
  bool collectives = false;  ///< the stream of a group's collectives
};
order::Lane lane_of(int device, int64_t stream);
LaneInfo lane_info(order::Lane lane);
/// All lanes of a device.
std::vector<order::Lane> lanes_of(int device);
/// PyTorch's number for the stream of a lane that was made for something else that stands for it.
void name_lane(order::Lane lane, int64_t stream);
/// A stream that is not the default one is there.
void note_new_stream(int device, int64_t stream, bool collectives = false);

/// An event of PyTorch's on a simulated device.
struct OrderedEvent : sim::Event {
  order::Stamp stamp;
  bool captured = false;             ///< recorded on a stream that is being captured, see graphs.h
  order::VectorClock capture_clock;  ///< and what that stream had done in the capture
};
void record_event(OrderedEvent* event, int device, int64_t stream);
void stream_waits(int device, int64_t stream, const OrderedEvent& event);
void host_waits(const OrderedEvent& event);
void host_waits(int device, int64_t stream);
/// It has asked, and the stream is done.
void host_knows(int device, int64_t stream);
void host_waits_for_device(int device);

/// What is run on this thread meanwhile is not put on a stream now: a capture, or parts of a replay.
extern constinit thread_local int t_unfollowed;
struct Unfollowed {
  Unfollowed() { t_unfollowed += 1; }
  ~Unfollowed() { t_unfollowed -= 1; }
  Unfollowed(const Unfollowed&) = delete;
  Unfollowed& operator=(const Unfollowed&) = delete;
};

/// One piece of work on the current stream of a device, or on another: what it reads, writes and makes. Only where
/// ordering(). The tensors must stay until finish().
class StreamWork {
 public:
  StreamWork(int device, engine::OperatorId op) : StreamWork(device, current_stream(device), op) {}
  StreamWork(int device, int64_t stream, engine::OperatorId op);
  StreamWork(order::Lane lane, const order::Note& note) : lane_(lane), note_(note) {}
  void touches(const at::Tensor& t, bool written, int argument = 0);
  /// Where it is known what is remembered of the tensor's memory.
  void touches(const at::Tensor& t, order::Shadow* shadow, bool written, int argument);
  void touches(const c10::StorageImpl& storage, bool written);
  /// Tells of it, and reports what it conflicts with.
  void finish();

 private:
  void add(order::Shadow* shadow, order::Kind kind, const order::Range& range, int argument, const at::Tensor* t);

  order::Lane lane_;
  order::Note note_;
  c10::SmallVector<order::Touch, 8> touches_;
  c10::SmallVector<const at::Tensor*, 8> tensors_;
  bool reads_kept_ = false;  ///< a graph's result that the program has kept
  std::forward_list<std::function<bool(std::uint64_t, std::uint64_t)>> gaps_;  ///< stay where they are; few have any
};

/// A copy that PyTorch makes in one go. Otherwise a temporary tensor on the host stands between the two.
bool is_direct(const at::Tensor& to, const at::Tensor& from);
/// A copy between two devices, or on one, as PyTorch makes it: on which stream, and who waits for whom. True: the host
/// waits for it.
bool order_copy(const at::Tensor& to, const at::Tensor& from, bool non_blocking);

/// The host itself reads or writes memory that copies use. `op`, `argument`: who does.
void order_host_access(const std::string& op, const at::Tensor& t, order::Kind kind, int argument);

/// record_stream(): the allocator waits for what the stream has at the time when the memory is freed.
void record_on_stream(const c10::DataPtr& data, int device, int64_t stream);
/// Device memory is freed, or was taken just now.
void order_free(int device, std::uint64_t address, std::uint64_t bytes, const order::Shadow& shadow, int64_t home);
std::unique_ptr<order::Shadow> order_reuse(int device, std::uint64_t address, std::uint64_t bytes);

}  // namespace locus::bridge
