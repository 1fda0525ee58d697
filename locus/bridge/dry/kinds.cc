// See kinds.h: one table.
#include "locus/bridge/dry/kinds.h"

#include <string>
#include <unordered_map>

namespace locus::bridge::dry {

Kind kind_of_operator(std::string_view name) {
  static const auto* table = new std::unordered_map<std::string_view, Kind>{
      {"aten::_local_scalar_dense", Kind::kReadsValue},
      {"aten::equal", Kind::kEqual},
      {"aten::_assert_async", Kind::kNothing},
      {"aten::_assert_async.msg", Kind::kNothing},
      {"aten::_linalg_check_errors", Kind::kNothing},
      {"aten::isnan", Kind::kAllFalse},
      {"aten::isinf", Kind::kAllFalse},
      {"aten::isposinf", Kind::kAllFalse},
      {"aten::isneginf", Kind::kAllFalse},
      {"aten::isfinite", Kind::kAllTrue},
      {"aten::all", Kind::kKeepsUniform},
      {"aten::all.dim", Kind::kKeepsUniform},
      {"aten::all.dims", Kind::kKeepsUniform},
      {"aten::any", Kind::kKeepsUniform},
      {"aten::any.dim", Kind::kKeepsUniform},
      {"aten::any.dims", Kind::kKeepsUniform},
      {"aten::max", Kind::kKeepsUniform},
      {"aten::min", Kind::kKeepsUniform},
      {"aten::amax", Kind::kKeepsUniform},
      {"aten::amin", Kind::kKeepsUniform},
      {"aten::mean", Kind::kKeepsUniform},
      {"aten::clone", Kind::kKeepsUniform},
      {"aten::_to_copy", Kind::kKeepsUniform},
      {"aten::logical_not", Kind::kNegates},
      {"aten::zero_", Kind::kFill},
      {"aten::fill_.Scalar", Kind::kFill},
      {"aten::fill_.Tensor", Kind::kOverwrites},
      {"aten::normal_", Kind::kOverwrites},
      {"aten::uniform_", Kind::kOverwrites},
      {"aten::random_", Kind::kOverwrites},
      {"aten::random_.to", Kind::kOverwrites},
      {"aten::random_.from", Kind::kOverwrites},
      {"aten::exponential_", Kind::kOverwrites},
      {"aten::bernoulli_.float", Kind::kOverwrites},
      {"aten::_amp_foreach_non_finite_check_and_unscale_", Kind::kUnscale},
      {"aten::nonzero", Kind::kNonzero},
      {"aten::masked_select", Kind::kMaskedSelect},
      {"aten::index.Tensor", Kind::kIndex},
      {"aten::_unsafe_index.Tensor", Kind::kIndex},
      {"aten::_unique2", Kind::kUnique},
      {"aten::unique_dim", Kind::kUniqueAlong},
      {"aten::unique_consecutive", Kind::kUniqueConsecutive},
      {"aten::bincount", Kind::kBincount},
      {"aten::repeat_interleave.Tensor", Kind::kRepeatInterleave},
      {"aten::native_batch_norm", Kind::kBatchNorm},
      {"aten::_native_batch_norm_legit", Kind::kBatchNorm},
      // Their shape rules give other strides than the CPU's kernels, or there are none.
      {"aten::_fft_c2c", Kind::kComputedForReal},
      {"aten::_fft_c2c.out", Kind::kComputedForReal},
      {"aten::_fft_r2c", Kind::kComputedForReal},
      {"aten::_fft_r2c.out", Kind::kComputedForReal},
      {"aten::_fft_c2r", Kind::kComputedForReal},
      {"aten::_fft_c2r.out", Kind::kComputedForReal},
      {"aten::_linalg_eigh.eigenvalues", Kind::kComputedForReal},
      {"aten::linalg_eig", Kind::kComputedForReal},
      {"aten::linalg_eig.out", Kind::kComputedForReal},
      {"aten::linalg_ldl_factor_ex.out", Kind::kComputedForReal},
      {"aten::linalg_lu_factor_ex.out", Kind::kComputedForReal},
      {"aten::linalg_ldl_solve.out", Kind::kComputedForReal},
      {"aten::linalg_lu_solve.out", Kind::kComputedForReal},
      {"aten::linalg_qr.out", Kind::kComputedForReal},
      {"aten::linalg_householder_product.out", Kind::kComputedForReal},
      {"aten::ormqr.out", Kind::kComputedForReal},
      {"aten::triangular_solve.X", Kind::kComputedForReal},
      {"aten::_sparse_mm_reduce_impl", Kind::kRefused},
      {"aten::_sparse_mm_reduce_impl_backward", Kind::kRefused},
      {"torchvision::nms", Kind::kSuppression},
  };
  const auto found = table->find(name);
  return found != table->end() ? found->second : Kind::kPlain;
}

}  // namespace locus::bridge::dry
