// See collective_rules.h.
#include "locus/bridge/distributed/collective_rules.h"

#include <unistd.h>

#include <cstdlib>
#include <map>
#include <string>
#include <thread>

#include "locus/bridge/memory/memory.h"
#include "locus/bridge/state.h"

namespace locus::bridge {

using at::ScalarType;
using at::Tensor;
using c10d::ReduceOp;

Tensor host_flat(const Tensor& t, ScalarType type) {
  const auto width = static_cast<int64_t>(c10::elementSize(type));
  auto impl =
      c10::make_intrusive<c10::TensorImpl>(c10::Storage(host_storage(*t.storage().unsafeGetStorageImpl())),
                                           c10::DispatchKeySet(c10::DispatchKey::CPU), c10::scalarTypeToTypeMeta(type));
  const auto item = static_cast<int64_t>(t.element_size());
  impl->set_sizes_contiguous({t.numel() * item / width});
  impl->set_storage_offset(t.storage_offset() * item / width);
  return Tensor(std::move(impl));
}

void check_tensor(const Tensor& tensor) {
  TORCH_CHECK_VALUE(is_simulated(tensor) && !tensor.is_sparse(), "Tensors must be CUDA and dense");
  TORCH_CHECK_VALUE(tensor.is_non_overlapping_and_dense(), "Tensors must be contiguous");
}

Tensor only_tensor(const std::vector<Tensor>& tensors) {
  TORCH_CHECK_VALUE(tensors.size() == 1, "Expecting one tensor only but got ", tensors.size());
  check_tensor(tensors.front());
  return tensors.front();
}

const std::vector<Tensor>& only_list(const std::vector<std::vector<Tensor>>& lists, int size, const Tensor& like) {
  TORCH_CHECK_VALUE(lists.size() == 1, "requires a single-element list of tensor lists, but got ", lists.size());
  const std::vector<Tensor>& list = lists.front();
  TORCH_CHECK_VALUE(list.size() == static_cast<size_t>(size), "Incorrect list size ", list.size(),
                    ". List size should be ", size, ", the number of ranks in the group.");
  for (const Tensor& t : list) {
    TORCH_CHECK_VALUE(is_simulated(t) && !t.is_sparse(), "Tensors must be CUDA and dense");
    TORCH_CHECK_TYPE(t.scalar_type() == like.scalar_type(), "Tensors must have identical type");
    TORCH_CHECK_VALUE(t.device() == like.device(), "Expected list of tensors on the same device");
  }
  return list;
}

void check_whole(const Tensor& whole, const Tensor& part, int size, const char* otherwise) {
  check_tensor(whole);
  check_tensor(part);
  TORCH_CHECK_TYPE(whole.dtype() == part.dtype(), "output tensor must have the same type as input tensor");
  TORCH_CHECK_VALUE(part.numel() * size == whole.numel(), otherwise);
}

std::vector<int64_t> split_bytes(const Tensor& tensor, const std::vector<int64_t>& splits, int size) {
  const int64_t rows = tensor.dim() == 0 ? 1 : tensor.size(0);
  const int64_t row = rows == 0 ? 0 : static_cast<int64_t>(tensor.nbytes()) / rows;
  if (splits.empty()) {
    TORCH_CHECK(rows % size == 0, "Tensor's dim 0 does not divide equally across group size");
    return std::vector<int64_t>(static_cast<size_t>(size), rows / size * row);
  }
  TORCH_CHECK(splits.size() == static_cast<size_t>(size), "Number of tensor splits not equal to group size");
  std::vector<int64_t> bytes;
  int64_t sum = 0;
  for (const int64_t split : splits) {
    bytes.push_back(split * row);
    sum += split;
  }
  TORCH_CHECK(sum == rows, "Split sizes doesn't match total dim 0 size");
  return bytes;
}

std::pair<ScalarType, ReduceOp> reducible(const char* name, const Tensor& tensor, const ReduceOp& how) {
  check_tensor(tensor);
  const ScalarType type = tensor.scalar_type();
  const auto op = how.op_;
  TORCH_CHECK_VALUE(op != ReduceOp::BAND && op != ReduceOp::BOR && op != ReduceOp::BXOR, "Cannot use ReduceOp.",
                    op == ReduceOp::BAND  ? "BAND"
                    : op == ReduceOp::BOR ? "BOR"
                                          : "BXOR",
                    " with NCCL");
  switch (type) {
    case at::kComplexFloat:
    case at::kComplexDouble:
      TORCH_CHECK(op == ReduceOp::SUM || op == ReduceOp::AVG || op == ReduceOp::PREMUL_SUM, name,
                  " does not support this reduction on complex tensors");
      return {type == at::kComplexFloat ? at::kFloat : at::kDouble, how};
    case at::kBool:  // NCCL adds truth values by taking the larger
      TORCH_CHECK_TYPE(op != ReduceOp::AVG, "Cannot use ReduceOp.AVG with boolean inputs");
      return {at::kByte, op == ReduceOp::SUM       ? ReduceOp(ReduceOp::MAX)
                         : op == ReduceOp::PRODUCT ? ReduceOp(ReduceOp::MIN)
                                                   : how};
    case at::kFloat:
    case at::kDouble:
    case at::kHalf:
    case at::kBFloat16:
    case at::kInt:
    case at::kLong:
    case at::kChar:
    case at::kByte:
      return {type, how};
    default:
      TORCH_CHECK_TYPE(false, "Input tensor data type is not supported for NCCL process group: ", type);
  }
}

void multiply_before(Tensor& host, const ReduceOp& how) {
  if (how.op_ != ReduceOp::PREMUL_SUM || how.supplement_ == nullptr) return;
  const auto& factor = *static_cast<const c10d::NCCLPreMulSumSupplement*>(how.supplement_.get());
  if (factor.tensor_factor.defined()) {
    host.mul_(is_simulated(factor.tensor_factor) ? host_alias(factor.tensor_factor) : factor.tensor_factor);
  } else {
    host.mul_(factor.double_factor);
  }
}

void divide_after(const Tensor& host, const ReduceOp& how, int size) {
  if (how.op_ != ReduceOp::AVG) return;
  if (at::isIntegralType(host.scalar_type(), true)) {
    host.div_(size, "trunc");
  } else {
    host.div_(size);
  }
}

namespace {

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

/// The card behind a device: the host, the node that a launcher says this is, and the card's number there.
std::string card_of(c10::Device device) {
  char host[256] = "";
  gethostname(host, sizeof host - 1);
  return std::string(host) + "/" + environment("GROUP_RANK") + "/" + std::to_string(machine().number(device.index()));
}

}  // namespace

std::vector<int> ranks_on_device(c10d::Store& store, int rank, int size, c10::Device device,
                                 std::chrono::milliseconds timeout, const std::function<bool()>& gave_up) {
  const auto key = [](int number) { return "locus/device/" + std::to_string(number); };
  store.set(key(rank), card_of(device));
  std::vector<std::string> keys;
  keys.reserve(static_cast<std::size_t>(size));
  for (int i = 0; i < size; ++i) keys.push_back(key(i));
  // Asked again and again, not waited for: the wait can be given up, and a store that has gone says so at once.
  const auto end = std::chrono::steady_clock::now() + timeout;
  for (auto pause = std::chrono::milliseconds(1); !store.check(keys);
       pause = std::min(2 * pause, std::chrono::milliseconds(50))) {
    TORCH_CHECK(!gave_up(), "locus: gave up waiting for the other ranks of the group");
    TORCH_CHECK(std::chrono::steady_clock::now() < end,
                "NCCL: not all ranks of the group came to its first collective within ", timeout.count(), " ms");
    std::this_thread::sleep_for(pause);
  }
  std::map<std::string, std::vector<int>> users;
  for (int i = 0; i < size; ++i) users[store.get_to_str(keys[static_cast<size_t>(i)])].push_back(i);
  for (const auto& [card, ranks] : users) {
    if (ranks.size() > 1) return ranks;
  }
  return {};
}

}  // namespace locus::bridge
