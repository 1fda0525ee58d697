"""What a trail is made of: where an expression is read, and the statements through which its value flows.

Trees only, with the frames that run them; runs nothing.
"""

from __future__ import annotations

import ast
import types
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from locus.program import bindings, source, values


@dataclass(frozen=True)
class Context:
    """Where an expression is read: its function, the frame that runs it (if one does), and who called it."""

    file: source.Source
    scope: ast.AST
    frame: types.FrameType | None
    line: int
    """Bindings below this line have not happened yet."""
    call: ast.Call | None = None
    caller: Context | None = None
    me: Any = values.MISSING
    """What `self` is, where no frame says it."""


class Link(NamedTuple):
    """One step of a trail: the statement, and the expression in it whose value flows on."""

    context: Context
    statement: ast.stmt
    node: ast.AST
    how: str
    """"assign", "loop", "argument", "return", "attribute", "put" (into a container) or "made"."""
    target: ast.AST | None = None
    """What the value is bound to."""
    moved: bool = False
    """Whether the expression is a move of PyTorch's: what lies behind it is another tensor."""
    lost: bool = False
    """Whether an object is bound here that has a method to move what it holds, which was not called."""
    name: str = ""
    """The variable that is bound, where it is one of several."""


def pick(value: ast.AST, part: int | str | None) -> tuple[ast.AST, int | str | None]:
    """The element of a tuple or a dict that is written out, and nothing more to pick; else the value as it is."""
    if isinstance(value, (ast.Tuple, ast.List)) and isinstance(part, int) and part < len(value.elts):
        if not any(isinstance(element, ast.Starred) for element in value.elts[: part + 1]):
            return value.elts[part], None
    if isinstance(value, ast.Dict) and isinstance(part, str):
        keys = [key.value if isinstance(key, ast.Constant) else None for key in value.keys]
        if part in keys:
            return value.values[keys.index(part)], None
    return value, part


def other_bindings(link: Link) -> Iterator[tuple[ast.stmt, ast.AST]]:
    """The other statements of the function that bind the same name, with their values."""
    text = ast.unparse(link.target) if link.target is not None else ""
    for statement in bindings.binders(link.context.scope, text):
        for target, value in bindings.pairs(statement):
            if statement is not link.statement and isinstance(target, ast.Name) and target.id == text:
                yield statement, value


def scopes(context: Context | None) -> Iterator[ast.AST]:
    while context is not None:
        yield context.scope
        context = context.caller


def last_binding(context: Context, node: ast.Name) -> tuple[ast.stmt, ast.AST, ast.AST, str] | None:
    """The last statement above a place that gives a name its value: (statement, value, target, how)."""
    name, line = node.id, min(context.line, getattr(node, "lineno", context.line))
    own = context.file.statement(node)
    found: tuple[ast.stmt, ast.AST, ast.AST, str] | None = None
    for statement in bindings.binders(context.scope, name):
        inside_loop = isinstance(statement, (ast.For, ast.AsyncFor)) and bindings.holds(statement, line)
        if statement is own and not inside_loop:
            continue
        if statement.lineno >= line and not inside_loop:
            continue
        for target, value in bindings.pairs(statement):
            pair = bindings.component(target, value, name)
            if pair is not None:
                how = "loop" if isinstance(statement, (ast.For, ast.AsyncFor)) else "assign"
                found = (statement, pair[1], pair[0], how)
    return found
