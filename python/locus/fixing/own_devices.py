"""How a program says its own device where it has no variable for it: an object that knows it, the number of a rank.

Reads live frames and types; runs no code of the program's.
"""

from __future__ import annotations

import ast
import types

import torch

from locus.fixing.name_scopes import bound_before
from locus.program import source, values


def write(file: source.Source, node: ast.AST, scope: ast.AST, device: str, frame: types.FrameType | None) -> str:
    """The words for `device` at `node`: `accelerator.device`, `f"cuda:{local_rank}"`; "" where there are none."""
    if frame is None or not device.startswith("cuda"):
        return ""
    bound = [(name, value) for name, value in frame.f_locals.items() if bound_before(file, scope, name, node)]
    for name, value in bound:
        knows = isinstance(getattr(type(value), "device", None), property) and not isinstance(value, torch.Tensor)
        if knows and not values.is_module(value) and name.isidentifier():
            return f"{name}.device"
    if not _is_one_of_several():
        return ""
    number = int(device.partition(":")[2] or 0)
    ranks = [name for name, value in bound if type(value) is int and value == number and _says_rank(name)]
    ranks.sort(key=lambda name: "local" not in name.lower())  # of several hosts, the rank is no number of a card
    return f'f"cuda:{{{ranks[0]}}}"' if ranks else ""


def _is_one_of_several() -> bool:
    distributed = torch.distributed
    return distributed.is_available() and distributed.is_initialized() and distributed.get_world_size() > 1


def _says_rank(name: str) -> bool:
    return "rank" in name.lower() or name in ("local", "gpu", "gpu_id", "device_id")
