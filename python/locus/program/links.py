"""What a trail is made of: where an expression is read, and the statements through which its value flows.

Trees only, with the frames that run them; runs nothing.
"""

from __future__ import annotations

import ast
import types
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple

from locus.program import bindings, source, values
from locus.program.flow import Definition, Flow

END = 1 << 30
"""The line of a place behind all lines of a function."""

Part = bindings.Part
"""Which element of a value flows on: its place in a tuple, its key in a dict or its field; None: the whole."""


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
    me: object = values.MISSING
    """What `self` is, where no frame says it."""


class Link(NamedTuple):
    """One step of a trail: the statement, and the expression in it whose value flows on."""

    context: Context
    statement: ast.stmt
    node: ast.expr
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


def pick(value: ast.expr, part: Part) -> tuple[ast.expr, Part]:
    """The element of a tuple or a dict that is written out, and nothing more to pick; else the value as it is."""
    if isinstance(value, (ast.Tuple, ast.List)) and isinstance(part, int) and part < len(value.elts):
        if not any(isinstance(element, ast.Starred) for element in value.elts[: part + 1]):
            return value.elts[part], None
    if isinstance(value, ast.Dict) and isinstance(part, str):
        keys = [key.value if isinstance(key, ast.Constant) else None for key in value.keys]
        if part in keys:
            return value.values[keys.index(part)], None
    return value, part


def lacks(value: ast.Dict, part: Part) -> bool:
    """Whether a dict that is written out has no element of that key: it was put in later."""
    keys = [key.value if isinstance(key, ast.Constant) else None for key in value.keys]  # no key at all: `**more`
    return isinstance(part, str) and None not in keys and part not in keys


def other_bindings(link: Link) -> Iterator[tuple[ast.stmt, ast.expr]]:
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


class Bound(NamedTuple):
    """A statement that may have given a name its value, as far as the flow of the program tells."""

    statement: ast.stmt
    value: ast.expr
    target: ast.AST
    how: Literal["assign", "loop"]


class Sources(NamedTuple):
    """Where the value of a name may come from at a place, the nearest first."""

    bound: list[Bound]
    is_parameter: bool
    """It may be what the function was given."""
    is_free: bool
    """It may be bound outside of the function."""


_MAX_BOUND = 4


def sources(context: Context, node: ast.Name) -> Sources:
    """The statements whose binding of a name reaches a place; what is overwritten on the way is not among them."""
    flow = flow_of(context.file, context.scope)
    if flow is None:
        return Sources([], node.id in bindings.parameters(context.scope), True)
    found: list[Bound] = []
    reaching = _reaching(flow, context, node)
    for definition in reaching:
        found += _bound_by(context.file, definition, node.id)
    kinds = {definition.kind for definition in reaching}
    return Sources(found[:_MAX_BOUND], "parameter" in kinds, "free" in kinds or not reaching)


def flow_of(file: source.Source, scope: ast.AST) -> Flow | None:
    """The flow of a function, or of the module."""
    whole = file.once(_flow)
    try:
        return whole.of(scope)
    except KeyError:
        return None  # a scope of another tree


def _flow(file: source.Source) -> Flow:
    return Flow(file.tree)


def _reaching(flow: Flow, context: Context, node: ast.Name) -> tuple[Definition, ...]:
    if context.file.parent(node) is not None:
        return flow.reaching(node)
    # A name that is read where the function is: at a line of it, or at its end where it is running no more.
    line = context.line if context.line < END else context.frame.f_lineno if context.frame is not None else None
    around = context.file.statements_at(line) if line is not None else []
    return flow.reaching_before(around[-1], node.id) if around else flow.reaching_end(node.id)


def _bound_by(file: source.Source, definition: Definition, name: str) -> Iterator[Bound]:
    """The statement of a definition with what it binds; none for a definition that is no value of the program's."""
    if definition.kind in ("walrus", "match") and definition.value is not None:
        statement = file.statement(definition.node)
        if statement is not None:
            yield Bound(statement, definition.value, definition.target, "assign")
        return
    if definition.kind not in ("assign", "annotated", "augmented", "loop", "with", "item"):
        return
    node = definition.node
    statement = node if isinstance(node, ast.stmt) else file.statement(node)
    if statement is None:
        return
    for target, value in bindings.pairs(statement):
        pair = bindings.component(target, value, name)
        if pair is not None:
            yield Bound(statement, pair[1], pair[0], "loop" if definition.kind == "loop" else "assign")
