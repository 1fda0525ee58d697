// How much memory PyTorch's CUDA reductions take for partial results: the launch configuration that its Reduce.cuh
// chooses, as far as memory depends on it.
#include <algorithm>

#include "locus/sim/operator_memory.h"

namespace locus::sim {

namespace {

constexpr int kMaxThreads = 512, kWarp = 32, kVector = 4;
constexpr std::int64_t kFewValues = 16, kManyValues = 256;  // of the input, for a thread

struct Dimension {
  std::int64_t size = 1, stride = 0;  // in elements
};

/// Dimensions by stride, neighbors that are one run of memory as one; those of one element don't count.
struct Run {
  std::array<Dimension, Geometry::kMaxDims> dims;
  std::size_t count = 0;

  void add(std::int64_t size, std::int64_t stride) {
    if (size != 1) dims[count++] = {size, stride};
  }
  void coalesce() {
    std::sort(dims.begin(), dims.begin() + static_cast<std::ptrdiff_t>(count),
              [](const Dimension& a, const Dimension& b) { return a.stride < b.stride; });
    std::size_t kept = 0;
    for (std::size_t i = 1; i < count; ++i) {
      if (dims[kept].size * dims[kept].stride == dims[i].stride) {
        dims[kept].size *= dims[i].size;
      } else {
        dims[++kept] = dims[i];
      }
    }
    count = count == 0 ? 0 : kept + 1;
  }
};

std::int64_t last_power_of_2(std::int64_t n) {
  std::int64_t power = 1;
  while (power * 2 <= n) power *= 2;
  return power;
}

std::int64_t divided_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

/// How many outputs a thread reads at once.
int output_vector(const Run& reduced, const Run& kept) {
  int vector = kVector;
  const auto fit = [&](std::int64_t n) {
    while (n % vector != 0) vector /= 2;
  };
  fit(kept.dims[0].size);
  for (std::size_t i = 0; i < reduced.count; ++i) fit(reduced.dims[i].stride);
  for (std::size_t i = 1; i < kept.count; ++i) fit(kept.dims[i].stride);
  return vector;
}

}  // namespace

ReductionScratch reduction_scratch(const Geometry& input, std::uint32_t reduced_dims, int accumulator,
                                   const Card& card) {
  Run reduced, kept;
  std::int64_t outputs = 1, inputs = 1;
  for (std::size_t i = 0; i < input.dims; ++i) {
    const bool is_reduced = (reduced_dims >> i & 1) != 0;
    (is_reduced ? reduced : kept).add(input.sizes[i], input.strides[i]);
    (is_reduced ? inputs : outputs) *= input.sizes[i];
  }
  if (inputs <= 1 || outputs == 0) return {};
  reduced.coalesce(), kept.coalesce();
  const bool along_input = kept.count == 0 || reduced.dims[0].stride < kept.dims[0].stride;
  std::int64_t width = along_input ? inputs : outputs, height = along_input ? outputs : inputs;
  const std::int64_t fastest = along_input ? reduced.dims[0].stride : kept.dims[0].stride;
  int vector = 1;
  if (fastest == 1) {
    if (along_input && width >= 128 && reduced.count == 1) {
      width /= kVector;
    } else if (!along_input) {
      vector = output_vector(reduced, kept);
      width /= vector;
    }
  }
  const std::int64_t most = kMaxThreads / vector;
  const std::int64_t wide = width < most ? last_power_of_2(width) : most,
                     high = height < most ? last_power_of_2(height) : most;
  std::int64_t block_width = std::min<std::int64_t>(wide, kWarp);
  const std::int64_t block_height = std::min(high, most / block_width);
  block_width = std::min(wide, most / block_height);
  const std::int64_t threads = block_width * block_height;

  std::int64_t input_step = 1, output_step = 1;
  (along_input ? input_step : output_step) *= block_width;
  const auto values = [&] { return divided_up(inputs, input_step); };
  const bool across_warps = values() >= std::min<std::int64_t>(block_height * kFewValues, kManyValues);
  (across_warps ? input_step : output_step) *= block_height;
  const std::int64_t blocks =
      static_cast<std::int64_t>(card.multiprocessors) * (card.threads_per_multiprocessor / threads);
  const std::int64_t grid = divided_up(outputs / vector, output_step);
  if (!across_warps || values() < kManyValues || grid > blocks) return {};
  const std::int64_t ctas =
      std::max(std::min(divided_up(blocks, grid), divided_up(values(), kFewValues)), divided_up(values(), kManyValues));
  if (ctas <= 1) return {};
  return {accumulator * outputs * ctas * (along_input ? 1 : block_width * vector), 4 * grid};
}

}  // namespace locus::sim
