"""What a statement that refuses has asked about: `image` and `mask` of `if image.device != mask.device: raise …`.

Reads the text of the statement and of the conditions around it, and what their names mean in its frame. Runs nothing.
"""

from __future__ import annotations

import ast
import itertools
from typing import TYPE_CHECKING, NamedTuple

import torch

from locus.blame.operands import raw
from locus.program import places, source, values

if TYPE_CHECKING:
    import types
    from collections.abc import Iterator

    from locus.program.raw_shapes import RawOperand

_ASKS = ("device", "is_cuda", "is_cpu", "get_device")


class Asked(NamedTuple):
    """The tensors, and the CUDA device that one of them was compared with, if any."""

    operands: list[RawOperand]
    device: str


def about(frame: types.FrameType) -> Asked | None:
    """None where the frame's line is no statement that raises, or is PyTorch's, which has words for what it refuses."""
    file = source.load(frame.f_code.co_filename)
    statement = refusing(frame)
    if file is None or statement is None:
        return None
    found: dict[int, RawOperand] = {}
    for node in _owners(_read(file, statement)):
        value = values.evaluate(node, frame)
        if values.is_tensor(value) and id(value) not in found:
            found[id(value)] = raw(f"argument {len(found)}", len(found), value)
            if places.is_user_file(frame.f_code.co_filename):
                found[id(value)]["node"] = node
    return Asked(list(found.values()), _compared_with(_read(file, statement), frame))


def refuses_places(frame: types.FrameType) -> bool:
    """Whether the frame raises because of where tensors are, whatever it says: the condition right around it asks for
    the devices of several, and they differ."""
    file, statement = source.load(frame.f_code.co_filename), refusing(frame)
    if file is None or statement is None:
        return False
    asked = [values.evaluate(node, frame) for node in _owners(itertools.islice(_conditions(file, statement), 1))]
    return len({str(value.device) for value in asked if values.is_tensor(value)}) > 1


def refusing(frame: types.FrameType) -> ast.stmt | None:
    """The `raise` or `assert` that the frame is at; None where that is PyTorch's or the standard library's."""
    file = source.load(frame.f_code.co_filename)
    if file is None or places.kind_of_file(frame.f_code.co_filename) in ("torch", "standard"):
        return None
    node = file.at(*places.positions(frame.f_code, frame.f_lasti))
    around = file.statements_at(frame.f_lineno) if node is None else [file.statement(node)]
    return next((one for one in reversed(around) if isinstance(one, (ast.Raise, ast.Assert))), None)


def _read(file: source.Source, statement: ast.stmt) -> Iterator[ast.expr]:
    """What was asked before the statement, and what it says itself."""
    yield from _conditions(file, statement)
    if isinstance(statement, ast.Raise) and statement.exc is not None:
        yield statement.exc


def _conditions(file: source.Source, statement: ast.stmt) -> Iterator[ast.expr]:
    """Innermost first."""
    if isinstance(statement, ast.Assert):
        yield statement.test
    for outer in file.ancestors(statement):
        if isinstance(outer, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            break
        if isinstance(outer, ast.If):
            yield outer.test


def _owners(read: Iterator[ast.expr]) -> Iterator[ast.expr]:
    """`x` of each `x.device`, in the order of the text."""
    for expression in read:
        asks = [one for one in ast.walk(expression) if isinstance(one, ast.Attribute) and one.attr in _ASKS]
        yield from (one.value for one in sorted(asks, key=lambda one: (one.lineno, one.col_offset)))


def _compared_with(read: Iterator[ast.expr], frame: types.FrameType) -> str:
    for expression in read:
        for one in ast.walk(expression):
            for side in [one.left, *one.comparators] if isinstance(one, ast.Compare) else []:
                value = values.evaluate(side, frame)
                if isinstance(value, torch.device) and value.type == "cuda":
                    return str(value)
    return ""
