"""An extension compiled for the CPU, as on a machine without CUDA, serves tensors on a simulated device."""

import json
import subprocess
import sysconfig
from pathlib import Path

import pytest
import torch

LOCUS = Path(__file__).parents[1] / "check" / "run_check.py"

EXTENSION = r"""
#include <ATen/core/Tensor.h>
#include <ATen/ops/add.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/ones.h>
#include <torch/library.h>
#include <thread>
// A thread of the extension's own, which nobody has told of any check.
at::Tensor add_in_thread(const at::Tensor& a, const at::Tensor& b, int64_t times) {
  at::Tensor result;
  std::exception_ptr error;
  std::thread([&] {
    try {
      for (int64_t i = 0; i < times; ++i) result = at::add(a, b);
    } catch (...) {
      error = std::current_exception();
    }
  }).join();
  if (error) std::rethrow_exception(error);
  return result;
}
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
  m.def("add_in_thread(Tensor a, Tensor b, int times) -> Tensor", add_in_thread);
}
TORCH_LIBRARY_IMPL(locus_extension, CPU, m) {
  m.impl("halves", halves);
  m.impl("fresh", torch::CppFunction::makeFromBoxedFunction<&fresh>());
}
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    """Compiled for the CPU, as on a machine without CUDA."""
    from torch.utils.cpp_extension import include_paths

    folder = tmp_path_factory.mktemp("extension")
    source, library = folder / "extension.cc", folder / "extension.so"
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
    return library


def test_extension_with_a_cpu_kernel_only(program, library):
    """Served from the simulated device's memory."""
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


def check(program, tmp_path, library, text):
    script, report = tmp_path / "program.py", tmp_path / "report.json"
    script.write_text(f"import torch\ntorch.ops.load_library({str(library)!r})\n{text}")
    result = program.run(LOCUS, "check", "--format", "json", "-o", report, script, deadline=120)
    return result, json.loads(report.read_text())


IN_THREAD = """
a = torch.arange(4.0, device="cuda")
b = torch.full((4,), 2.0, device={device!r})
print(torch.ops.locus_extension.add_in_thread(a, b, 5).tolist())
"""


def test_a_thread_of_its_own_is_checked(program, tmp_path, library):
    right, report = check(program, tmp_path, library, IN_THREAD.format(device="cuda"))
    assert right.stdout == "[2.0, 3.0, 4.0, 5.0]\n" and not report["findings"], right.describe()
    ops = report["program"]["ops"]
    wrong, report = check(program, tmp_path, library, IN_THREAD.format(device="cpu"))
    assert wrong.stdout == right.stdout, wrong.describe()
    (finding,) = report["findings"]
    assert (finding["count"], finding["culprit"]["name"], finding["cause"]["line"]) == (5, "b", 5), finding
    assert report["program"]["ops"] >= ops, "each of the five is counted"


def test_a_thread_of_its_own_where_gradients_are_recorded(program, tmp_path, library):
    """The kernel stands below autograd: what it moved would get its gradient on the wrong device. The second call of
    the thread is seen above it."""
    text = """
a = torch.ones(4, device="cuda", requires_grad=True)
b = torch.full((4,), 2.0, requires_grad=True)
torch.ops.locus_extension.add_in_thread(a, b.cuda(), 2).sum().backward()
assert str(a.grad.device) == "cuda:0" and str(b.grad.device) == "cpu", (a.grad, b.grad)
torch.ops.locus_extension.add_in_thread(a, b, 1)
"""
    result, report = check(program, tmp_path, library, text)
    assert result.code == 1 and "RuntimeError: Expected all tensors" in result.stderr, result.describe()
    (finding,) = report["findings"]
    assert (finding["count"], finding["culprit"]["name"]) == (1, "b"), finding
