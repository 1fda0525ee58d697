// See operator_memory.h. The rules, and which operators have one. Convolutions and reductions have files of their own.
#include "locus/sim/operator_memory.h"

#include <algorithm>
#include <utility>

#include "locus/sim/convolution_memory.h"

namespace locus::sim {

namespace {

using Rule = std::pair<std::string_view, MemoryRule>;
constexpr std::array kRules = {
    Rule{"aten::mm", MemoryRule::kBlas},
    Rule{"aten::bmm", MemoryRule::kBlas},
    Rule{"aten::baddbmm", MemoryRule::kBlas},
    Rule{"aten::addbmm", MemoryRule::kBlas},
    Rule{"aten::mv", MemoryRule::kBlas},
    Rule{"aten::addmv", MemoryRule::kBlas},
    Rule{"aten::dot", MemoryRule::kBlas},
    Rule{"aten::vdot", MemoryRule::kBlas},
    Rule{"aten::_int_mm", MemoryRule::kBlas},
    Rule{"aten::_linalg_solve_ex", MemoryRule::kBlas},
    Rule{"aten::linalg_inv_ex", MemoryRule::kBlas},
    Rule{"aten::linalg_lu_factor_ex", MemoryRule::kBlas},
    Rule{"aten::_linalg_eigh", MemoryRule::kBlas},
    Rule{"aten::addmm", MemoryRule::kBlasWithBias},
    Rule{"aten::_addmm_activation", MemoryRule::kBlasWithBias},
    Rule{"aten::convolution", MemoryRule::kConvolution},
    Rule{"aten::convolution_overrideable", MemoryRule::kConvolution},
    Rule{"aten::convolution_backward", MemoryRule::kConvolutionBackward},
    Rule{"aten::sum", MemoryRule::kReduction},
    Rule{"aten::sum.dim_IntList", MemoryRule::kReduction},
    Rule{"aten::nansum", MemoryRule::kReduction},
    Rule{"aten::mean", MemoryRule::kReduction},
    Rule{"aten::mean.dim", MemoryRule::kReduction},
    Rule{"aten::prod", MemoryRule::kReduction},
    Rule{"aten::prod.dim_int", MemoryRule::kReduction},
    Rule{"aten::amax", MemoryRule::kReduction},
    Rule{"aten::amin", MemoryRule::kReduction},
    Rule{"aten::max", MemoryRule::kReduction},
    Rule{"aten::min", MemoryRule::kReduction},
    Rule{"aten::linalg_vector_norm", MemoryRule::kReduction},
    Rule{"aten::argmax", MemoryRule::kReductionPair},
    Rule{"aten::argmin", MemoryRule::kReductionPair},
    Rule{"aten::max.dim", MemoryRule::kReductionPair},
    Rule{"aten::min.dim", MemoryRule::kReductionPair},
    Rule{"aten::var.correction", MemoryRule::kReductionWelford},
    Rule{"aten::std.correction", MemoryRule::kReductionWelford},
    Rule{"aten::var_mean.correction", MemoryRule::kReductionWelford},
    Rule{"aten::std_mean.correction", MemoryRule::kReductionWelford},
    Rule{"aten::mse_loss", MemoryRule::kLoss},
    Rule{"aten::smooth_l1_loss", MemoryRule::kLoss},
    Rule{"aten::huber_loss", MemoryRule::kLoss},
    Rule{"aten::binary_cross_entropy", MemoryRule::kLoss},
    Rule{"aten::embedding_dense_backward", MemoryRule::kEmbeddingBackward},
    Rule{"aten::_embedding_bag_backward", MemoryRule::kEmbeddingBackward},
    Rule{"aten::_embedding_bag_dense_backward", MemoryRule::kEmbeddingBackward},
    Rule{"aten::sort", MemoryRule::kSort},
    Rule{"aten::sort.stable", MemoryRule::kSort},
    Rule{"aten::argsort.stable", MemoryRule::kSort},
    Rule{"aten::index.Tensor", MemoryRule::kIndexByMask},
    Rule{"aten::masked_select", MemoryRule::kIndexByMask},
    Rule{"aten::index_put_", MemoryRule::kIndexPut},
    Rule{"aten::_index_put_impl_", MemoryRule::kIndexPut},
    Rule{"aten::multinomial", MemoryRule::kMultinomial},
    Rule{"aten::randperm.out", MemoryRule::kPermutation},
    Rule{"aten::randperm.generator_out", MemoryRule::kPermutation},
    Rule{"aten::_unique2", MemoryRule::kUnique},
    Rule{"aten::native_layer_norm", MemoryRule::kNormalization},
    Rule{"aten::native_batch_norm", MemoryRule::kNormalization},
    Rule{"aten::_native_batch_norm_legit", MemoryRule::kNormalization},
    Rule{"aten::_native_batch_norm_legit.no_stats", MemoryRule::kNormalization},
    Rule{"aten::_fft_r2c", MemoryRule::kFourier},
    Rule{"aten::_fft_c2c", MemoryRule::kFourier},
    Rule{"aten::_fft_c2r", MemoryRule::kFourier},
};

constexpr std::int64_t kIndex = 8;                 // bytes of a position
constexpr std::int64_t kSmallSort = 4096;          // elements of a slice that one block sorts
constexpr std::int64_t kFewSlices = 128;           // below this all slices are sorted at once, by slice and key
constexpr std::int64_t kLongSlice = 1'000'000;     // from this on, one after another
constexpr std::int64_t kSmallEmbedding = 3072;     // indices that one kernel adds up without sorting
constexpr std::int64_t kRowsOfAPart = 10;          // gradients that one thread adds up
constexpr std::int64_t kSmallPermutation = 65536;  // what a key of 32 bits orders

/// CUB's radix sort needs a second copy of keys and values, and a little.
std::int64_t radix_scratch(std::int64_t elements, std::int64_t key, std::int64_t value) {
  return elements * (key + value) + elements * (key + value) / 64;
}

/// Bytes of a sum's accumulator.
int accumulator(const Geometry& input) { return input.floating ? std::max<int>(input.item, 4) : 8; }

/// The dimensions that a reduction's argument names, as bits; all where it names none.
std::uint32_t dims_of(const OperatorArgument& argument, const Geometry& input) {
  if (argument.count == 0) return ~std::uint32_t{0};
  std::uint32_t bits = 0;
  for (std::size_t i = 0; i < argument.count; ++i) {
    const std::int64_t dim = argument.numbers[i] < 0 ? argument.numbers[i] + input.dims : argument.numbers[i];
    if (dim >= 0 && dim < 32) bits |= std::uint32_t{1} << dim;
  }
  return bits;
}

void add_reduction(const OperatorCall& call, int bytes, const Card& card, OperatorMemory& memory) {
  const Geometry& input = call.arguments[0].tensor;
  // Of linalg_vector_norm (self, ord, dim, …) the third argument, of others the second.
  const bool is_norm = call.argument_count == 6 || (call.argument_count == 5 && call.arguments[1].count == 1 &&
                                                    call.arguments[3].count == 1 && call.arguments[2].count != 1);
  static const OperatorArgument kAll;
  const OperatorArgument& dim = call.argument_count < 2 ? kAll : call.arguments[is_norm ? 2 : 1];
  const ReductionScratch scratch = reduction_scratch(input, dims_of(dim, input), bytes, card);
  for (std::size_t i = 0; i < call.result_count; ++i) memory.result(i);
  memory.take(scratch.partial);
  memory.take(scratch.semaphores);
}

void add_embedding_backward(const OperatorCall& call, OperatorMemory& memory) {
  const Geometry &grad = call.arguments[0].tensor, &indices = call.arguments[1].tensor, &weight = call.results[0];
  const std::int64_t n = indices.elements(), width = grad.dims == 0 ? 0 : grad.sizes[grad.dims - 1];
  const std::int64_t rows = weight.dims == 0 ? 0 : weight.sizes[0];
  if (n <= kSmallEmbedding) return;
  memory.take(2 * n * kIndex);  // the indices, sorted, and where they came from
  memory.give(memory.take(n * kIndex + radix_scratch(n, kIndex, kIndex)));
  memory.result(0);
  memory.take(4 * n * kIndex);  // segments: starts, counts
  const std::int64_t parts = n / kRowsOfAPart + std::min(n, rows);
  memory.take(parts * kIndex);
  memory.take(parts * width * std::max<int>(grad.item, 4));
}

void add_sort(const OperatorCall& call, OperatorMemory& memory) {
  const Geometry& input = call.arguments[0].tensor;
  // sort(self, dim, descending), sort.stable(self, *, stable, dim, descending)
  const std::size_t dim_at = call.argument_count >= 4 ? 2 : 1;
  std::int64_t dim = call.arguments[dim_at].number(0, -1);
  if (dim < 0) dim += input.dims;
  const std::int64_t n = input.elements(), slice = input.dims == 0 ? 1 : input.sizes[static_cast<std::size_t>(dim)];
  for (std::size_t i = 0; i < call.result_count; ++i) memory.result(i);
  if (slice <= kSmallSort || n == 0) return void(memory.take(slice * kIndex));
  const std::int64_t slices = n / slice;
  if (input.strides[static_cast<std::size_t>(dim)] != 1) memory.take(2 * n * input.item + n * kIndex);  // laid out anew
  if (slices > 1 && slices < kFewSlices) {
    if (slice >= kLongSlice) {
      memory.take(slice * kIndex);
      memory.take(radix_scratch(slice, input.item, kIndex));
      return;
    }
    memory.take(n * (kIndex + input.item));
  }
  memory.take(n * kIndex);
  memory.take(radix_scratch(n, input.item, kIndex));
}

void add_index_by_mask(const OperatorCall& call, OperatorMemory& memory) {
  const Geometry &input = call.arguments[0].tensor, &mask = call.arguments[1].tensor;
  if (!mask.is_bool || mask.elements() == 0) return;
  const std::int64_t inner = std::max<std::int64_t>(input.elements() / mask.elements(), 1);
  memory.take(call.results[0].elements() / inner * kIndex * std::max<int>(mask.dims, 1));
}

void add_index_put(const OperatorCall& call, OperatorMemory& memory) {
  // self, indices, values, accumulate
  const Geometry &input = call.arguments[0].tensor, &index = call.arguments[1].tensor,
                 &values = call.arguments[2].tensor;
  if (call.arguments[3].number(0, 0) == 0) return;
  std::int64_t n = index.elements();
  if (index.is_bool && n != 0) n = values.elements() / std::max<std::int64_t>(input.elements() / n, 1);
  memory.take(4 * n * kIndex);
  memory.take(radix_scratch(n, kIndex, kIndex));
}

void add_permutation(const OperatorCall& call, OperatorMemory& memory) {
  const std::int64_t n = call.arguments[0].number(0, 0), key = n > kSmallPermutation ? 8 : 4;
  memory.take(n * kIndex + 2 * n * key);
  memory.take(radix_scratch(n, key, kIndex));
}

void add_unique(const OperatorCall& call, OperatorMemory& memory) {
  const Geometry& input = call.arguments[0].tensor;
  const int sorted = memory.take(input.bytes());
  memory.give(memory.take(radix_scratch(input.elements(), input.item, 0)));
  memory.result(0, input.bytes());  // the sorted values' memory, of which it keeps the beginning
  memory.give(sorted);
}

/// PyTorch asks cuBLASLt for a product with a bias of one dimension: see addmm in its Blas.cpp.
bool goes_to_lt(const OperatorCall& call) {
  const Geometry &bias = call.arguments[0].tensor, &right = call.arguments[2].tensor;
  return bias.dims == 1 && bias.floating && right.dims == 2 && right.sizes[0] > 1 && right.sizes[1] > 1 &&
         bias.sizes[0] == right.sizes[1] && call.arguments[3].number(0, 1) == 1;
}

}  // namespace

MemoryRule memory_rule(std::string_view operator_name) {
  const auto found =
      std::find_if(kRules.begin(), kRules.end(), [&](const Rule& rule) { return rule.first == operator_name; });
  return found == kRules.end() ? MemoryRule::kNone : found->second;
}

OperatorMemory operator_memory(const OperatorCall& call, const Card& card) {
  OperatorMemory memory;
  const Geometry& first = call.arguments[0].tensor;
  switch (call.rule) {
    case MemoryRule::kNone:
      break;
    case MemoryRule::kBlas:
      memory.blas = true;
      break;
    case MemoryRule::kBlasWithBias:
      memory.blas = true;
      memory.blas_lt = goes_to_lt(call);
      break;
    case MemoryRule::kConvolution:
      add_convolution(call, card, memory);
      break;
    case MemoryRule::kConvolutionBackward:
      add_convolution_backward(call, card, memory);
      break;
    case MemoryRule::kReduction:
      add_reduction(call, accumulator(first), card, memory);
      break;
    case MemoryRule::kReductionPair:
      add_reduction(call, 16, card, memory);
      break;
    case MemoryRule::kReductionWelford:
      add_reduction(call, first.item == 8 ? 32 : 16, card, memory);
      break;
    case MemoryRule::kLoss:  // self, target, (weight,) reduction
      if (call.results[0].elements() == 1) memory.take(first.bytes());
      break;
    case MemoryRule::kEmbeddingBackward:
      add_embedding_backward(call, memory);
      break;
    case MemoryRule::kSort:
      add_sort(call, memory);
      break;
    case MemoryRule::kIndexByMask:
      add_index_by_mask(call, memory);
      break;
    case MemoryRule::kIndexPut:
      add_index_put(call, memory);
      break;
    case MemoryRule::kMultinomial:
      memory.take(first.bytes());
      break;
    case MemoryRule::kPermutation:
      add_permutation(call, memory);
      break;
    case MemoryRule::kUnique:
      add_unique(call, memory);
      break;
    case MemoryRule::kFourier:
      memory.take(call.results[0].bytes());
      break;
    case MemoryRule::kNormalization:  // the normalized input, then a mean and a deviation of each part
      memory.result(0);
      for (std::size_t i = 1; i < call.result_count; ++i) {
        memory.result(i, call.results[i].elements() * std::max<int>(call.results[i].item, 4));
      }
      break;
  }
  return memory;
}

}  // namespace locus::sim
