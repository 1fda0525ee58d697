// See convolution_memory.h. The mechanism, read off 1,500 convolutions on an H200 with cuDNN 9.19: its tensor-core
// kernels work on channels-last copies, so operands that lie channels-first are transposed into scratch memory, with
// few channels padded; gradients of weights are summed in parts, which take a copy of the weights each. 1x1
// convolutions need no transposition, and depthwise ones run in PyTorch's own kernels.
#include "locus/sim/convolution_memory.h"

#include <algorithm>

namespace locus::sim {

namespace {

constexpr std::int64_t kPartsBytes = 9'440'000;  // what the parts of a weight gradient may take together
constexpr std::int64_t kMostParts = 15;
constexpr std::int64_t kFewChannels = 4;   // images: no tensor-core kernel takes them as they are
constexpr std::int64_t kLongFilter = 128;  // taps × channels from which few channels are padded all the same
constexpr std::int64_t kLongHalfFilter = 48;
constexpr std::int64_t kImageParts = 120;        // parts of a weight gradient where channels are few
constexpr std::int64_t kImageBytes = 6'072'000;  // at most
constexpr std::int64_t kNarrow = 40;             // 1x1 weight gradients of so few channels go through copies
constexpr std::int64_t kFewPixels = 4000, kFewHalfPixels = 24000;  // of the output, below which there are fewer parts
constexpr std::int64_t kPointwiseBytes = 4'326'352;
constexpr std::int64_t kDepthwiseParts = 256;

/// A convolution as the forward pass of one that is not transposed: a transposed one reads its result and vice versa.
struct Convolution {
  std::int64_t input = 0, weight = 0, output = 0;  // bytes
  std::int64_t batch = 0, channels = 0, filters = 0, taps = 1, groups = 1, item = 4, spatial = 1, pixels = 1;
  bool strided = false, channels_last = false, tensor_cores = false;

  bool depthwise() const { return groups > 1 && groups == channels; }
  bool pointwise() const { return taps == 1; }
  bool few_channels() const { return channels <= kFewChannels; }
  bool short_filter() const { return channels * taps < (item == 4 ? kLongFilter : kLongHalfFilter); }
  /// Bytes when the channels are padded: to 4 in single precision, to 8 in half.
  std::int64_t padded(std::int64_t bytes) const {
    const std::int64_t to = item == 4 ? 4 : 8;
    return bytes / channels * ((channels + to - 1) / to * to);
  }
  std::int64_t part() const { return weight / item * 4; }  // sums are in single precision
  /// What a weight gradient is summed in: as many parts as fit, fewer where each has little to sum.
  std::int64_t parts_bytes() const {
    if (item == 2 && pixels < kFewHalfPixels) return weight;
    const std::int64_t room = pixels < kFewPixels ? kPartsBytes / 2 : kPartsBytes;
    return std::clamp<std::int64_t>(room / std::max<std::int64_t>(part(), 1), 1, kMostParts) * part();
  }

  std::int64_t forward() const;
  std::int64_t input_gradient() const;
  std::int64_t weight_gradient() const;
};

std::int64_t Convolution::forward() const {
  if (!tensor_cores || depthwise() || spatial == 1) return 0;
  if (channels_last) return few_channels() ? padded(input) + padded(weight) : 0;
  if (pointwise()) return strided && channels > 64 ? input + output : 0;
  if (few_channels())
    return short_filter() ? 0 : (item == 4 ? input + weight : padded(input) + padded(weight)) + output;
  return input + weight + output;
}

std::int64_t Convolution::input_gradient() const {
  if (!tensor_cores || depthwise() || spatial == 1) return 0;
  if (channels_last) return few_channels() ? padded(input) + padded(weight) : 0;
  if (pointwise()) return strided && channels > 64 ? input + output : 0;
  if (few_channels()) return item == 4 ? 0 : padded(input) + padded(weight) + output;
  return input + weight + output;
}

std::int64_t Convolution::weight_gradient() const {
  if (!tensor_cores || spatial == 1) return 0;
  if (depthwise()) return channels_last && item == 2 ? kDepthwiseParts * part() : 0;
  if (few_channels()) {
    if (channels_last) return padded(input) + kImageParts * padded(part());
    if (item == 4 && short_filter()) return 0;
    return padded(input) + output + std::min(kImageParts * padded(part()), kImageBytes);
  }
  if (channels_last) {
    if (pointwise()) return item == 4 ? kPointwiseBytes : 0;
    return pixels < (item == 4 ? kFewPixels : kFewHalfPixels) ? 0 : parts_bytes();
  }
  const std::int64_t copies = input + output + parts_bytes();
  if (!pointwise() || strided || (item == 4 && (channels <= kNarrow || filters <= kFewChannels))) return copies;
  return std::min(batch * part(), copies);
}

Convolution read(const Geometry& input, const Geometry& weight, const Geometry& output, const OperatorArgument& stride,
                 bool transposed, std::int64_t groups, const Card& card) {
  Convolution c;
  const Geometry &from = transposed ? output : input, &to = transposed ? input : output;
  c.input = from.bytes(), c.output = to.bytes(), c.weight = weight.bytes();
  c.batch = from.sizes[0];
  c.channels = from.dims > 1 ? std::max<std::int64_t>(from.sizes[1], 1) : 1;
  c.filters = to.dims > 1 ? to.sizes[1] : 1;
  for (std::size_t i = 2; i < weight.dims; ++i) c.taps *= weight.sizes[i];
  for (std::size_t i = 2; i < from.dims; ++i) c.spatial *= from.sizes[i];
  c.pixels = to.elements() / std::max<std::int64_t>(c.filters, 1);
  for (std::size_t i = 0; i < stride.count; ++i) c.strided = c.strided || stride.numbers[i] > 1;
  c.groups = std::max<std::int64_t>(groups, 1);
  c.item = std::max<std::int64_t>(input.item, 1);
  c.channels_last = input.channels_last || weight.channels_last;
  c.tensor_cores = input.floating && (input.item == 2 ? card.major >= 7 : input.item == 4 && card.has_tf32());
  return c;
}

}  // namespace

void add_convolution(const OperatorCall& call, const Card& card, OperatorMemory& memory) {
  // input, weight, bias, stride, padding, dilation, transposed, output_padding, groups
  const auto& a = call.arguments;
  const bool transposed = a[6].number(0, 0) != 0;
  const Convolution c = read(a[0].tensor, a[1].tensor, call.results[0], a[3], transposed, a[8].number(0, 1), card);
  memory.result(0);
  memory.take(transposed ? c.input_gradient() : c.forward());
}

void add_convolution_backward(const OperatorCall& call, const Card& card, OperatorMemory& memory) {
  // grad_output, input, weight, bias_sizes, stride, padding, dilation, transposed, output_padding, groups, output_mask
  const auto& a = call.arguments;
  const bool transposed = a[7].number(0, 0) != 0;
  const Convolution c = read(a[1].tensor, a[2].tensor, a[0].tensor, a[4], transposed, a[9].number(0, 1), card);
  const bool into_input = a[10].number(0, 1) != 0, into_weight = a[10].number(1, 1) != 0;
  if (c.depthwise() && into_weight) memory.result(1);
  if (into_input) {
    memory.result(0);
    memory.give(memory.take(transposed ? c.forward() : c.input_gradient()));
  }
  if (into_weight) {
    if (!c.depthwise()) memory.result(1);
    memory.give(memory.take(c.weight_gradient()));
  }
}

}  // namespace locus::sim
