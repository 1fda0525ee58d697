// Matrix products that read half precision and write single: CUDA has them in one operator, the CPU in two.
#include <ATen/core/Tensor.h>
#include <ATen/core/op_registration/adaption.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/baddbmm.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/mm.h>
#include <torch/library.h>

#include "locus/bridge/kernels/as_kernel.h"
#include "locus/bridge/kernels/cuda_only.h"
#include "locus/bridge/memory/scratch.h"
#include "locus/bridge/streams/capturable.h"

namespace locus::bridge {
namespace {

using at::Scalar;
using at::ScalarType;
using at::Tensor;

/// What PyTorch's generated wrapper asks before the kernel runs.
void check_devices(const char* wrapper, std::initializer_list<std::pair<const char*, const Tensor*>> operands) {
  std::optional<c10::Device> common;
  for (const auto& [name, tensor] : operands) c10::impl::check_and_update_common_device(common, *tensor, wrapper, name);
}

Tensor product(const Tensor& self, const Tensor& other, ScalarType type) {
  AsKernel kernel(self, {self, other});
  need_blas_workspace(kernel.device(), false);
  const Tensor left = kernel.in(self).to(type), right = kernel.in(other).to(type);
  return kernel.out_as_is(left.dim() == 2 ? at::mm(left, right) : at::bmm(left, right));
}
Tensor product_plus(const Tensor& self, const Tensor& left, const Tensor& right, ScalarType type, const Scalar& beta,
                    const Scalar& alpha) {
  AsKernel kernel(left, {self, left, right});
  need_blas_workspace(kernel.device(), false);
  const Tensor sum = kernel.in(self).to(type), a = kernel.in(left).to(type), b = kernel.in(right).to(type);
  return kernel.out_as_is(a.dim() == 2 ? at::addmm(sum, a, b, beta, alpha) : at::baddbmm(sum, a, b, beta, alpha));
}

Tensor mm(const Tensor& self, const Tensor& mat2, ScalarType type) {
  check_devices("wrapper_CUDA_dtype_mm", {{"self", &self}, {"mat2", &mat2}});
  return product(self, mat2, type);
}
Tensor bmm(const Tensor& self, const Tensor& mat2, ScalarType type) {
  check_devices("wrapper_CUDA_dtype_bmm", {{"self", &self}, {"mat2", &mat2}});
  return product(self, mat2, type);
}
Tensor addmm(const Tensor& self, const Tensor& mat1, const Tensor& mat2, ScalarType type, const Scalar& beta,
             const Scalar& alpha) {
  check_devices("wrapper_CUDA_dtype_addmm", {{"self", &self}, {"mat1", &mat1}, {"mat2", &mat2}});
  return product_plus(self, mat1, mat2, type, beta, alpha);
}
Tensor baddbmm(const Tensor& self, const Tensor& batch1, const Tensor& batch2, ScalarType type, const Scalar& beta,
               const Scalar& alpha) {
  check_devices("wrapper_CUDA_dtype_baddbmm", {{"self", &self}, {"batch1", &batch1}, {"batch2", &batch2}});
  return product_plus(self, batch1, batch2, type, beta, alpha);
}

Tensor& into(Tensor& out, const Tensor& result) {
  TORCH_CHECK(out.scalar_type() == result.scalar_type(),
              "out_dtype must be the same as the dtype of the provided out tensor");
  out.resize_(result.sizes());
  return out.copy_(result);
}
Tensor& mm_out(const Tensor& self, const Tensor& mat2, ScalarType type, Tensor& out) {
  check_devices("wrapper_CUDA_dtype_out_mm_out", {{"out", &out}, {"self", &self}, {"mat2", &mat2}});
  return into(out, product(self, mat2, type));
}
Tensor& bmm_out(const Tensor& self, const Tensor& mat2, ScalarType type, Tensor& out) {
  check_devices("wrapper_CUDA_dtype_out_bmm_out", {{"out", &out}, {"self", &self}, {"mat2", &mat2}});
  return into(out, product(self, mat2, type));
}
Tensor& addmm_out(const Tensor& self, const Tensor& mat1, const Tensor& mat2, ScalarType type, const Scalar& beta,
                  const Scalar& alpha, Tensor& out) {
  check_devices("wrapper_CUDA_dtype_out_addmm_out", {{"out", &out}, {"self", &self}, {"mat1", &mat1}, {"mat2", &mat2}});
  return into(out, product_plus(self, mat1, mat2, type, beta, alpha));
}
Tensor& baddbmm_out(const Tensor& self, const Tensor& batch1, const Tensor& batch2, ScalarType type, const Scalar& beta,
                    const Scalar& alpha, Tensor& out) {
  check_devices("wrapper_CUDA_dtype_out_baddbmm_out",
                {{"out", &out}, {"self", &self}, {"batch1", &batch1}, {"batch2", &batch2}});
  return into(out, product_plus(self, batch1, batch2, type, beta, alpha));
}

}  // namespace

void add_product_kernels(torch::Library& library, std::unordered_set<std::string>& done) {
  // Older versions of PyTorch have none of them.
  add_kernel<&mm>(library, done, "mm.dtype");
  add_kernel<&bmm>(library, done, "bmm.dtype");
  add_kernel<&addmm>(library, done, "addmm.dtype");
  add_kernel<&baddbmm>(library, done, "baddbmm.dtype");
  add_kernel<&mm_out>(library, done, "mm.dtype_out");
  add_kernel<&bmm_out>(library, done, "bmm.dtype_out");
  add_kernel<&addmm_out>(library, done, "addmm.dtype_out");
  add_kernel<&baddbmm_out>(library, done, "baddbmm.dtype_out");
}

}  // namespace locus::bridge
