"""The layers behind a value that is on the CPU: a module's `.to()` did not reach them, and what they were given was on
the CPU as well, so that nothing was refused before their result met the rest.

Reads modules and origins; moves nothing.
"""

from __future__ import annotations

import ast
import gc
import types
from typing import TYPE_CHECKING

import torch

from locus.blame import owners
from locus.program import histories, names, trails, values

if TYPE_CHECKING:
    from locus.program.links import Link


_MAX_MODULES = 20_000


def behind(
    tensor: torch.Tensor, frames: list[types.FrameType], device: str
) -> tuple[torch.Tensor, names.Match, names.Names] | None:
    """The parameter that a value was computed with and that was left where it is, and its name. None: there is none.

    `device`: where the rest of the call is. Only a parameter whose module is there is sure to be meant for it.
    """
    root = _root(tensor)
    if root is None:
        return None
    candidates = [p for p in _parameters() if p is not tensor and p.device == tensor.device and _root(p) == root]
    if not candidates:
        return None
    found = names.find(list(candidates), frames, [])
    matches = [(found.best(number), number) for number in range(len(candidates))]
    for match, number in sorted(matches, key=lambda each: _order(each[0])):
        parameter = candidates[number]
        if match is None or match.kind not in ("plain-container", "parameter"):
            continue
        owner = owners.facts_of(match, parameter)
        if owner is None:
            continue
        follows = owner["moved_to"] == device and owner["device"] in (device, "")
        if (owner["device"] == device and match.kind == "plain-container") or follows:
            only = names.Names({number: [match]}, found.batches, found.roots)
            return parameter, match, only
    return None


def given(way: trails.Trail | None) -> Link | None:
    """The argument of a running call by which a tensor on the CPU came to the layers; None where it is not one."""
    found: dict[int, Link] = {}
    for link in way.until_moved() if way is not None else ():
        value = values.evaluate(link.node, link.context.frame) if link.context.frame is not None else None
        if link.how == "argument" and values.is_tensor(value) and str(value.device) == "cpu" and value.dim() > 0:
            found[id(value)] = link
    return next(iter(found.values())) if len(found) == 1 else None


def is_held_in_arithmetic(way: trails.Trail | None, tensor: object) -> bool:
    """Whether what an object holds is computed with something else on its way: `x * self.freq`. When the one goes to a
    device, the other has to, too."""
    if way is None:
        return False
    nodes = [(node, link) for held, node, number in way.held if held is tensor for link in way.links[:number][-1:]]
    return any(isinstance(link.context.file.parent(node), ast.BinOp) for node, link in nodes)


def _order(match: names.Match | None) -> tuple[bool, int, str]:
    """The first of several layers, and its weight: that is what a person would name."""
    name = match.name if match is not None else ""
    return not name.endswith("weight"), len(name), name


def _root(tensor: torch.Tensor) -> tuple[int, str] | None:
    """The oldest of a tensor's origins: the call that made what it was computed from."""
    read = getattr(histories.bridge(), "origin_chain", None)
    chain = read(tensor) if read is not None and values.is_tensor(tensor) else None
    if not chain or not chain[-1].get("site"):
        return None
    return int(chain[-1]["site"]), str(chain[-1].get("op", ""))


def _parameters() -> list[torch.Tensor]:
    """The parameters of all modules there are."""
    modules = [thing for thing in gc.get_objects() if issubclass(type(thing), torch.nn.Module)][:_MAX_MODULES]
    tables = [values.attributes(module).get("_parameters") or {} for module in modules]
    return [parameter for table in tables for parameter in table.values() if parameter is not None]
