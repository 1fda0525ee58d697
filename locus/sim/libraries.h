// Libraries of CUDA's that PyTorch sets up at the first call that needs them: a card takes memory for that, which a
// capture does not allow.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace locus::sim {

enum class Library : std::uint8_t { kBlas, kSolver, kFourier };
inline constexpr int kLibraries = 3;

/// What a card says to a call in a capture: as a finding has it, and as it is raised.
struct LibraryWords {
  const char *said = nullptr, *raised = nullptr;
};

/// What an operator needs of them.
struct LibraryUse {
  std::optional<Library> first;  ///< a call with plain operands that are not empty is sure to need this first
  std::uint8_t may_set_up = 0;   ///< by bit: what may be there afterwards, for some operands
  bool says_so = false;          ///< a product: it takes cuBLAS's workspace, and with it the handle
  bool one_matrix = false;       ///< only where the first operand is a single matrix
  LibraryWords never_captured;   ///< what a card says where everything is there; none: it takes the call

  bool needs(Library library) const { return (may_set_up >> static_cast<int>(library) & 1) != 0; }
};

/// `operator_name` with its overload.
LibraryUse library_use(std::string_view operator_name);

/// What PyTorch says of a copy between a card and memory of the host's that is not pinned, in every mode of a capture.
inline constexpr const char* kPageableInCapture =
    "Cannot copy between CPU and CUDA tensors during CUDA graph capture unless the CPU tensor is pinned. Please use "
    "tensor.pin_memory() or allocate the tensor with pin_memory=True.";

/// Where it would have to be set up then.
LibraryWords library_words(Library library);

}  // namespace locus::sim
