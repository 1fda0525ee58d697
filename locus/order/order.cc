// See order.h.
#include "locus/order/order.h"

#include <algorithm>

namespace locus::order {
namespace {

Access access_of(const Note& note, Lane lane, Time time) {
  Access access;
  access.time = time, access.lane = lane;
  access.site = note.site, access.op = note.op, access.argument = note.argument;
  return access;
}

}  // namespace

Order::Order(int devices) : freed_(static_cast<std::size_t>(devices)) {
  lanes_.emplace_back();
  lanes_.front().clock.set(kHost, 1);
}

Lane Order::add_lane() {
  const std::lock_guard lock(mutex_);
  if (lanes_.size() >= kMostLanes) return static_cast<Lane>(lanes_.size() - 1);
  const auto lane = static_cast<Lane>(lanes_.size());
  lanes_.emplace_back().clock.set(lane, 1);
  return lane;
}

std::size_t Order::lanes() const {
  const std::lock_guard lock(mutex_);
  return lanes_.size();
}

/// The lane's state, with what the thread knows that puts something there.
Order::State& Order::learn(Lane lane, Lane by) {
  State& state = lanes_[lane];
  const State& thread = lanes_[by];
  if (state.known_version == thread.version && state.known_thread == by) return state;
  state.clock.join(thread.clock);
  state.known_thread = by;
  state.known_version = thread.version;
  return state;
}

/// Others may know of what was there so far; what follows is later.
void Order::tick(Lane lane) { lanes_[lane].clock.set(lane, lanes_[lane].clock.at(lane) + 1); }

Stamp Order::record(Lane lane, Lane by) {
  const std::lock_guard lock(mutex_);
  Stamp stamp;
  stamp.clock_ = std::make_shared<const VectorClock>(learn(lane, by).clock);
  tick(lane);
  return stamp;
}

void Order::wait(Lane lane, const Stamp& stamp, Lane by) {
  const std::lock_guard lock(mutex_);
  State& state = learn(lane, by);
  if (stamp.clock_ != nullptr) state.clock.join(*stamp.clock_);
}

void Order::wait_for(Lane lane, Lane other, Lane by) {
  const std::lock_guard lock(mutex_);
  State& state = learn(lane, by);
  if (lane == other) return;
  state.clock.join(learn(other, by).clock);
  tick(other);
}

void Order::host_waits(const Stamp& stamp, Lane thread) {
  const std::lock_guard lock(mutex_);
  State& state = lanes_[thread];
  if (stamp.clock_ != nullptr && state.clock.join(*stamp.clock_)) state.version += 1;
}

void Order::host_waits(Lane lane, Lane thread) {
  const std::lock_guard lock(mutex_);
  State& state = lanes_[thread];
  if (lane == thread) return;
  state.clock.join(lanes_[lane].clock);
  state.version += 1;
  tick(lane);
}

void Order::hand_over(Lane from, Lane to) {
  const std::lock_guard lock(mutex_);
  if (from == to) return;
  if (lanes_[to].clock.join(lanes_[from].clock)) lanes_[to].version += 1;
  tick(from);
  lanes_[from].version += 1;
}

void Order::work(Lane lane, const Touch* touches, std::size_t count, Conflicts* conflicts, Lane by) {
  const std::lock_guard lock(mutex_);
  const State& state = learn(lane, by);
  const Time time = state.clock.at(lane);
  // What is read is judged before what is written: a kernel that does both is no conflict with itself.
  for (const Kind kind : {Kind::kRead, Kind::kWrite}) {
    for (std::size_t i = 0; i < count; ++i) {
      const Touch& touch = touches[i];
      if (touch.kind != kind) continue;
      const std::size_t before = conflicts->size();
      touch.shadow->add(kind, access_of(touch.note, lane, time), touch.range, state.clock, conflicts);
      for (std::size_t k = before; k < conflicts->size(); ++k) (*conflicts)[k].touch = static_cast<std::uint32_t>(i);
    }
  }
}

void Order::host_access(const Touch& touch, Conflicts* conflicts, Lane thread) {
  const std::lock_guard lock(mutex_);
  State& state = lanes_[thread];
  // Work that was put on a lane before does not know of it.
  tick(thread);
  state.version += 1;
  touch.shadow->add(touch.kind, access_of(touch.note, thread, state.clock.at(thread)), touch.range, state.clock,
                    conflicts);
}

std::vector<Pending> Order::pending(const Shadow& shadow, Lane thread) const {
  const std::lock_guard lock(mutex_);
  const VectorClock& clock = lanes_[thread].clock;
  std::vector<Pending> found;
  shadow.each([&](const Cell& cell, std::uint64_t begin, std::uint64_t end) {
    const auto is_pending = [&](const Access& access) { return access.time > clock.at(access.lane); };
    bool reads = is_pending(cell.read);
    const std::vector<Access>& further = cell.further_reads();
    reads = reads || std::any_of(further.begin(), further.end(), is_pending);
    const bool writes = is_pending(cell.write);
    if (reads || writes) found.push_back({begin, end, writes ? Kind::kWrite : Kind::kRead});
  });
  return found;
}

bool Order::host_may(Kind kind, const Shadow& shadow, Lane thread) const {
  for (const Pending& each : pending(shadow, thread)) {
    if (kind == Kind::kWrite || each.kind == Kind::kWrite) return false;
  }
  return true;
}

void Order::assume_written(Shadow* shadow, Lane lane, Time time, Note note) {
  const std::lock_guard lock(mutex_);
  VectorClock everything;
  Conflicts none;
  shadow->add(Kind::kWrite, access_of(note, lane, time), Range(), everything, &none);
}

void Order::attach(Shadow* shadow, std::shared_ptr<void> what) {
  const std::lock_guard lock(mutex_);
  shadow->attach(std::move(what));
}

std::shared_ptr<void> Order::attachment(const Shadow& shadow) const {
  const std::lock_guard lock(mutex_);
  return shadow.attachment();
}

void Order::record_use(Shadow* shadow, Lane lane) {
  const std::lock_guard lock(mutex_);
  shadow->record(lane);
}

void Order::free(int device, std::uint64_t address, std::uint64_t bytes, const Shadow& shadow, Lane home) {
  // What its own stream has done is behind whoever gets the memory there: that is nearly all memory.
  if (shadow.is_only_of(home)) return;
  const std::lock_guard lock(mutex_);
  VectorClock done = lanes_[home].clock;
  for (const Lane lane : shadow.recorded()) done.join(lanes_[lane].clock);
  freed_[static_cast<std::size_t>(device)].free(address, bytes, shadow, done);
  count_freed();
}

bool Order::reuse(int device, std::uint64_t address, std::uint64_t bytes, Shadow* shadow) {
  const std::lock_guard lock(mutex_);
  freed_[static_cast<std::size_t>(device)].reuse(address, bytes, shadow);
  count_freed();
  bool any = shadow->is_split();
  shadow->each([&](const Cell& cell, std::uint64_t, std::uint64_t) { any = any || !cell.empty(); });
  return any;
}

void Order::count_freed() {
  bool any = false;
  for (const FreedMemory& each : freed_) any = any || !each.empty();
  any_freed_.store(any, std::memory_order_relaxed);
}

Time Order::now(Lane lane) const {
  const std::lock_guard lock(mutex_);
  return lanes_[lane].clock.at(lane);
}

}  // namespace locus::order
