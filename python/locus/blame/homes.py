"""Where a call belongs that stands between devices: with the module whose method runs, with what its function was
given, with what it adds to.

Reads trees and live frames; runs nothing.
"""

from __future__ import annotations

import ast
import collections
import types
from typing import TYPE_CHECKING

from locus.blame import placings
from locus.program import histories, values

if TYPE_CHECKING:
    from collections.abc import Sequence

    import torch

    from locus.program import expressions
    from locus.program.shapes import Operand


def of_function(users: list[types.FrameType], frames: list[types.FrameType]) -> str:
    """The card of the module whose method runs, where its parameters are on one only (a layer without any is part of
    the next one around it); else where all tensors are that the function was given, or most that it has."""
    for frame in frames if users else ():
        me = frame.f_locals.get(frame.f_code.co_varnames[0]) if frame.f_code.co_argcount else None
        devices = {str(parameter.device) for parameter in me.parameters()} if values.is_module(me) else set()
        if len(devices) == 1 and "cpu" not in devices:
            return devices.pop()
        if devices:
            break
    code = users[0].f_code if users else None
    names = code.co_varnames if code is not None else ()  # none for a module's own frame: it has everything
    given = [users[0].f_locals.get(name) for name in names]
    told = [value for value in given[: code.co_argcount if code is not None else 0] if values.is_tensor(value)]
    if len(told) > 1 and len({str(value.device) for value in told}) == 1 and told[0].is_cuda:
        return str(told[0].device)  # all that the function was given is there
    # What one line has moved there has one vote.
    placed = {_moved_at(value) for value in given if values.is_tensor(value)}
    votes = collections.Counter(device for _, device in placed)
    device, count = next(iter(votes.most_common(1)), ("", 0))
    return device if count > 2 and 3 * count > 2 * sum(votes.values()) else ""


def _moved_at(tensor: torch.Tensor) -> tuple[object, str]:
    """The line that moved a tensor to its device, if that was the last that was done to it, else the tensor; and the
    device."""
    last = histories.history(tensor)[-1:]
    moved = last and last[0].facts["action"] == "moved" and last[0].facts["at"]["line"]
    return (last[0].facts["at"]["file"], moved) if moved else id(tensor), str(tensor.device)


def of_accumulator(use: expressions.Use, nodes: Sequence[ast.expr | None], tensors: Sequence[object]) -> str:
    """`total = total + part`: between two cards, the part goes where the total is."""
    statement = use.statement
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    adds = isinstance(use.node, ast.BinOp) and isinstance(use.node.op, (ast.Add, ast.Sub))
    if len(targets) != 1 or not isinstance(targets[0], ast.Name) or not adds:
        return ""
    for node, tensor in zip(nodes, tensors):
        if isinstance(node, ast.Name) and node.id == targets[0].id and values.is_tensor(tensor) and tensor.is_cuda:
            return str(tensor.device)
    return ""


def of_others(operands: list[Operand], steps: list[list[histories.Step]], users: list[types.FrameType]) -> str:
    """Between two cards: one operand was put on its card for this call alone, and all others are on another."""
    devices = [facts["device"] for facts in operands]
    for number, device in enumerate(devices):
        others = {each for n, each in enumerate(devices) if n != number}
        if len(devices) > 2 and len(others) == 1 and device not in others and "cpu" not in devices:
            is_as_put = bool(steps[number]) and steps[number][-1].facts["action"] != "computed"
            if is_as_put and placings.is_moved_for(steps[number], users):
                return others.pop()
    return ""
