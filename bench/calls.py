"""Single calls of common operators, for what a dry call costs beyond an empty one.

On the CPU the operands have no rows, so that a call does all but arithmetic; on a device they are large, so that a dry
run does none either. Nothing here knows of Locus.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import torch
from torch.nn import functional as F

Run = Callable[[int], None]

WIDTH, ROWS = 1024, 4096


def _operands(device: str) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    rows = 0 if device == "cpu" else ROWS
    x, y = torch.empty(rows, WIDTH, device=device), torch.empty(rows, WIDTH, device=device)
    return x, y, torch.empty(WIDTH, WIDTH, device=device), torch.empty(WIDTH, device=device)


@functools.cache
def _helpers(device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    rows = 0 if device.type == "cpu" else ROWS
    places = torch.empty(rows, dtype=torch.long, device=device)
    return places, torch.empty(rows, WIDTH, dtype=torch.bool, device=device)


def _places(x: torch.Tensor) -> torch.Tensor:
    return _helpers(x.device)[0]


def _flags(x: torch.Tensor) -> torch.Tensor:
    return _helpers(x.device)[1]


_CALLS: dict[str, Callable[[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor], object]] = {
    "add": lambda x, y, w, b: x + y,
    "add_": lambda x, y, w, b: x.add_(y),
    "attention": lambda x, y, w, b: F.scaled_dot_product_attention(*3 * (x.view(-1, 8, 16, 64),), is_causal=True),
    "chunk": lambda x, y, w, b: x.chunk(2, -1),
    "cat": lambda x, y, w, b: torch.cat((x, y)),
    "clone": lambda x, y, w, b: x.clone(),
    "contiguous of a transposed": lambda x, y, w, b: x.t().contiguous(),
    "conv2d": lambda x, y, w, b: F.conv2d(x.view(-1, 1024, 1, 1), w.view(1024, 1024, 1, 1), b),
    "dropout": lambda x, y, w, b: F.dropout(x, 0.1),
    "embedding": lambda x, y, w, b: F.embedding(_places(x), w),
    "fused sum of a list": lambda x, y, w, b: torch._foreach_add([x, y, x, y], 1.0),
    "gelu": lambda x, y, w, b: F.gelu(x),
    "layer_norm": lambda x, y, w, b: F.layer_norm(x, (WIDTH,), b, b),
    "linear": lambda x, y, w, b: F.linear(x, w, b),
    "masked_fill": lambda x, y, w, b: x.masked_fill(_flags(x), 0.0),
    "mean": lambda x, y, w, b: x.mean(),
    "mm": lambda x, y, w, b: x @ w,
    "mul by a number": lambda x, y, w, b: x * 2.0,
    "relu": lambda x, y, w, b: x.relu(),
    "select by places": lambda x, y, w, b: w[_places(x)],
    "silu": lambda x, y, w, b: F.silu(x),
    "softmax": lambda x, y, w, b: F.softmax(x, -1),
    "sum": lambda x, y, w, b: x.sum(-1),
    "to bfloat16": lambda x, y, w, b: x.to(torch.bfloat16),
    "view and transpose": lambda x, y, w, b: x.view(-1, 16, 64).transpose(0, 1),
    "where": lambda x, y, w, b: torch.where(_flags(x), x, y),
}


def _workload(name: str) -> Callable[[str], Run]:
    call = _CALLS[name]

    def make(device: str) -> Run:
        x, y, w, b = _operands(device)

        def run(n: int) -> None:
            for _ in range(n):
                call(x, y, w, b)

        return run

    return make


CALLS: dict[str, Callable[[str], Run]] = {f"call {name}": _workload(name) for name in _CALLS}
"""Every call, as a workload."""
