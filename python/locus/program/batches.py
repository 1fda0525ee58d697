"""Finds the variables of a running loop that hold what a loader gave: loop targets, and what is unpacked from them.

Reads the tree of the loop; a name that was bound again since (x = x.to(device)) is no batch any more.
"""

from __future__ import annotations

import ast
import bisect
import heapq
import re
import types
from collections.abc import Iterable
from typing import NamedTuple

import torch

from locus.program import source, text_index, values

_HINT = re.compile(
    r"data|batch|load|dl|iter|train|val|test|sampl|exampl|stream|queue|fetch|chunk|split|unbind", re.IGNORECASE
)
_SAME_DATA = {
    "reshape", "view", "flatten", "squeeze", "unsqueeze", "float", "long", "double", "half", "bool", "int", "t",
    "transpose", "permute", "contiguous", "clone", "detach", "type", "view_as", "expand", "pin_memory", "split",
    "chunk", "unbind",
}  # fmt: skip
_WRAPPERS = {"enumerate", "tqdm", "iter", "zip", "islice", "trange", "track", "progress", "cycle", "chain"}


class Binding(NamedTuple):
    """Where a batch variable gets its value."""

    statement: ast.stmt
    """The loop, or the assignment that unpacks."""
    file: source.Source


def batch_names(frame: types.FrameType) -> dict[str, Binding]:
    """The names of a frame that hold a batch, or a part of one, at this moment."""
    file = source.load(frame.f_code.co_filename)
    if file is None:
        return {}
    scope = file.function_at(frame.f_code.co_firstlineno, frame.f_code.co_name)
    if scope is None or not hasattr(scope, "body"):
        return {}
    line = frame.f_lineno or 0
    found: dict[str, Binding] = {}
    table = text_index.once(scope, _flows)
    ahead = [table.loops[s] for s in file.statements_at(line) if s in table.loops] + table.taken
    heapq.heapify(ahead)
    last = -1
    while ahead:
        number = heapq.heappop(ahead)
        if number == last:
            continue
        last, node = number, table.statements[number]
        if isinstance(node, (ast.For, ast.AsyncFor)):
            inside = node.body[0].lineno <= line <= (node.body[-1].end_lineno or 0)
            new = targets(_counted(node)) if inside and _gives_batches(node.iter, frame) else []
        elif (node.end_lineno or 0) >= line:
            continue
        else:
            bound = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
            new = [name for target in bound if target is not None for name in targets(target)]
            value: ast.AST | None = getattr(node, "value", None)
            if value is None or not ((root(value) or "") in found or _is_next(value)):
                for name in new:
                    found.pop(name, None)
                continue
        for name in new:
            if name not in found:  # from here on, what is done with it matters
                later = table.touching.get(name, [])
                for other in later[bisect.bisect_right(later, number) :]:
                    heapq.heappush(ahead, other)
            found[name] = Binding(node, file)
    return found


class _Flows(NamedTuple):
    """How values flow through the assignments and loops of a function, by the numbers of its statements."""

    statements: list[ast.stmt]
    loops: dict[ast.stmt, int]
    taken: list[int]
    """Assignments of next(…)."""
    touching: dict[str, list[int]]
    """Assignments that bind a name, or take something from what it names."""


def _flows(scope: ast.AST) -> _Flows:
    flows = _Flows(statements(scope), {}, [], {})
    for number, node in enumerate(flows.statements):
        if isinstance(node, (ast.For, ast.AsyncFor)):
            flows.loops[node] = number
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            bound = node.targets if isinstance(node, ast.Assign) else [node.target]
            names = {name for target in bound for name in targets(target)}
            if node.value is not None:
                names.add(root(node.value) or "")
                if _is_next(node.value):
                    flows.taken.append(number)
            for name in names:
                flows.touching.setdefault(name, []).append(number)
    return flows


def statements(scope: ast.AST) -> list[ast.stmt]:
    """The statements of a function in the order of the text, without those of functions inside it."""
    return text_index.once(scope, _statements)


def _statements(scope: ast.AST) -> list[ast.stmt]:
    found: list[ast.stmt] = []
    stack = [scope]
    while stack:
        for child in ast.iter_child_nodes(stack.pop()):
            if not isinstance(child, (*source.Function, ast.ClassDef)):
                if isinstance(child, ast.stmt):
                    found.append(child)
                stack.append(child)
    return sorted(found, key=lambda s: (s.lineno, s.col_offset))


def targets(node: ast.AST) -> list[str]:
    """The names that a target binds."""
    if isinstance(node, ast.Name):
        return [node.id]
    if isinstance(node, ast.Starred):
        return targets(node.value)
    if isinstance(node, (ast.Tuple, ast.List)):
        return [name for element in node.elts for name in targets(element)]
    return []


def _counted(loop: ast.For | ast.AsyncFor) -> ast.AST:
    """The target without the number that enumerate() adds."""
    call = loop.iter
    is_enumerate = isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "enumerate"
    if is_enumerate and isinstance(loop.target, ast.Tuple) and len(loop.target.elts) == 2:
        return loop.target.elts[1]
    return loop.target


def root(node: ast.AST) -> str | None:
    """The variable that an element or attribute is taken from, with only its shape or type changed."""
    while isinstance(node, (ast.Subscript, ast.Attribute, ast.Call)):
        if isinstance(node, ast.Subscript) and not isinstance(node.slice, (ast.Constant, ast.Name, ast.UnaryOp)):
            return None
        if isinstance(node, ast.Call):
            if not isinstance(node.func, ast.Attribute) or node.func.attr not in _SAME_DATA:
                return None
            node = node.func
        node = node.value
    return node.id if isinstance(node, ast.Name) else None


def _is_next(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "next"


def _gives_batches(node: ast.AST, frame: types.FrameType) -> bool:
    if isinstance(node, ast.Call):
        name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
        if name in _WRAPPERS:
            return any(_gives_batches(argument, frame) for argument in node.args)
        return name != "range" and bool(_HINT.search(name)) and not re.search(r"param|modules|children|buffers", name)
    value = values.evaluate(node, frame)
    if value is values.MISSING:
        return isinstance(node, (ast.Name, ast.Attribute, ast.Subscript)) and bool(_HINT.search(ast.unparse(node)))
    return _is_loader(value) or (
        isinstance(value, (list, tuple, dict)) and bool(_HINT.search(ast.unparse(node))) and not _has_modules(value)
    )


def _is_loader(value: object) -> bool:
    from torch.utils.data import DataLoader, Dataset

    if isinstance(value, (DataLoader, Dataset, types.GeneratorType)) or hasattr(type(value), "__next__"):
        return True
    plain = (list, tuple, dict, set, str, range, torch.Tensor, torch.nn.Module)
    return not isinstance(value, plain) and hasattr(type(value), "__iter__")


def _has_modules(value: object) -> bool:
    held = value.values() if isinstance(value, dict) else value
    items = list(held)[:4] if isinstance(held, Iterable) else []
    return any(values.is_module(item) for item in items)
