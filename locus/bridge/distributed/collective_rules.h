// What NCCL accepts, in its own words, and how its reductions are made of Gloo's.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <chrono>
#include <functional>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <torch/csrc/distributed/c10d/Types.hpp>
#include <utility>
#include <vector>

#include "locus/bridge/door/check.h"

namespace locus::bridge {

/// Host tensors are worked on below autograd and the check: they are the backend's own.
class Below {
  c10::impl::ExcludeDispatchKeyGuard guard_{c10::autograd_dispatch_keyset_with_ADInplaceOrView |
                                            c10::DispatchKeySet(kCheckKey)};
};

/// The CPU tensor over the same bytes, flat, as elements of `type`.
at::Tensor host_flat(const at::Tensor& device_tensor, at::ScalarType type);
inline at::Tensor host_bytes(const at::Tensor& t) { return host_flat(t, at::kByte); }

/// "Tensors must be CUDA and dense", "Tensors must be contiguous".
void check_tensor(const at::Tensor& tensor);
/// The one tensor of a call; NCCL takes no more.
at::Tensor only_tensor(const std::vector<at::Tensor>& tensors);
/// The one list of a call, one tensor for each rank, of the type and on the device of `like`.
const std::vector<at::Tensor>& only_list(const std::vector<std::vector<at::Tensor>>& lists, int size,
                                         const at::Tensor& like);
/// `whole` must be `size` times `part`.
void check_whole(const at::Tensor& whole, const at::Tensor& part, int size, const char* otherwise);
/// The bytes that go to, or come from, each rank when dimension 0 is split like this (empty: evenly).
std::vector<int64_t> split_bytes(const at::Tensor& tensor, const std::vector<int64_t>& splits, int size);

/// The type and the reduction with which Gloo gives NCCL's result; refuses what NCCL refuses.
std::pair<at::ScalarType, c10d::ReduceOp> reducible(const char* name, const at::Tensor& tensor,
                                                    const c10d::ReduceOp& how);
void multiply_before(at::Tensor& host, const c10d::ReduceOp& how);
void divide_after(const at::Tensor& host, const c10d::ReduceOp& how, int size);

/// Waits until every rank has said which device it uses; those that use one that another rank uses too, in order.
std::vector<int> ranks_on_device(c10d::Store& store, int rank, int size, c10::Device device,
                                 std::chrono::milliseconds timeout, const std::function<bool()>& gave_up);

}  // namespace locus::bridge
