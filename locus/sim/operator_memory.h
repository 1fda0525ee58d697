// What an operator takes on a card while it runs: scratch memory that goes again, results that count for more than
// they hold, the memory that a library keeps. A pure function of operator, operands' geometry and card, read off
// PyTorch's CUDA sources and measured on a card; where a CUDA kernel allocates otherwise than the CPU kernel that
// stands in for it, the CUDA way counts. The caller plays the steps to the caching model.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "locus/sim/cards.h"

namespace locus::sim {

/// Which rule says what an operator takes; kNone for operators that take their results and nothing else.
enum class MemoryRule : std::uint8_t {
  kNone,
  kBlas,                 ///< a matrix product: cuBLAS's workspace
  kBlasWithBias,         ///< addmm: cuBLASLt's too, where PyTorch goes there
  kConvolution,          ///< cuDNN's scratch
  kConvolutionBackward,  ///< its scratch for the gradients, one after another
  kReduction,            ///< partial sums of a reduction over some dimensions
  kReductionPair,        ///< the same, of value and position (argmax)
  kReductionWelford,     ///< the same, of a mean and a variance
  kLoss,                 ///< a loss with a mean: what is not reduced yet
  kEmbeddingBackward,    ///< sorted indices and partial rows
  kSort,                 ///< keys, positions, CUB's scratch
  kIndexByMask,          ///< positions of what a mask selects
  kIndexPut,             ///< sorted positions, where values are added up
  kMultinomial,          ///< one exponential number for each weight
  kPermutation,          ///< keys and values of a sort
  kUnique,               ///< sorted values, which the result then keeps
  kFourier,              ///< cuFFT's workspace
  kNormalization,        ///< statistics in single precision, where the input has half
};

/// The rule of an operator by PyTorch's name for it, "aten::mm".
MemoryRule memory_rule(std::string_view operator_name);

/// What a tensor looks like. Undefined tensors have no dimensions and no elements.
struct Geometry {
  static constexpr std::size_t kMaxDims = 8;
  std::array<std::int64_t, kMaxDims> sizes{}, strides{};
  std::uint8_t dims = 0;
  std::uint8_t item = 0;       ///< bytes of an element; 0: there is no tensor
  bool floating = false;       ///< includes complex
  bool is_bool = false;        ///< or bytes that serve as a mask
  bool channels_last = false;  ///< the second dimension is the fastest

  bool defined() const { return item != 0; }
  std::int64_t elements() const {
    std::int64_t n = item == 0 ? 0 : 1;
    for (std::size_t i = 0; i < dims; ++i) n *= sizes[i];
    return n;
  }
  std::int64_t bytes() const { return elements() * item; }
};

/// An argument of the call: a tensor, or numbers (a single one, or a list).
struct OperatorArgument {
  Geometry tensor;
  std::array<std::int64_t, Geometry::kMaxDims> numbers{};
  std::uint8_t count = 0;  ///< how many numbers; a list of tensors has its first tensor here and their count below
  std::int64_t number(std::size_t i, std::int64_t otherwise) const { return i < count ? numbers[i] : otherwise; }
};

struct OperatorCall {
  static constexpr std::size_t kMaxArguments = 14, kMaxResults = 4;
  MemoryRule rule = MemoryRule::kNone;
  std::array<OperatorArgument, kMaxArguments> arguments;
  std::size_t argument_count = 0;
  std::array<Geometry, kMaxResults> results;
  std::size_t result_count = 0;
};

/// What happens, in order: scratch is taken and given back, results are made.
struct MemoryStep {
  enum class Kind : std::uint8_t { kTake, kGive, kResult };
  Kind kind = Kind::kTake;
  std::uint8_t which = 0;  ///< kGive: the scratch, counted from 0 as taken; kResult: the result
  std::int64_t bytes = 0;  ///< kTake: its size; kResult: what it counts for, 0 for its own size
};

struct OperatorMemory {
  static constexpr std::size_t kMaxSteps = 16;
  std::array<MemoryStep, kMaxSteps> steps;
  std::uint8_t count = 0, taken = 0;
  bool blas = false, blas_lt = false;  ///< which libraries' workspaces it needs

  /// Takes scratch; its number. Nothing is taken for no bytes.
  int take(std::int64_t bytes) {
    if (bytes <= 0 || count == kMaxSteps) return -1;
    steps[count++] = {MemoryStep::Kind::kTake, 0, bytes};
    return taken++;
  }
  void give(int scratch) {
    if (scratch >= 0 && count < kMaxSteps)
      steps[count++] = {MemoryStep::Kind::kGive, static_cast<std::uint8_t>(scratch), 0};
  }
  void result(std::size_t which, std::int64_t bytes = 0) {
    if (count < kMaxSteps) steps[count++] = {MemoryStep::Kind::kResult, static_cast<std::uint8_t>(which), bytes};
  }
};

/// What the call takes on the card. Scratch that is not given back in the steps goes when they end.
OperatorMemory operator_memory(const OperatorCall& call, const Card& card);

/// The program's settings of the libraries, as its environment has them; read once.
struct LibrarySettings {
  std::int64_t blas_bytes = -1;     ///< CUBLAS_WORKSPACE_CONFIG; -1: the card's default
  std::int64_t blas_lt_bytes = -1;  ///< CUBLASLT_WORKSPACE_SIZE
  bool unified = false;             ///< TORCH_CUBLASLT_UNIFIED_WORKSPACE
};
LibrarySettings library_settings();
/// Bytes of cuBLAS's workspace, for each handle and stream; PyTorch takes it from the caching allocator and keeps it.
std::int64_t blas_workspace(const Card& card, const LibrarySettings& settings);
/// The same of cuBLASLt's.
std::int64_t blas_lt_workspace(const Card& card, const LibrarySettings& settings);

/// Attention as a card runs it.
struct AttentionShape {
  std::int64_t batch = 0, heads = 0, key_heads = 0, queries = 0, keys = 0, width = 0;
  int item = 4;
};
enum class AttentionKernel { kEfficient, kFlash, kCudnn };
AttentionKernel attention_kernel(const AttentionShape& shape, const Card& card);
/// What the saved statistics count for.
std::int64_t attention_statistics(const AttentionShape& shape, AttentionKernel kernel);
/// Scratch of the backward pass, beside the gradients.
std::int64_t attention_backward_scratch(const AttentionShape& shape, AttentionKernel kernel);

/// A recurrent network as cuDNN runs it, all steps and layers in one operator.
struct RecurrentShape {
  int gates = 4;  ///< 4: LSTM, 3: GRU, 1: plain
  std::int64_t steps = 0, batch = 0, input = 0, hidden = 0, layers = 1, directions = 1;
  int item = 4;
  bool drops = false;     ///< between layers
  bool compacts = false;  ///< its weights are not one piece of memory, and are copied into one for each call
};
/// What the forward pass keeps for the backward pass.
std::int64_t recurrent_reserve(const RecurrentShape& shape);
/// Scratch of either pass.
std::int64_t recurrent_workspace(const RecurrentShape& shape);

/// The two buffers of a reduction: partial results and semaphores; both 0 where one block sees all of an output.
struct ReductionScratch {
  std::int64_t partial = 0, semaphores = 0;
};
/// `reduced` has a bit for each dimension that is summed over; `accumulator` are the bytes of a partial result.
ReductionScratch reduction_scratch(const Geometry& input, std::uint32_t reduced, int accumulator, const Card& card);

}  // namespace locus::sim
