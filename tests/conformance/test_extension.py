"""An extension compiled for the CPU, as on a machine without CUDA, serves tensors on a simulated device."""

import subprocess
import sysconfig

import torch

EXTENSION = r"""
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/ones.h>
#include <torch/library.h>
// Reads and writes memory by itself, as an extension with a CPU kernel does.
at::Tensor halves(const at::Tensor& x) {
  TORCH_CHECK(x.is_contiguous() && x.scalar_type() == at::kFloat);
  at::Tensor result = at::empty_like(x);
  const float* from = x.const_data_ptr<float>();
  float* to = result.mutable_data_ptr<float>();
  for (int64_t i = 0; i < x.numel(); ++i) to[i] = from[i] / 2;
  return result;
}
// Lets go of its operand before it makes the result, which may then lie where the operand's tensor lay.
void fresh(const c10::OperatorHandle&, c10::Stack* stack) {
  torch::jit::drop(*stack, 1);
  torch::jit::push(*stack, at::ones({2}));
}
TORCH_LIBRARY(locus_extension, m) {
  m.def("halves(Tensor x) -> Tensor");
  m.def("fresh(Tensor x) -> Tensor");
}
TORCH_LIBRARY_IMPL(locus_extension, CPU, m) {
  m.impl("halves", halves);
  m.impl("fresh", torch::CppFunction::makeFromBoxedFunction<&fresh>());
}
"""


def test_extension_with_a_cpu_kernel_only(program, tmp_path):
    """Compiled for the CPU, as on a machine without CUDA; served from the simulated device's memory."""
    from torch.utils.cpp_extension import include_paths

    source, library = tmp_path / "extension.cc", tmp_path / "extension.so"
    source.write_text(EXTENSION)
    lib = torch.__path__[0] + "/lib"
    flags = [f"-I{path}" for path in (*include_paths(), sysconfig.get_path("include"))]
    flags += [f"-D_GLIBCXX_USE_CXX11_ABI={int(torch._C._GLIBCXX_USE_CXX11_ABI)}", f"-L{lib}", f"-Wl,-rpath,{lib}"]
    subprocess.run(
        [
            "g++",
            "-std=c++20",
            "-O0",
            "-shared",
            "-fPIC",
            str(source),
            "-o",
            str(library),
            *flags,
            "-ltorch_cpu",
            "-lc10",
        ],
        check=True,
    )
    text = f"""
import torch
torch.ops.load_library({str(library)!r})
for device in ("cpu", "cuda:0"):
    result = torch.ops.locus_extension.halves(torch.arange(4.0, device=device))
    assert str(result.device) == device and result.tolist() == [0, 0.5, 1, 1.5], result
    fresh = [torch.ops.locus_extension.fresh(torch.zeros(3, device=device)) for _ in range(100)]
    assert all(str(each.device) == device and each.tolist() == [1, 1] for each in fresh), fresh
"""
    program.run_source(text, simulate=1).ok()
