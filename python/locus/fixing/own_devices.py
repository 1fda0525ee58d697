"""How a program says its own device where it has no variable for it: an object that knows it, the number of a rank.

Reads live frames and types; runs no code of the program's.
"""

from __future__ import annotations

import ast
import types
from collections.abc import Mapping

import torch

from locus.fixing.name_scopes import bound_before
from locus.program import source, values


def write(file: source.Source, node: ast.AST, scope: ast.AST, device: str, frame: types.FrameType | None) -> str:
    """The words for `device` at `node`: `accelerator.device`, `f"cuda:{local_rank}"`; "" where there are none."""
    if frame is None or not device.startswith("cuda"):
        return ""
    here = values.at_rest(frame.f_locals)
    bound = [(name, value) for name, value in here.items() if bound_before(file, scope, name, node)]
    for name, value in bound:
        knows = isinstance(getattr(type(value), "device", None), property) and not isinstance(value, torch.Tensor)
        if knows and not values.is_module(value) and name.isidentifier():
            return f"{name}.device"
    if not _is_one_of_several():
        return ""
    number = int(device.partition(":")[2] or 0)
    name = rank_name(dict(bound), number)
    return f'f"cuda:{{{name}}}"' if name else ""


_OF_A_RANK = ("local", "rank", "gpu", "device")
"""What names of such numbers have in them, the more telling first: with several hosts, the rank is no card's number."""


def rank_name(names: Mapping[str, object], index: int) -> str:
    """The variable that says the number of this rank's card; "" where there is none."""
    numbers = sorted(name for name, value in values.at_rest(names).items() if type(value) is int and value == index)
    return next((name for word in _OF_A_RANK for name in numbers if word in name.lower()), "")


def _is_one_of_several() -> bool:
    distributed = torch.distributed
    return distributed.is_available() and distributed.is_initialized() and distributed.get_world_size() > 1
