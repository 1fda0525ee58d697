"""New data that was bound to the name of a graph's input, which the graph never sees: whether that is a mistake for
certain, which line binds, and the copy as an edit.

It is one where the tensor that the graph reads is left as it was captured, or is gone, and nothing of the program reads
the name once the new data is bound to it: then the data was meant for the graph.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NamedTuple

from locus.program import bound_inputs, links, places, source, spots
from locus.program.bound_inputs import Input, Rebound
from locus.program.source import Change

if TYPE_CHECKING:
    from locus.program.shapes import Edit, Location

_LOOPS = (ast.For, ast.AsyncFor, ast.While)


class Bound(NamedTuple):
    """A mistake."""

    at: Location
    """The line that binds."""
    edit: Edit | None


class _Binding(NamedTuple):
    """A statement that binds new data, and whether anything may read it."""

    statement: ast.stmt
    is_used: bool


def find(name: str) -> Bound | None:
    """What is wrong with a name of the graph that is replayed; None where that is not certain."""
    mine = [each for each in bound_inputs.rebound if each.input.text == name]
    return judge(mine[0]) if mine else None


def explains(site: int) -> bool:
    """Whether memory that a line of the capture reads is gone because of a name that was found to be bound anew."""
    mine = [each for each in bound_inputs.rebound if each.is_gone and each.input.site == site]
    return any(judge(each) is not None for each in mine)


def judge(rebound: Rebound) -> Bound | None:
    """What is wrong with a name that stands for another tensor now; None where that is not certain."""
    known = rebound.input
    file = source.load(known.file)
    if file is None:
        return None
    bindings = _of_attribute(file, known) if isinstance(known.spot, spots.Attribute) else _of_name(file, known)
    if len(bindings) != 1 or (bindings[0].is_used and not rebound.is_gone):
        return None
    statement = bindings[0].statement
    return Bound(places.node_location(file, statement), _copy(file, statement))


def _of_name(file: source.Source, known: Input) -> list[_Binding]:
    """The statements that bind the name after the capture, or after the first replay."""
    code = known.spot.code if isinstance(known.spot, spots.Name) else None
    scope = file.function_at(code.co_firstlineno, code.co_name) if code is not None else file.tree
    flow = links.flow_of(file, scope) if scope is not None else None
    statements = file.statements_at(known.line)
    if flow is None or not statements:
        return []
    start: ast.AST = statements[-1]
    for outer in file.ancestors(start):
        if isinstance(outer, _LOOPS) and file.scope(outer) is scope:
            start = outer
    before = set(flow.reaching_before(start, known.text))
    found: list[_Binding] = []
    for definition in flow.definitions(known.text):
        statement = file.statement(definition.node) if definition not in before else None
        if statement is not None:
            is_used = definition.kind == "free" or bool(flow.uses_of(definition))
            found.append(_Binding(statement, is_used))
    return found


def _of_attribute(file: source.Source, known: Input) -> list[_Binding]:
    """The statements that bind the attribute outside of the function that has captured."""
    statements = file.statements_at(known.line)
    captures = file.scope(statements[-1]) if statements else None
    name, is_used = known.text.removeprefix("self."), False
    found: list[ast.stmt] = []
    for node in ast.walk(file.tree):
        if (
            not isinstance(node, ast.Attribute)
            or node.attr != name
            or any(outer is captures for outer in file.ancestors(node))
        ):
            continue
        statement = file.statement(node)
        if isinstance(node.ctx, ast.Load):
            is_used = True
        elif statement is not None:
            found.append(statement)
    return [_Binding(statement, is_used) for statement in found]


def _copy(file: source.Source, statement: ast.stmt) -> Edit | None:
    """`x = batch.to(device)` -> `x.copy_(batch.to(device))`"""
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        return None
    target = statement.targets[0]
    if not isinstance(target, (ast.Name, ast.Attribute)):
        return None
    text = f"{file.segment(target)}.copy_({file.segment(statement.value)})"
    return file.edit([Change.replace(statement, text)])
