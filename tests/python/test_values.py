# ruff: noqa: E501
"""Bit for bit: the same call on cuda:0 and on the CPU gives the same values, dtype, shape and strides."""

import pytest
import torch
from simulated import simulated

POINTWISE = """
a + b; a - b; a * b; a / b; a // b; a % b; a ** 2; p ** a; -a; a.abs(); a.exp(); p.log(); a.sin(); a.cos(); a.tan(); a.tanh(); a.sigmoid(); p.sqrt()
p.rsqrt(); a.floor(); a.ceil(); a.round(); a.round(decimals=1); a.trunc(); a.frac(); a.sign(); a.clamp(-1, 1); torch.clamp(a, max=b); a.erf(); a.erfc()
a.erfinv(); p.lgamma(); p.digamma(); a.expm1(); p.log1p(); p.log2(); p.log10(); a.atan2(b); a.hypot(b); torch.lerp(a, b, 0.3); torch.lerp(a, b, p)
torch.addcmul(a, b, p, value=0.5); torch.addcdiv(a, b, p, value=2); a.maximum(b); a.minimum(b); a.fmod(b); a.remainder(0.7); a.copysign(b); a.nextafter(b)
a.reciprocal(); a.logit(eps=1e-3); torch.where(a > b, a, b); a > b; a <= 0.5; a.eq(b); a.isnan(); special.isinf(); special.nan_to_num(); special + 1
a.logical_and(b); i & 3; i | 4; i ^ 1; ~mask; i << 2; i >> 1; i * 3 % 5; i.float() / 7; a.to(torch.float64); a.half(); a.bfloat16(); a.int(); a.bool(); c.abs(); c * c
c.conj() + c; c.angle(); torch.complex(a, b); a.half() + b.half(); a.bfloat16() * b.bfloat16(); a.half().exp(); torch.polygamma(1, p); torch.special.i0(a)
torch.heaviside(a, b); torch.ldexp(a, i[:4, :6] % 3); torch.logaddexp(a, b); torch.sinc(a); torch.threshold(a, 0.1, 20.0); a.masked_fill(mask, -1.0)
"""
REDUCTIONS = """
a.sum(); a.sum(0); a.sum(1, keepdim=True); a.mean(); a.mean((0, 1)); a.prod(1); a.std(); a.var(0, unbiased=False); a.max(); a.max(1); a.min(0); a.argmax(); a.argmin(1)
a.norm(); a.norm(p=1, dim=1); a.logsumexp(1); a.cumsum(0); a.cumprod(1); p.logcumsumexp(0); a.amax((0, 1)); a.aminmax(); a.median(); a.median(1); a.mode(1); a.kthvalue(2, 1)
a.quantile(0.3); special.nansum(); special.nanmean(); mask.all(); mask.any(1); a.count_nonzero(); a.softmax(1); a.log_softmax(0); torch.linalg.vector_norm(a, ord=3); i.sum(); i.sum(0)
a.half().sum(); a.sum(dtype=torch.float64); torch.var_mean(a, 1); a.cummax(1); torch.histc(a, 5); i.flatten().bincount(); torch.trapezoid(a)
"""
SHAPES = """
a.t(); a.t().contiguous(); a.view(-1); a.reshape(2, -1); a.permute(1, 0) + 1; a.unsqueeze(1); a.expand(3, 4, 6); a.repeat(2, 1); a.flip(0); a.roll(2, 1); a.rot90(); torch.cat([a, b], 1)
torch.stack([a, b]); a.chunk(2, 1); a.split([1, 3]); a.unbind(0); a.tril(); a.triu(1); a.diag(); torch.diag_embed(a); a.unfold(1, 3, 1); torch.tile(a, (2, 2)); a[1:, ::2]; a[:, None]
a[i[0] % 4]; a[mask]; a.gather(1, i[:4, :6] % 6); a.scatter(1, i[:4, :6] % 6, 2.0); a.scatter_add(1, i[:4, :6] % 6, b); a.index_select(0, i[0] % 4); a.index_add(0, i[0, :4] % 4, b)
a.take(i % 24); a.masked_select(mask); a.nonzero(); a.sort(1); a.argsort(0, descending=True); a.topk(3); torch.unique(i, return_counts=True); torch.searchsorted(a.sort(1)[0], b); torch.bucketize(a, p[0].sort()[0])
torch.meshgrid(a[0], b[0], indexing="ij"); torch.cartesian_prod(a[0], b[0]); torch.tensordot(a, b.t(), 1); a.scatter_reduce(1, i[:4, :6] % 6, b, "amax"); a.clone(memory_format=torch.contiguous_format)
torch.nn.functional.pad(a, (1, 2), value=3.0); torch.nn.functional.one_hot(i % 5, 5); img.to(memory_format=torch.channels_last); img.movedim(1, 3); a.diff(); torch.vander(a[0], 3)
"""
LINEAR = """
m @ n; a @ b.t(); torch.mv(m, n[:, 0]); torch.dot(a[0], b[0]); torch.outer(a[0], b[0]); torch.addmm(m, m, n, beta=0.5); torch.bmm(m.expand(2, 5, 5), n.expand(2, 5, 5)); torch.baddbmm(m.expand(2, 5, 5), m.expand(2, 5, 5), n.expand(2, 5, 5))
torch.linalg.inv(spd); torch.linalg.cholesky(spd); torch.linalg.solve(spd, m); torch.linalg.det(m); torch.linalg.slogdet(m); torch.linalg.eigh(spd); torch.linalg.svd(m); torch.linalg.qr(m); torch.linalg.lstsq(m, n).solution; torch.linalg.matrix_exp(m)
torch.linalg.lu(m); torch.linalg.pinv(m); torch.linalg.matrix_power(m, 3); torch.einsum("ij,kj->ik", m, n); torch.kron(m, n); torch.cross(a[:3, :3], b[:3, :3], dim=1); torch.cdist(a, b); torch.fft.fft(a); torch.fft.rfft(a); torch.fft.ifft2(c)
(m.double() @ n.double()); (m.half() @ n.half()); (m.bfloat16() @ n.bfloat16()); torch.trace(m); torch.linalg.cond(m); torch.linalg.multi_dot([m, n, m])
"""
NETWORKS = """
F.linear(m, n, n[0]); F.conv2d(img, kernel, padding=1); F.conv2d(img, kernel, stride=2, dilation=2); F.conv1d(img[:, :, 0], kernel[:, :, 0]); F.conv_transpose2d(img, kernel.transpose(0, 1)); F.max_pool2d(img, 2); F.avg_pool2d(img, 3, stride=1, padding=1)
F.adaptive_avg_pool2d(img, 3); F.adaptive_max_pool2d(img, 2); F.relu(a); F.gelu(a); F.gelu(a, approximate="tanh"); F.silu(a); F.mish(a); F.elu(a); F.leaky_relu(a, 0.2); F.softplus(a); F.hardswish(a); F.glu(a); F.prelu(a, p[0, :1]); F.selu(a); F.hardtanh(a)
F.layer_norm(a, (6,), a[0], b[0]); F.group_norm(img, 1); F.batch_norm(img, img.mean((0, 2, 3)), img.var((0, 2, 3)), training=False); F.instance_norm(img); F.rms_norm(a, (6,)); F.local_response_norm(img, 2); F.normalize(a, dim=1)
F.embedding(i % 4, a); F.embedding_bag(i % 4, a); F.cross_entropy(a, i[0, :4] % 6); F.nll_loss(a.log_softmax(1), i[0, :4] % 6); F.mse_loss(a, b); F.l1_loss(a, b); F.smooth_l1_loss(a, b); F.huber_loss(a, b); F.kl_div(a, p); F.binary_cross_entropy_with_logits(a, p)
F.binary_cross_entropy(a.sigmoid(), p.sigmoid()); F.cosine_similarity(a, b); F.interpolate(img, scale_factor=2); F.interpolate(img, size=(5, 5), mode="bilinear", align_corners=True); F.interpolate(img, scale_factor=1.5, mode="bicubic"); F.pixel_shuffle(img.repeat(1, 2, 1, 1), 2)
F.unfold(img, 3); F.fold(F.unfold(img, 3), (8, 8), 3); F.grid_sample(img, grid, align_corners=False); F.affine_grid(m[:2, :3].view(1, 2, 3), (1, 1, 4, 4), align_corners=False); F.ctc_loss(steps.log_softmax(2), i[:2, :3] % 4 + 1, (6, 6), (3, 2)); F.lp_pool2d(img, 2, 2); F.softmin(a, 1)
"""
GRADIENTS = """
(a * b).sin().sum(); F.conv2d(img, kernel, padding=1).square().sum(); F.cross_entropy(a, i[0, :4] % 6); F.layer_norm(a, (6,)).cos().sum(); F.max_pool2d(img, 2).sum(); (m @ n).tanh().sum(); torch.linalg.inv(spd).sum(); a.sort(1)[0].cumsum(1).sum(); F.embedding(i % 4, a).square().sum()
F.interpolate(img, scale_factor=2, mode="bilinear").square().sum(); a[i[0] % 4].sum() + a.index_add(0, i[0, :4] % 4, b).prod(); F.grid_sample(img, grid, align_corners=True).sum(); torch.fft.rfft(a).abs().sum(); F.gelu(a).logsumexp(1).sum(); torch.cdist(a, b).sum(); F.batch_norm(img, None, None, training=True).square().sum()
"""
# "a; b" is two calls; a semicolon never occurs inside one.
CALLS = {
    name: [c.strip() for c in text.replace("\n", ";").split(";") if c.strip()]
    for name, text in {
        "pointwise": POINTWISE,
        "reductions": REDUCTIONS,
        "shapes": SHAPES,
        "linear": LINEAR,
        "networks": NETWORKS,
        "gradients": GRADIENTS,
    }.items()
}


def operands():
    g = torch.Generator().manual_seed(0)

    def normal(*shape):
        return torch.randn(*shape, generator=g)

    a, b, m, n = normal(4, 6), normal(4, 6), normal(5, 5), normal(5, 5)
    return {
        "a": a,
        "b": b,
        "p": normal(4, 6).abs() + 0.1,
        "m": m,
        "n": n,
        "spd": m @ m.t() + 5 * torch.eye(5),
        "c": torch.complex(a, b),
        "mask": a > 0,
        "i": torch.randint(0, 24, (5, 7), generator=g),
        "special": torch.tensor([float("nan"), float("inf"), -float("inf"), -0.0, 1e-40]),
        "img": normal(2, 2, 8, 8),
        "kernel": normal(3, 2, 3, 3),
        "grid": normal(2, 4, 4, 2).tanh(),
        "steps": normal(6, 2, 6),
    }


def tensors_in(value):
    return [value] if isinstance(value, torch.Tensor) else [t for item in value for t in tensors_in(item)]


NOT_REPRODUCIBLE = {"torch.linalg.lstsq(m, n).solution"}
"""Calls whose result on the plain CPU differs in its last bits from one time to the next (LAPACK's gelsy)."""


def same(actual, expected, exact=True):
    assert actual.device == torch.device("cuda:0") and expected.device.type == "cpu", (actual.device, expected.device)
    assert (actual.dtype, actual.shape, actual.stride()) == (expected.dtype, expected.shape, expected.stride())
    actual, expected = actual.cpu().resolve_conj().resolve_neg(), expected.resolve_conj().resolve_neg()
    equal = (actual == expected) | ((actual != actual) & (expected != expected))
    if not exact:
        equal = torch.isclose(actual, expected, rtol=1e-4, atol=1e-6)
    assert bool(equal.all()), f"{actual} is not {expected}"


@simulated(devices=1)
@pytest.mark.parametrize("group", sorted(CALLS))
def test_bit_for_bit(group):
    host, wrong = operands(), []
    there = {name: value.to("cuda") for name, value in host.items()}
    for call in CALLS[group]:
        try:
            results = []
            for values in (there, host):
                values = {name: v.detach().clone() for name, v in values.items()}
                leaves = (
                    [v.requires_grad_() for v in values.values() if v.is_floating_point()]
                    if group == "gradients"
                    else []
                )
                result = eval(call, {"torch": torch, "F": torch.nn.functional, **values})
                if leaves:
                    gradients = torch.autograd.grad(result, leaves, allow_unused=True)
                    result = [result.detach(), *(g for g in gradients if g is not None)]
                results.append(tensors_in(result))
            assert len(results[0]) == len(results[1]) > 0
            for actual, expected in zip(*results):
                same(actual, expected, exact=call not in NOT_REPRODUCIBLE)
        except Exception as error:
            wrong.append(f"{call}: {type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}")
    assert not wrong, f"{len(wrong)} of {len(CALLS[group])}:\n" + "\n".join(wrong)


def test_the_calls_are_many_and_legal():
    """On a CPU each must run at all; a call that can't would be equal to itself by failing twice."""
    assert sum(map(len, CALLS.values())) >= 250
    values = operands()
    for group in CALLS.values():
        for call in group:
            assert tensors_in(eval(call, {"torch": torch, "F": torch.nn.functional, **values})), call


@simulated(devices=1)
def test_in_place_and_out():
    x = torch.ones(3, device="cuda")
    pointer = x.data_ptr()
    x.add_(1).mul_(2).clamp_(max=3.5).neg_()
    assert x.tolist() == [-3.5] * 3 and x.data_ptr() == pointer
    out = torch.empty(0, device="cuda")
    result = torch.add(x, 1, out=out)
    assert result is out and out.tolist() == [-2.5] * 3
    values, indices = torch.empty(0, device="cuda"), torch.empty(0, dtype=torch.long, device="cuda")
    torch.max(torch.arange(6.0, device="cuda").view(2, 3), 1, out=(values, indices))
    assert values.tolist() == [2, 5] and indices.tolist() == [2, 2]
    view = x[1:]
    view.zero_()
    assert x.tolist() == [-3.5, 0, 0] and view._base is x
    assert x._version > 0


@simulated(devices=1)
def test_foreach_and_fused():
    tensors = [torch.full((3,), float(i), device="cuda") for i in range(3)]
    assert [t.tolist() for t in torch._foreach_add(tensors, 1)] == [[1.0] * 3, [2.0] * 3, [3.0] * 3]
    torch._foreach_mul_(tensors, 2.0)
    assert [t[0].item() for t in tensors] == [0, 2, 4] and all(t.is_cuda for t in torch._foreach_norm(tensors))
    torch._foreach_zero_(tensors)
    assert torch.nn.utils.get_total_norm(tensors).item() == 0
    assert all(t.is_cuda for t in torch._foreach_addcdiv(tensors, tensors, [t + 1 for t in tensors], 0.5))
