"""Single operators whose memory was measured on a card (tests/data/memory/operators.tsv): bytes at the peak and bytes
that stay, forward and backward, first and second call. Prints one JSON line for each case that is named.

Usage: operators.py CASE... Each case runs in a process forked for it, so that libraries' first use shows.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator

import torch
from forking import measure_each
from torch import nn
from torch.nn import functional as F
from torch.utils._pytree import tree_leaves

Case = tuple[list[torch.Tensor], Callable[..., object]]
TYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}


def rand(*size: int, d: torch.dtype = torch.float32) -> torch.Tensor:
    """A leaf; half precision comes from single, as it did on the card."""
    return torch.randn(*size, device="cuda").to(d).requires_grad_()


def index(n: int, *size: int) -> torch.Tensor:
    """Indices below n."""
    return torch.randint(0, n, size, device="cuda")


def last(x: torch.Tensor) -> torch.Tensor:
    """The same leaf with its channels last."""
    return x.detach().to(memory_format=torch.channels_last).requires_grad_()


def gradients(d: torch.dtype) -> list[torch.Tensor]:
    """Parameters that have their gradients."""
    made = [torch.randn(1024, 1024, device="cuda", dtype=d) for _ in range(24)]
    for p in made:
        p.requires_grad_()
        p.grad = torch.randn_like(p)
    return made


def optimizer(make: Callable[[list[torch.Tensor]], torch.optim.Optimizer], d: torch.dtype) -> Case:
    """A step."""
    made = make(gradients(d))

    def step() -> None:
        made.step()

    return [], step


def clipping(d: torch.dtype) -> Case:
    """Clips gradients by their norm."""
    made = gradients(d)
    return [], lambda: nn.utils.clip_grad_norm_(made, 1.0)


def module(made: nn.Module, x: torch.Tensor, call: Callable[[nn.Module, torch.Tensor], torch.Tensor]) -> Case:
    """A module, whose parameters are operands."""
    return [x, *made.parameters()], lambda x, *_: call(made, x)


def products(d: torch.dtype) -> Iterator[tuple[str, Callable[[], Case]]]:
    """Matrix products, convolutions, recurrent networks."""
    yield "mm_1k", lambda: ([rand(1024, 1024, d=d), rand(1024, 1024, d=d)], torch.mm)
    yield "mm_odd", lambda: ([rand(1000, 777, d=d), rand(777, 333, d=d)], torch.mm)
    yield "linear_bias", lambda: ([rand(8, 512, 768, d=d), rand(3072, 768, d=d), rand(3072, d=d)], F.linear)
    yield "bmm", lambda: ([rand(96, 256, 64, d=d), rand(96, 64, 256, d=d)], torch.bmm)

    def conv(
        x: tuple[int, ...], w: tuple[int, ...], call: Callable[..., torch.Tensor], **k: object
    ) -> Callable[[], Case]:
        return lambda: ([rand(*x, d=d), rand(*w, d=d)], lambda x, w: call(x, w, **k))

    yield "conv3x3", conv((32, 64, 56, 56), (128, 64, 3, 3), F.conv2d, padding=1)
    yield "conv1x1", conv((32, 256, 28, 28), (64, 256, 1, 1), F.conv2d)
    yield "conv7x7s2", conv((32, 3, 224, 224), (64, 3, 7, 7), F.conv2d, stride=2, padding=3)
    yield "conv_dw", conv((32, 96, 56, 56), (96, 1, 7, 7), F.conv2d, padding=3, groups=96)
    yield "convT", conv((32, 128, 16, 16), (128, 64, 4, 4), F.conv_transpose2d, stride=2, padding=1)
    yield "conv3d", conv((4, 16, 16, 56, 56), (32, 16, 3, 3, 3), F.conv3d, padding=1)
    yield "conv1d", conv((16, 80, 3000), (512, 80, 3), F.conv1d, padding=1)
    yield (
        "conv3x3_cl",
        lambda: (
            [last(rand(32, 64, 56, 56, d=d)), last(rand(128, 64, 3, 3, d=d))],
            lambda x, w: F.conv2d(x, w, padding=1),
        ),
    )
    options = {"device": "cuda", "dtype": d}

    def first(m: nn.Module, *x: torch.Tensor, **named: bool) -> torch.Tensor:
        return m(*x, **named)[0]

    def unweighted(m: nn.Module, x: torch.Tensor) -> torch.Tensor:
        return first(m, x, x, x, need_weights=False)

    yield "lstm", lambda: module(nn.LSTM(256, 512, 2, batch_first=True, **options), rand(32, 100, 256, d=d), first)
    yield "gru_bi", lambda: module(nn.GRU(128, 256, 1, bidirectional=True, **options), rand(50, 64, 128, d=d), first)
    yield (
        "mha",
        lambda: module(nn.MultiheadAttention(512, 8, batch_first=True, **options), rand(16, 256, 512, d=d), unweighted),
    )


def layers(d: torch.dtype) -> Iterator[tuple[str, Callable[[], Case]]]:
    """Norms, activations, losses."""

    def batch_norm(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return F.batch_norm(x, torch.zeros(64, device="cuda"), torch.ones(64, device="cuda"), w, b, True)

    def labels(n: int) -> torch.Tensor:
        return torch.zeros(n, dtype=torch.int64, device="cuda")

    yield "batch_norm", lambda: ([rand(32, 64, 56, 56, d=d), rand(64), rand(64)], batch_norm)
    yield (
        "layer_norm",
        lambda: (
            [rand(8, 1024, 768, d=d), rand(768, d=d), rand(768, d=d)],
            lambda x, w, b: F.layer_norm(x, (768,), w, b),
        ),
    )
    yield "rms_norm", lambda: ([rand(8, 1024, 768, d=d), rand(768, d=d)], lambda x, w: F.rms_norm(x, (768,), w))
    yield (
        "group_norm",
        lambda: ([rand(8, 128, 64, 64, d=d), rand(128, d=d), rand(128, d=d)], lambda x, w, b: F.group_norm(x, 8, w, b)),
    )
    yield "softmax", lambda: ([rand(96, 512, 512, d=d)], lambda x: x.softmax(-1))
    yield "cross_entropy", lambda: ([rand(4096, 50257, d=d)], lambda x: F.cross_entropy(x, labels(4096)))
    yield (
        "cross_entropy_smooth",
        lambda: ([rand(2048, 32000, d=d)], lambda x: F.cross_entropy(x, labels(2048), label_smoothing=0.1)),
    )
    yield "gelu", lambda: ([rand(8, 1024, 3072, d=d)], F.gelu)
    yield "dropout", lambda: ([rand(8, 1024, 768, d=d)], lambda x: F.dropout(x, 0.1))
    yield "silu_mul", lambda: ([rand(4, 1024, 5632, d=d), rand(4, 1024, 5632, d=d)], lambda x, y: F.silu(x) * y)
    yield "embedding", lambda: ([rand(50257, 768, d=d)], lambda w: F.embedding(index(50257, 8, 1024), w))


def attention(d: torch.dtype) -> Iterator[tuple[str, Callable[[], Case]]]:
    """Scaled-dot-product attention."""

    def three(*size: int, **k: object) -> Callable[[], Case]:
        return lambda: (
            [rand(*size, d=d) for _ in range(3)],
            lambda q, k_, v: F.scaled_dot_product_attention(q, k_, v, **k),  # type: ignore[arg-type]
        )

    def masked(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        mask = torch.zeros(512, 512, device="cuda", dtype=q.dtype)
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)

    yield "sdpa", three(8, 12, 1024, 64)
    yield "sdpa_causal", three(8, 12, 1024, 64, is_causal=True)
    yield "sdpa_mask", lambda: ([rand(4, 12, 512, 64, d=d) for _ in range(3)], masked)
    yield "sdpa_dropout", three(4, 12, 512, 64, dropout_p=0.1)
    yield "sdpa_d96", three(4, 8, 500, 96, is_causal=True)


def optimizers(d: torch.dtype) -> Iterator[tuple[str, Callable[[], Case]]]:
    """Steps of optimizers."""
    adamw = torch.optim.AdamW
    yield "adamw", lambda: optimizer(adamw, d)
    yield "adamw_fused", lambda: optimizer(lambda p: adamw(p, fused=True), d)
    yield "adamw_loop", lambda: optimizer(lambda p: adamw(p, foreach=False), d)
    yield "sgd_momentum", lambda: optimizer(lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9), d)
    yield "clip_grad_norm", lambda: clipping(d)


def indexing() -> Iterator[tuple[str, Callable[[], Case]]]:
    """Sorts, scans, indices."""
    big, some = 1 << 22, 1 << 18
    yield "sort", lambda: ([rand(64, 100000)], lambda x: x.sort(-1)[0])
    yield "argsort", lambda: ([rand(big)], lambda x: x.argsort())
    yield "topk", lambda: ([rand(64, 50257)], lambda x: x.topk(50)[0])
    yield "cumsum", lambda: ([rand(big)], lambda x: x.cumsum(0))
    yield "cumsum_dim", lambda: ([rand(512, 8192)], lambda x: x.cumsum(1))
    yield "nonzero", lambda: ([rand(big)], lambda x: (x > 0).nonzero())
    yield "masked_select", lambda: ([rand(big)], lambda x: x[x > 0])
    yield "unique", lambda: ([], lambda: index(1000, 1 << 20).unique())
    yield "index_put", lambda: ([rand(1 << 20), rand(some)], lambda x, y: x.index_put((index(1 << 20, some),), y))
    yield (
        "index_put_acc",
        lambda: (
            [rand(1 << 20), rand(some)],
            lambda x, y: x.index_put((index(1 << 20, some),), y, accumulate=True),
        ),
    )
    yield "index_select", lambda: ([rand(100000, 128)], lambda x: x.index_select(0, index(100000, 50000)))
    yield "gather", lambda: ([rand(4096, 1024)], lambda x: x.gather(1, index(1024, 4096, 64)))
    yield (
        "scatter_add",
        lambda: (
            [rand(100000, 64), rand(200000, 64)],
            lambda x, y: x.scatter_add(0, index(100000, 200000, 1).expand(-1, 64), y),
        ),
    )
    yield (
        "index_add",
        lambda: ([rand(100000, 64), rand(200000, 64)], lambda x, y: x.index_add(0, index(100000, 200000), y)),
    )
    yield "multinomial", lambda: ([], lambda: torch.rand(256, 50257, device="cuda").multinomial(1))
    yield "randperm", lambda: ([], lambda: torch.randperm(big, device="cuda"))
    yield "bincount", lambda: ([], lambda: index(1000, big).bincount())
    yield "histc", lambda: ([], lambda: torch.randn(big, device="cuda").histc(256))
    yield (
        "embedding_bag",
        lambda: ([rand(100000, 64)], lambda w: F.embedding_bag(index(100000, 4096, 20), w, mode="mean")),
    )


def reductions() -> Iterator[tuple[str, Callable[[], Case]]]:
    """Sums, means, and losses that are reductions."""
    big = 1 << 22
    yield "sum_dim", lambda: ([rand(4096, 8192)], lambda x: x.sum(0))
    yield "sum_all", lambda: ([rand(1 << 25)], lambda x: x.sum())
    yield "var", lambda: ([rand(4096, 8192)], lambda x: x.var(1))
    yield "norm", lambda: ([rand(1 << 24)], lambda x: x.norm())
    yield "logsumexp", lambda: ([rand(4096, 32000)], lambda x: x.logsumexp(-1))
    yield "max_dim", lambda: ([rand(4096, 8192)], lambda x: x.max(1)[0])
    yield "bce", lambda: ([rand(big)], lambda x: F.binary_cross_entropy_with_logits(x, torch.ones_like(x)))
    yield "mse", lambda: ([rand(big), rand(big)], F.mse_loss)

    def ctc(x: torch.Tensor) -> torch.Tensor:
        return F.ctc_loss(x.log_softmax(-1), index(99, 32, 30) + 1, torch.full((32,), 200), torch.full((32,), 30))

    yield "ctc", lambda: ([rand(200, 32, 100)], ctc)


def others() -> Iterator[tuple[str, Callable[[], Case]]]:
    """Images, linear algebra, the rest."""
    big = 1 << 22
    yield "interpolate", lambda: ([rand(8, 64, 128, 128)], lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"))
    yield (
        "grid_sample",
        lambda: ([rand(8, 64, 64, 64), rand(8, 64, 64, 2)], lambda x, g: F.grid_sample(x, g, align_corners=False)),
    )
    yield "max_pool", lambda: ([rand(32, 64, 112, 112)], lambda x: F.max_pool2d(x, 3, 2, 1))
    yield "avg_pool", lambda: ([rand(32, 64, 112, 112)], lambda x: F.avg_pool2d(x, 2))
    yield "fft", lambda: ([rand(64, 256, 256)], lambda x: torch.fft.rfft2(x).abs())
    yield (
        "einsum",
        lambda: (
            [rand(8, 12, 256, 64), rand(8, 12, 256, 64)],
            lambda a, b: torch.einsum("bhid,bhjd->bhij", a, b),
        ),
    )
    yield (
        "cholesky",
        lambda: ([], lambda: torch.linalg.cholesky(torch.eye(512, device="cuda").expand(16, 512, 512) * 2)),
    )
    yield "solve", lambda: ([rand(16, 256, 256), rand(16, 256, 8)], torch.linalg.solve)
    yield "svd", lambda: ([rand(256, 256)], lambda x: torch.linalg.svdvals(x))
    yield "cat", lambda: ([rand(64, 1024, 256), rand(64, 1024, 256)], lambda a, b: torch.cat([a, b], -1))
    yield "where", lambda: ([rand(big), rand(big)], lambda a, b: torch.where(a > b, a, b))

    def fill(x: torch.Tensor) -> torch.Tensor:
        return x.masked_fill(torch.ones(512, 512, device="cuda", dtype=torch.bool).triu(1), float("-inf"))

    def under_autocast(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cuda", dtype=torch.bfloat16):
            return F.linear(x, w, b)

    yield "masked_fill", lambda: ([rand(96, 512, 512)], fill)
    yield "autocast_linear", lambda: ([rand(8, 512, 768), rand(3072, 768), rand(3072)], under_autocast)
    yield "pixel_shuffle", lambda: ([rand(8, 256, 64, 64)], lambda x: F.pixel_shuffle(x, 2))
    yield "cdist", lambda: ([rand(4096, 128), rand(4096, 128)], torch.cdist)
    yield "tril", lambda: ([rand(4096, 4096)], torch.tril)


def cases() -> dict[str, Callable[[], Case]]:
    """All of them by name."""
    found: dict[str, Callable[[], Case]] = {}
    for name, d in TYPES.items():
        for family in (products, layers, attention, optimizers):
            found.update({f"{case}_{name}": make for case, make in family(d)})
    for plain in (indexing, reductions, others):
        found.update(plain())
    return found


def measure(name: str) -> dict[str, int | str]:
    """What one case takes, beyond what was there before."""
    torch.manual_seed(0)
    operands, call = cases()[name]()
    torch.cuda.synchronize()
    now, peak = torch.cuda.memory_allocated, torch.cuda.max_memory_allocated
    row: dict[str, int | str] = {"case": name}
    for turn in ("first", "second"):
        for operand in operands:
            operand.grad = None
        before = now()
        torch.cuda.reset_peak_memory_stats()
        result = call(*operands)
        torch.cuda.synchronize()
        row[f"{turn}_forward_peak"], row[f"{turn}_forward_stays"] = peak() - before, now() - before
        kept = [leaf for leaf in tree_leaves(result) if isinstance(leaf, torch.Tensor)]
        if kept and kept[0].requires_grad:
            grad = torch.ones_like(kept[0])
            before = now()
            torch.cuda.reset_peak_memory_stats()
            kept[0].backward(grad)
            torch.cuda.synchronize()
            row[f"{turn}_backward_peak"], row[f"{turn}_backward_stays"] = peak() - before, now() - before
            del grad
        del result, kept
    return row


if __name__ == "__main__":
    measure_each(measure, sys.argv[1:])
