"""Findings about distributed code, as data of the report's form: no operator broke a rule, so no case is to blame."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

from locus.program import places

if TYPE_CHECKING:
    import torch

    from locus.program.shapes import Culprit, Edit, Finding, FoundOperand, Location, Step
    from locus.vocabulary import Kind, Reason


def here(skip: int = 1) -> Location:
    """Where the program is now: its own innermost line."""
    for frame in places.walk(sys._getframe(skip)):
        if places.is_user_file(frame.f_code.co_filename):
            return places.frame_location(frame)
    return places.unknown_location()


def make(
    reason: Reason,
    message: str,
    why: str,
    use: Location,
    cause: Location | None = None,
    *,
    op: str = "",
    culprit: Culprit | None = None,
    operands: Sequence[FoundOperand] | None = None,
    fixes: Sequence[Edit | None] = (),
    notes: Sequence[str] = (),
    ranks: Sequence[int] = (),
    step: int = 0,
) -> Finding:
    """A finding with that reason; its code and severity follow from it."""
    return {
        "reason": reason,
        "message": message,
        "op": op,
        "cause": cause if cause is not None and cause["line"] else use,
        "culprit": culprit or {},
        "uses": [{**use, "op": op, "count": 1, "first_step": step}],  # type: ignore[typeddict-item]  # no library
        "operands": operands or [],
        "why": why,
        "fixes": [{"verified": False, "note": "", **fix} for fix in fixes if fix],
        "first_step": step,
        "notes": list(notes),
        "ranks": list(ranks),
    }


def operand(tensor: torch.Tensor, name: str, kind: Kind, culprit: bool = True) -> FoundOperand:
    """One tensor of a finding, with where it came from."""
    from locus.program import histories

    history: list[Step] = []
    with contextlib.suppress(Exception):
        history = [step.facts for step in histories.history(tensor)]
    return {
        "argument": "", "position": -1, "name": name, "kind": kind, "device": str(tensor.device),
        "shape": [int(size) for size in tensor.shape], "dtype": str(tensor.dtype).removeprefix("torch."),
        "odd": culprit, "culprit": culprit, "rule": "same", "history": history,
        "requires_grad": bool(tensor.requires_grad),
    }  # fmt: skip


class Named(NamedTuple):
    """A tensor of a module."""

    name: str
    tensor: torch.Tensor
    kind: Literal["parameter", "buffer"]

    def operand(self) -> FoundOperand:
        return operand(self.tensor, self.name, self.kind)


def named(module: torch.nn.Module) -> list[Named]:
    """Everything that a move of a module would move."""
    parameters = [Named(name, tensor, "parameter") for name, tensor in module.named_parameters()]
    return parameters + [Named(name, tensor, "buffer") for name, tensor in module.named_buffers()]
