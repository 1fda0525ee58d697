// See carried_work.h.
#include "locus/bridge/distributed/carried_work.h"

#include <c10/util/ScopeExit.h>

#include <utility>

#include "locus/bridge/streams/ordering.h"

namespace locus::bridge {

using c10::ivalue::Future;

namespace {

bool is_point_to_point(c10d::OpType type) {
  return type == c10d::OpType::SEND || type == c10d::OpType::RECV || type == c10d::OpType::COALESCED;
}

}  // namespace

CarriedWork::CarriedWork(int rank, c10d::OpType type, std::vector<Part> parts, std::vector<at::Tensor> results,
                         c10::Device device, std::function<void()> finish, uint64_t sequence)
    : Work(rank, type),
      parts_(std::move(parts)),
      results_(std::move(results)),
      finish_(std::move(finish)),
      future_(
          c10::make_intrusive<Future>(c10::ListType::create(c10::TensorType::get()), std::vector<c10::Device>{device})),
      left_(parts_.size()),
      point_to_point_(is_point_to_point(type)),
      barrier_(type == c10d::OpType::BARRIER),
      sequence_(sequence) {}

c10::intrusive_ptr<CarriedWork> CarriedWork::start(c10::intrusive_ptr<CarriedWork> work) {
  if (work->point_to_point_) return work;  // Gloo's sends and receives have no futures: whoever waits finishes them
  if (work->parts_.empty()) work->complete(nullptr);
  for (const Part& part : work->parts_) {
    part->getFuture()->addCallback(
        [work](Future& done) { work->part_done(done.hasError() ? done.exception_ptr() : nullptr); });
  }
  return work;
}

void CarriedWork::part_done(const std::exception_ptr& error) {
  if (error != nullptr) return complete(error);
  if (left_.fetch_sub(1) == 1) complete(nullptr);
}

void CarriedWork::complete(std::exception_ptr error) {
  if (ended_.exchange(true)) return;
  if (error == nullptr && finish_) {
    try {
      finish_();
    } catch (...) {
      error = std::current_exception();
    }
  }
  if (done_) done_();
  if (error != nullptr) {
    future_->setErrorIfNeeded(error);
  } else {
    // Who waits for the future waits for the stream that it is completed on.
    const int64_t outer = device_ >= 0 ? current_stream(device_) : 0;
    if (device_ >= 0) set_current_stream(device_, stream_);
    future_->markCompleted(c10::IValue(results_));
    if (device_ >= 0) set_current_stream(device_, outer);
  }
  Work::finish(error);
  finish_ = nullptr;
}

void CarriedWork::give_up(const std::string& why) {
  complete(std::make_exception_ptr(std::runtime_error(why)));
  if (point_to_point_) {
    for (const Part& part : parts_) part->abort();
  }
}

void CarriedWork::on_stream(int device, int64_t stream, order::Stamp stamp) {
  device_ = device, stream_ = stream;
  stamp_ = std::move(stamp);
}

/// NCCL's wait() holds up the current stream, and the host only at a barrier.
void CarriedWork::make_current_stream_wait() const {
  if (device_ < 0) return;
  OrderedEvent done;
  done.stamp = stamp_;
  stream_waits(device_, current_stream(device_), done);
  if (barrier_) host_waits(done);
}

bool CarriedWork::isCompleted() {
  if (!point_to_point_ || ended_.load()) return Work::isCompleted();
  for (const Part& part : parts_) {
    if (!part->isCompleted()) return false;
  }
  return true;
}

bool CarriedWork::wait_for_parts(std::chrono::milliseconds timeout) {
  try {
    for (const Part& part : parts_) part->wait(timeout);
    complete(nullptr);
  } catch (...) {
    complete(std::current_exception());
  }
  return Work::wait(kNoTimeout);
}

bool CarriedWork::wait(std::chrono::milliseconds timeout) {
  ++waiting_;
  const auto done = c10::make_scope_exit([this] { --waiting_; });
  const bool is_done = point_to_point_ && !ended_.load() ? wait_for_parts(timeout) : Work::wait(timeout);
  make_current_stream_wait();
  return is_done;
}

void CarriedWork::abort() {
  for (const Part& part : parts_) part->abort();
}

int CarriedWork::sourceRank() const { return parts_.empty() ? -1 : parts_.front()->sourceRank(); }

c10::intrusive_ptr<Future> CarriedWork::getFuture() {
  if (point_to_point_ && !ended_.load()) wait_for_parts(kNoTimeout);
  return future_;
}

}  // namespace locus::bridge
