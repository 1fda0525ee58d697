"""What a loop still holds and has no more use for when memory runs out: gradients that `zero_grad(set_to_none=False)`
keeps as zeros, and results of the round before that a name keeps until the next ones are there. The edits: let the
gradients go; `del` at the end of the loop.
"""

from __future__ import annotations

import ast
import itertools
import types
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import torch

from locus.fixing import rewriting
from locus.program import histories, links, places, source, values
from locus.program.source import Change

if TYPE_CHECKING:
    from locus.program.flow import Flow
    from locus.program.shapes import Edit, Location

_LOOPS = (ast.For, ast.AsyncFor, ast.While)
_LEAVES = (ast.Continue, ast.Break, ast.Return, ast.Yield, ast.YieldFrom, ast.Try)
_NEED_GRADIENTS = {"step", "grad"}


class Idle(NamedTuple):
    """Memory that is held and not needed."""

    location: Location
    """The line that keeps it."""
    name: str
    words: str
    edit: Edit | None


class _Round(NamedTuple):
    """A loop whose round was under way when memory ran out."""

    file: source.Source
    frame: types.FrameType
    loop: ast.For | ast.AsyncFor | ast.While
    now: ast.stmt
    """The statement of its body that was under way."""


def find(frames: list[types.FrameType], device: int, lacking: int, gradients: int) -> Idle | None:
    """What would have sufficed: `lacking` bytes were not there, `gradients` bytes were held by gradients."""
    rounds = [found for frame in frames for found in _rounds(frame)]
    return (_gradients(rounds) if gradients >= lacking > 0 else None) or _result(rounds, device, lacking)


def _rounds(frame: types.FrameType) -> Iterator[_Round]:
    file = source.load(frame.f_code.co_filename)
    statements = file.statements_at(frame.f_lineno) if file is not None else []
    for outer, inner in itertools.pairwise(statements):
        if file is not None and isinstance(outer, _LOOPS) and inner in outer.body:
            yield _Round(file, frame, outer, inner)


# -- gradients


def _gradients(rounds: list[_Round]) -> Idle | None:
    """Gradients of zeros, while the loop has no use for them: from its second round on, until its step."""
    bridge = histories.bridge()
    if bridge is None or not bridge.steps():
        return None
    for each in rounds:
        if _called(each.now) & _NEED_GRADIENTS:
            return None
        for call in each.file.calls(each.loop, "zero_grad"):
            given = next((keyword for keyword in call.keywords if keyword.arg == "set_to_none"), None)
            if given is None or not isinstance(given.value, ast.Constant) or given.value.value is not False:
                continue
            edit = each.file.edit([Change.replace(given.value, "True")], "gradients are made anew by backward()")
            words = f"`{each.file.flat(call)}` keeps the gradients of the step before, as zeros, until backward()"
            return Idle(places.node_location(each.file, call), "", words, edit)
    return None


def _called(node: ast.AST) -> set[str]:
    calls = [each.func for each in ast.walk(node) if isinstance(each, ast.Call)]
    return {each.attr for each in calls if isinstance(each, ast.Attribute)}


# -- results of the round before


def _result(rounds: list[_Round], device: int, lacking: int) -> Idle | None:
    """The largest tensor of a name that is bound anew before anything reads it."""
    found: list[tuple[int, _Round, str, ast.stmt]] = []
    for each in rounds:
        scope = each.file.scope(each.loop)
        flow = links.flow_of(each.file, scope)
        for name, value in values.at_rest(each.frame.f_locals).items():
            if type(value) is not torch.Tensor or value.device != torch.device("cuda", device):
                continue
            size = value.untyped_storage().nbytes()
            made = _made_anew(each, flow, name) if flow is not None and size >= lacking > 0 else None
            if made is not None:
                found.append((size, each, name, made))
    if not found:
        return None
    _, each, name, made = max(found, key=lambda one: one[0])
    words = f"`{name}` of the round before is held until line {made.lineno} has made the next one"
    last = each.loop.body[-1]
    edit = None
    if rewriting.starts_line(each.file, last) and rewriting.ends_line(each.file, last):
        indent = rewriting.indent_of(each.file, last)
        edit = each.file.insertion(last.end_lineno or last.lineno, f"{indent}del {name}", "nothing reads it after that")
    return Idle(places.node_location(each.file, made), name, words, edit)


def _made_anew(each: _Round, flow: Flow, name: str) -> ast.stmt | None:
    """The statement of the loop that binds the name in every round, at or after the one that was under way, before
    anything in the loop reads it; None where somebody may still read what it was."""
    bound = [definition.node for definition in flow.definitions(name)]
    made = bound[0] if len(bound) == 1 and isinstance(bound[0], ast.Assign) else None
    if made is None or made not in each.loop.body or made.lineno < each.now.lineno:
        return None
    if any(isinstance(node, _LEAVES) for part in each.loop.body for node in ast.walk(part)):
        return None
    for node in ast.walk(each.file.scope(each.loop)):
        if isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load):
            is_inside = any(outer is each.loop for outer in each.file.ancestors(node))
            if not is_inside or each.file.scope(node) is not each.file.scope(each.loop) or node.lineno <= made.lineno:
                return None
    return made
