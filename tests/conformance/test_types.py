"""Types in which only a card has kernels, and those in which only the CPU has."""

import pytest
import torch
import torch.nn.functional as F
from simulated import simulated

CUDA = "cuda:0"


@simulated(devices=1)
def test_types_that_only_a_card_computes_in():
    """The CPU's kernels refuse these; a card computes in a wider type and rounds, and so does the simulated one."""
    for dtype in (torch.int8, torch.int32, torch.int64):
        x = torch.tensor([0, 1, 1, 3, 7], dtype=dtype, device=CUDA)
        counts = torch.histc(x, bins=4, min=0, max=3)
        assert counts.is_cuda and counts.dtype == dtype and counts.tolist() == [1, 2, 0, 1]
        out = torch.empty(0, dtype=dtype, device=CUDA)
        assert torch.histc(x, bins=4, min=0, max=3, out=out) is out and out.tolist() == [1, 2, 0, 1]
    torch.manual_seed(0)
    for dtype in (torch.float16, torch.bfloat16):
        x = torch.randn(1, 2, 4, 4, 4, dtype=dtype)
        there, here = x.to(CUDA).requires_grad_(), x.float().requires_grad_()
        result, wide = F.avg_pool3d(there, 2), F.avg_pool3d(here, 2)
        assert result.dtype == dtype and torch.equal(result.cpu(), wide.to(dtype))
        result.sum().backward()
        wide.sum().backward()
        assert there.grad.dtype == dtype and torch.equal(there.grad.cpu(), here.grad.to(dtype))
        scores, target = torch.randn(3, 4, dtype=dtype), torch.tensor([1, 0, 3])
        loss = F.multi_margin_loss(scores.to(CUDA), target.to(CUDA))
        assert torch.equal(loss.cpu(), F.multi_margin_loss(scores.float(), target).to(dtype))
    x = torch.randn(8).half()
    spectrum = torch.fft.rfft(x.to(CUDA))
    assert spectrum.dtype == torch.complex32
    assert torch.equal(torch.view_as_real(spectrum.cpu()), torch.view_as_real(torch.fft.rfft(x.float())).half())
    assert torch.fft.irfft(spectrum).dtype == torch.float16
    with pytest.raises(RuntimeError, match="BFloat16"):
        torch.fft.rfft(x.to(CUDA, torch.bfloat16))
    assert torch.equal(torch.round(x.to(CUDA), decimals=1).cpu(), torch.round(x.float(), decimals=1).half())
    y = x.to(CUDA)
    assert y.round_(decimals=1) is y and torch.equal(y.cpu(), torch.round(x.float(), decimals=1).half())
    assert F.rrelu(x.to(CUDA), training=True).dtype == torch.float16


@simulated(devices=1)
def test_types_that_only_the_cpu_computes_in():
    x = torch.arange(4, device=CUDA).view(2, 2)
    assert (x @ x).tolist() == [[2, 3], [6, 11]] and x.flatten().dot(x.flatten()).item() == 14
