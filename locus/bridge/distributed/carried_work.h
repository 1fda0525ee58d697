// The handle of a collective that Gloo carries for simulated tensors. Done when every part is done and the results
// are in place; its future holds the device's tensors, as NCCL's does.
#pragma once

#include <ATen/core/ivalue.h>

#include <atomic>
#include <functional>
#include <string>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <vector>

#include "locus/order/order.h"

namespace locus::bridge {

class CarriedWork final : public c10d::Work {
 public:
  using Part = c10::intrusive_ptr<c10d::Work>;

  /// `finish` puts results in place once all parts are done; it runs on a thread of Gloo's, or on the waiting one.
  CarriedWork(int rank, c10d::OpType type, std::vector<Part> parts, std::vector<at::Tensor> results, c10::Device device,
              std::function<void()> finish, uint64_t sequence);

  /// Begins to follow the parts; apart from the constructor because callbacks need a counted pointer.
  static c10::intrusive_ptr<CarriedWork> start(c10::intrusive_ptr<CarriedWork> work);

  bool isCompleted() override;
  bool wait(std::chrono::milliseconds timeout = kNoTimeout) override;
  void synchronize() override { make_current_stream_wait(); }
  void abort() override;
  int sourceRank() const override;
  std::vector<at::Tensor> result() override { return results_; }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;
  uint64_t getSequencenumber() const override { return sequence_; }

  /// Whether a thread of the program waits for it now.
  bool is_waited_for() const { return waiting_.load() > 0; }
  /// Ends the wait with an error: the other side will not come.
  void give_up(const std::string& why);
  /// It runs on this stream of the device's, which had done `stamp` and no more when it was started.
  void on_stream(int device, int64_t stream, order::Stamp stamp);
  /// Called once, when the work is done, with or without an error.
  void on_done(std::function<void()> done) { done_ = std::move(done); }

 private:
  void make_current_stream_wait() const;
  void part_done(const std::exception_ptr& error);
  void complete(std::exception_ptr error);
  bool wait_for_parts(std::chrono::milliseconds timeout);

  std::vector<Part> parts_;
  std::vector<at::Tensor> results_;
  std::function<void()> finish_, done_;
  c10::intrusive_ptr<c10::ivalue::Future> future_;
  std::atomic<size_t> left_;
  std::atomic<bool> ended_{false};
  std::atomic<int> waiting_{0};
  bool point_to_point_;
  bool barrier_;
  int device_ = -1;  ///< -1: nobody follows streams
  int64_t stream_ = 0;
  order::Stamp stamp_;
  uint64_t sequence_;
};

}  // namespace locus::bridge
