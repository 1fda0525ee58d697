"""Findings about distributed code, as data of the report's form: no operator broke a rule, so no case is to blame."""

from __future__ import annotations

import contextlib
import sys
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from locus.program import places

if TYPE_CHECKING:
    import torch

Location = dict[str, Any]


def here(skip: int = 1) -> Location:
    """Where the program is now: its own innermost line."""
    for frame in places.walk(sys._getframe(skip)):
        if places.is_user_file(frame.f_code.co_filename):
            return places.frame_location(frame)
    return places.unknown_location()


def make(
    reason: str,
    message: str,
    why: str,
    use: Location,
    cause: Location | None = None,
    *,
    op: str = "",
    culprit: dict[str, Any] | None = None,
    operands: list[dict[str, Any]] | None = None,
    fixes: list[dict[str, Any] | None] = (),  # type: ignore[assignment]
    notes: list[str] = (),  # type: ignore[assignment]
    ranks: list[int] = (),  # type: ignore[assignment]
    step: int = 0,
) -> dict[str, Any]:
    """A finding with that reason; its code and severity follow from it."""
    return {
        "reason": reason,
        "message": message,
        "op": op,
        "cause": cause if cause is not None and cause["line"] else use,
        "culprit": culprit or {},
        "uses": [{**use, "op": op, "count": 1, "first_step": step}],
        "operands": operands or [],
        "why": why,
        "fixes": [{"verified": False, "note": "", **fix} for fix in fixes if fix],
        "first_step": step,
        "notes": list(notes),
        "ranks": list(ranks),
    }


def operand(tensor: Any, name: str, kind: str, culprit: bool = True) -> dict[str, Any]:
    """One tensor of a finding, with where it came from."""
    from locus.program import histories

    history: list[Any] = []
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

    def operand(self) -> dict[str, Any]:
        return operand(self.tensor, self.name, self.kind)


def named(module: torch.nn.Module) -> list[Named]:
    """Everything that a move of a module would move."""
    parameters = [Named(name, tensor, "parameter") for name, tensor in module.named_parameters()]
    return parameters + [Named(name, tensor, "buffer") for name, tensor in module.named_buffers()]
