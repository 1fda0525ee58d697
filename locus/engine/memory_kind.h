// What memory of a device is for: known when it is taken (workspaces), from where it is taken (in backward, in an
// optimizer's step), told later (parameters, data), or from how long it stays.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace locus::engine {

enum class MemoryKind : std::uint8_t {
  kActivation,  ///< what operators made in forward, and whatever is nothing else
  kParameter,   ///< parameters and buffers of modules
  kGradient,    ///< what backward makes: gradients of parameters and those on the way
  kState,       ///< what optimizers make: their state, and the temporaries of a step
  kData,        ///< copied from the host, or made by a call that takes no tensor
  kWorkspace,   ///< of libraries and kernels
  kKept,        ///< activations that have outlived two optimizer steps
};
constexpr std::size_t kMemoryKinds = 7;
using ByKind = std::array<std::int64_t, kMemoryKinds>;

/// As reports say it.
constexpr std::array<std::string_view, kMemoryKinds> kMemoryKindNames = {
    "activations", "parameters", "gradients", "optimizer state", "data", "workspaces", "kept by the program"};

constexpr std::string_view to_string(MemoryKind kind) { return kMemoryKindNames[static_cast<std::size_t>(kind)]; }

}  // namespace locus::engine
