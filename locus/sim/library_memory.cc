// Memory that libraries keep (cuBLAS, cuBLASLt), and attention's, which several kernels can run. See operator_memory.h.
#include <algorithm>
#include <charconv>
#include <cstdlib>

#include "locus/sim/operator_memory.h"

namespace locus::sim {

namespace {

constexpr std::int64_t kKiB = 1024, kMiB = 1024 * kKiB;
// What PyTorch gives cuBLAS: NVIDIA's advice for Hopper and later, and cuBLAS's own default before.
constexpr std::int64_t kNewBlas = 32 * kMiB, kOldBlas = 8 * kMiB + 128 * kKiB;
constexpr std::int64_t kBlasLt = 1 * kMiB;

std::int64_t rounded_up(std::int64_t n, std::int64_t to) { return (n + to - 1) / to * to; }

/// ":4096:2:16:8" is two buffers of 4096 KiB and eight of 16; -1 for anything else.
std::int64_t workspace_config(std::string_view text) {
  std::int64_t total = 0;
  std::int64_t numbers[2];
  int count = 0;
  while (!text.empty()) {
    if (text.front() != ':') return -1;
    text.remove_prefix(1);
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), numbers[count]);
    if (error != std::errc() || numbers[count] < 0) return -1;
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    if (++count == 2) total += numbers[0] * kKiB * numbers[1], count = 0;
  }
  return count == 0 ? total : -1;
}

std::int64_t recurrent_weights(const RecurrentShape& s) {
  const std::int64_t first = s.input + s.hidden + 2, later = s.directions * s.hidden + s.hidden + 2;  // with two biases
  return s.gates * s.hidden * s.directions * (first + (s.layers - 1) * later) * s.item;
}

}  // namespace

LibrarySettings library_settings() {
  LibrarySettings settings;
  if (const char* text = std::getenv("CUBLAS_WORKSPACE_CONFIG"); text != nullptr && *text != '\0') {
    settings.blas_bytes = workspace_config(text);
  }
  if (const char* text = std::getenv("CUBLASLT_WORKSPACE_SIZE"); text != nullptr && *text != '\0') {
    settings.blas_lt_bytes = std::max<std::int64_t>(std::atoll(text), 0) * kKiB;
  }
  if (const char* text = std::getenv("TORCH_CUBLASLT_UNIFIED_WORKSPACE")) settings.unified = *text == '1';
  return settings;
}

std::int64_t blas_workspace(const Card& card, const LibrarySettings& settings) {
  if (settings.blas_bytes >= 0) return settings.blas_bytes;
  return card.major >= 9 && card.major <= 10 ? kNewBlas : kOldBlas;
}

std::int64_t blas_lt_workspace(const Card& card, const LibrarySettings& settings) {
  if (settings.unified) return 0;
  return std::min(settings.blas_lt_bytes >= 0 ? settings.blas_lt_bytes : kBlasLt, blas_workspace(card, settings));
}

AttentionKernel attention_kernel(const AttentionShape& shape, const Card& card) {
  if (shape.item != 2 || card.major < 8 || shape.width % 8 != 0 || shape.width > 256)
    return AttentionKernel::kEfficient;
  return card.prefers_cudnn_attention() ? AttentionKernel::kCudnn : AttentionKernel::kFlash;
}

std::int64_t attention_statistics(const AttentionShape& shape, AttentionKernel kernel) {
  const std::int64_t rows = kernel == AttentionKernel::kEfficient ? rounded_up(shape.queries, 32) : shape.queries;
  return shape.batch * shape.heads * rows * 4;
}

std::int64_t attention_backward_scratch(const AttentionShape& shape, AttentionKernel kernel) {
  const std::int64_t heads = shape.batch * shape.heads;
  if (kernel == AttentionKernel::kEfficient) {
    // Partial gradients of the queries in tiles of 64 rows, and a lock for each tile.
    const std::int64_t rows = rounded_up(shape.queries, 64),
                       width = shape.width <= 64 ? 64 : rounded_up(shape.width, 128);
    return heads * (rows * width * 4 + rows / 64 * 16);
  }
  const std::int64_t rows = kernel == AttentionKernel::kFlash ? rounded_up(shape.queries, 128) : shape.queries;
  const std::int64_t width = kernel == AttentionKernel::kFlash ? rounded_up(shape.width, 32) : shape.width;
  std::int64_t bytes = heads * rows * (width * 4 + 4);  // gradients of the queries in single precision, and row sums
  if (shape.key_heads != shape.heads)
    bytes += 2 * heads * shape.keys * shape.width * shape.item;  // one for each query head
  return bytes;
}

std::int64_t recurrent_reserve(const RecurrentShape& s) {
  const std::int64_t layer = s.steps * s.batch * s.hidden * s.directions * s.item;
  const std::int64_t kept = s.gates == 4 ? 5 : s.gates == 3 ? 6 : 1;  // activations of a layer
  std::int64_t bytes = layer * (kept * s.layers + s.layers - 1) + 256;
  if (s.drops) bytes += layer / s.item / 8 * (s.layers - 1);
  if (s.compacts) bytes += recurrent_weights(s);
  return bytes;
}

std::int64_t recurrent_workspace(const RecurrentShape& s) {
  // Fitted to 330 recurrent networks on an H200: a copy of weights and input, activations of a layer, cuBLAS's 8 MiB
  // for each layer and direction. Within a few percent of all but small networks.
  const std::int64_t layer = s.steps * s.batch * s.hidden * s.directions * s.item;
  const bool both = s.directions == 2;
  const double activations = s.gates == 4 ? (both ? 6.7 : 4.5) : s.gates == 3 ? (both ? 5.5 : 4.0) : 8.0;
  return recurrent_weights(s) + static_cast<std::int64_t>(activations * static_cast<double>(layer)) +
         s.steps * s.batch * s.input * s.item + 35 * s.batch * s.hidden * s.directions * s.layers * s.item +
         (8 * kMiB + 512) * s.layers * s.directions + (s.drops && !both ? layer : 0);
}

}  // namespace locus::sim
