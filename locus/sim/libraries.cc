// See libraries.h. What is sure was tried on an H200 with PyTorch 2.11, each call as the first one of its process.
#include "locus/sim/libraries.h"

#include <algorithm>
#include <array>
#include <string>

#include "locus/sim/operator_memory.h"

namespace locus::sim {
namespace {

#define LOCUS_PREFERRED                                                                                        \
  "If you keep seeing this error, you may use `torch.backends.cuda.preferred_linalg_library()` to try linear " \
  "algebra operators with other supported backends. See https://pytorch.org/docs/stable/backends.html"         \
  "#torch.backends.cuda.preferred_linalg_library"

constexpr LibraryWords kWaitsForEigenvalues{
    "CUSOLVER_STATUS_INTERNAL_ERROR, when calling `cusolverDnXsyevd(…)`",
    "cusolver error: CUSOLVER_STATUS_INTERNAL_ERROR, when calling `cusolverDnXsyevd( handle, params, jobz, uplo, n, "
    "CUDA_R_32F, reinterpret_cast<void*>(A), lda, CUDA_R_32F, reinterpret_cast<void*>(W), CUDA_R_32F, "
    "reinterpret_cast<void*>(bufferOnDevice), workspaceInBytesOnDevice, reinterpret_cast<void*>(bufferOnHost), "
    "workspaceInBytesOnHost, info)`. " LOCUS_PREFERRED};

constexpr std::uint8_t bit(Library library) { return static_cast<std::uint8_t>(1U << static_cast<int>(library)); }
constexpr std::uint8_t kAny = bit(Library::kBlas) | bit(Library::kSolver);

/// Of one matrix cuSOLVER is the one that is asked; of many at once it may be cuBLAS, or MAGMA.
constexpr std::array kOfOneMatrix = {"linalg_qr",        "linalg_lu_factor_ex", "linalg_cholesky_ex", "linalg_inv_ex",
                                     "_linalg_solve_ex", "_linalg_svd",         "_linalg_eigh",       "_linalg_det"};
/// Beginnings of names, without underscores: what may ask either of them, as far as names tell.
constexpr std::array kLinearAlgebra = {"linalg", "lu_", "cholesky", "triangular_solve", "ormqr",    "geqrf",
                                       "orgqr",  "svd", "lstsq",    "matrix_exp",       "slow_conv"};
constexpr std::array kProducts = {"mm",
                                  "addmm",
                                  "bmm",
                                  "baddbmm",
                                  "addbmm",
                                  "addmv",
                                  "mv",
                                  "dot",
                                  "vdot",
                                  "addmm_activation",
                                  "int_mm",
                                  "scaled_mm",
                                  "grouped_mm",
                                  "scaled_grouped_mm",
                                  "cdist_forward",
                                  "trilinear",
                                  "native_multi_head_attention",
                                  "transformer_encoder_layer_fwd"};
/// Of those, what a card surely has no other way for.
constexpr std::array kSurelyProducts = {"mm", "addmm", "bmm",  "baddbmm",          "addbmm", "addmv",
                                        "mv", "dot",   "vdot", "addmm_activation", "int_mm", "scaled_mm"};

bool is_one_of(const auto& names, std::string_view name) {
  return std::ranges::any_of(names, [&](const char* each) { return name == each; });
}

}  // namespace

LibraryUse library_use(std::string_view operator_name) {
  LibraryUse use;
  if (!operator_name.starts_with("aten::")) return use;
  const MemoryRule rule = memory_rule(operator_name);
  std::string_view name = operator_name.substr(6);
  name = name.substr(0, name.find('.'));
  if (name.starts_with("_fft_")) {
    use.first = Library::kFourier, use.may_set_up = bit(Library::kFourier);
    return use;
  }
  if (is_one_of(kOfOneMatrix, name)) {
    use.first = Library::kSolver, use.one_matrix = true, use.may_set_up = kAny;
    if (name == "_linalg_svd") use.never_captured = {kPageableInCapture, kPageableInCapture};
    if (name == "_linalg_eigh") use.never_captured = kWaitsForEigenvalues;
    return use;
  }
  if (rule == MemoryRule::kBlas || rule == MemoryRule::kBlasWithBias) {
    use.first = Library::kBlas, use.may_set_up = bit(Library::kBlas), use.says_so = true;
    return use;
  }
  std::string_view bare = name.substr(std::min(name.find_first_not_of('_'), name.size()));
  if (bare.ends_with('_')) bare.remove_suffix(1);  // in place
  if (bare == "linalg_solve_triangular") {
    use.first = Library::kBlas, use.may_set_up = kAny;
  } else if (is_one_of(kProducts, bare)) {
    use.may_set_up = bit(Library::kBlas);
    if (is_one_of(kSurelyProducts, bare)) use.first = Library::kBlas;
  } else if (std::ranges::any_of(kLinearAlgebra, [&](const char* begin) { return bare.starts_with(begin); })) {
    use.may_set_up = kAny;
  }
  return use;
}

LibraryWords library_words(Library library) {
  switch (library) {
    case Library::kBlas:
      return {"CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`",
              "CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`"};
    case Library::kSolver:
      return {
          "CUSOLVER_STATUS_INTERNAL_ERROR, when calling `cusolverDnCreate(handle)`",
          "cusolver error: CUSOLVER_STATUS_INTERNAL_ERROR, when calling `cusolverDnCreate(handle)`. " LOCUS_PREFERRED};
    case Library::kFourier:
      break;
  }
  return {"cuFFT error: CUFFT_INTERNAL_ERROR", "cuFFT error: CUFFT_INTERNAL_ERROR"};
}

}  // namespace locus::sim
