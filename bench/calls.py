"""Single calls of common operators, for what a dry call costs beyond an empty one.

On the CPU the operands have no rows, so that a call does all but arithmetic; on a device they are large, so that a dry
run does none either. Nothing here knows of Locus.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch.nn import functional as F

Run = Callable[[int], None]

WIDTH, ROWS = 1024, 4096


def _operands(device: str) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    rows = 0 if device == "cpu" else ROWS
    x, y = torch.empty(rows, WIDTH, device=device), torch.empty(rows, WIDTH, device=device)
    return x, y, torch.empty(WIDTH, WIDTH, device=device), torch.empty(WIDTH, device=device)


_CALLS: dict[str, Callable[[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor], object]] = {
    "add": lambda x, y, w, b: x + y,
    "add_": lambda x, y, w, b: x.add_(y),
    "cat": lambda x, y, w, b: torch.cat((x, y)),
    "clone": lambda x, y, w, b: x.clone(),
    "contiguous of a transposed": lambda x, y, w, b: x.t().contiguous(),
    "gelu": lambda x, y, w, b: F.gelu(x),
    "layer_norm": lambda x, y, w, b: F.layer_norm(x, (WIDTH,), b, b),
    "linear": lambda x, y, w, b: F.linear(x, w, b),
    "mm": lambda x, y, w, b: x @ w,
    "mul by a number": lambda x, y, w, b: x * 2.0,
    "silu": lambda x, y, w, b: F.silu(x),
    "softmax": lambda x, y, w, b: F.softmax(x, -1),
    "sum": lambda x, y, w, b: x.sum(-1),
    "to bfloat16": lambda x, y, w, b: x.to(torch.bfloat16),
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
