"""What stands around a call of a collective in the program's text: the `if` that decides whether it is made, the loop
around it, the collective that is written after it. For sentences about ranks that part ways
(locus/engine/ranks/surroundings.h). Reads source only; never raises.
"""

from __future__ import annotations

import ast
import dataclasses
import json
import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from locus.blame.branches import Branch
from locus.program import places, source
from locus.program.text_index import last_line

if TYPE_CHECKING:
    from locus.program.shapes import Location

_WAYS_OUT = (ast.Return, ast.Continue, ast.Break, ast.Raise)
_RANKS = ("rank", "main_process", "is_main", "master", "is_chief", "leader")
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_COLLECTIVES = frozenset((
    "all_reduce", "broadcast", "reduce", "all_gather", "all_gather_into_tensor", "reduce_scatter",
    "reduce_scatter_tensor", "all_to_all", "all_to_all_single", "gather", "scatter", "barrier", "broadcast_object_list",
    "all_gather_object", "gather_object", "scatter_object_list", "all_gather_single", "reduce_scatter_single",
))  # fmt: skip


@dataclasses.dataclass
class Order:
    """A call as it is written, and what is called after it in the same block."""

    text: str = ""
    next_text: str = ""
    next: Location = dataclasses.field(default_factory=places.unknown_location)


@dataclasses.dataclass
class Setting:
    """Each field is explained in locus/engine/ranks/surroundings.h."""

    branch: Branch | None = None
    in_else: bool = False
    by_rank: bool = False
    loops: list[Branch] = dataclasses.field(default_factory=list)
    orders: list[Order] = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class _Decision:
    branch: Branch
    in_else: bool
    by_rank: bool


def around(calls: Sequence[Location]) -> str:
    """As JSON, what stands around the call at the first of these places; the others are those of its callers."""
    setting = Setting()
    try:
        decisions: list[_Decision] = []
        for number, place in enumerate(calls):
            if not _are_near(place["file"], calls[0]["file"]):
                break  # whoever runs the program
            file = source.load(place["file"])
            node = _node(file, place) if file is not None else None
            if file is None or node is None:
                continue
            setting.orders.append(_order(file, node, is_collective=number == 0))
            decisions += _decisions(file, node)
            setting.loops += _loops(file, node)
        chosen = next((each for each in decisions if each.by_rank), decisions[0] if decisions else None)
        if chosen is not None:
            setting.branch, setting.in_else, setting.by_rank = chosen.branch, chosen.in_else, chosen.by_rank
    except Exception:
        pass  # less is said, then
    return json.dumps(dataclasses.asdict(setting))


def _are_near(one: str, other: str) -> bool:
    """Whether the folder of one file is that of the other, or around it."""
    folders = sorted((os.path.dirname(one) + os.sep, os.path.dirname(other) + os.sep), key=len)
    return folders[1].startswith(folders[0])


def _node(file: source.Source, place: Location) -> ast.AST | None:
    """The call at a place, or the innermost statement there."""
    statements = file.statements_at(place["line"])
    if not statements:
        return None
    inside = [
        node for node in ast.walk(statements[-1])
        if isinstance(node, ast.Call) and (node.lineno, node.end_lineno) == (place["line"], place["end_line"])
        and len(file.line(node.lineno).encode()[: node.col_offset].decode(errors="replace")) == place["column"]
    ]  # fmt: skip
    return inside[0] if inside else statements[-1]


def _decisions(file: source.Source, node: ast.AST) -> list[_Decision]:
    """The `if`s of the function that decide whether a place in it is reached, innermost first."""
    found: list[_Decision] = []
    inner: ast.AST = node
    for outer in file.ancestors(node):
        for field in ("body", "orelse", "finalbody"):
            block = getattr(outer, field, None)
            if isinstance(block, list) and inner in block:
                found += [
                    _decision(file, before, leaves=True)
                    for before in reversed(block[: block.index(inner)])
                    if isinstance(before, ast.If) and isinstance(before.body[-1], _WAYS_OUT)
                ]
        if isinstance(outer, ast.If) and inner is not outer.test:
            found.append(_decision(file, outer, in_else=inner in outer.orelse))
        elif isinstance(outer, ast.IfExp) and inner is not outer.test:
            found.append(_decision(file, outer, in_else=inner is outer.orelse))
        if isinstance(outer, (*_FUNCTIONS, ast.Lambda)):
            break
        inner = outer
    return found


def _decision(file: source.Source, node: ast.If | ast.IfExp, leaves: bool = False, in_else: bool = False) -> _Decision:
    names = {each.id for each in ast.walk(node.test) if isinstance(each, ast.Name)}
    names |= {each.attr for each in ast.walk(node.test) if isinstance(each, ast.Attribute)}
    names |= {
        each.value for each in ast.walk(node.test) if isinstance(each, ast.Constant) and isinstance(each.value, str)
    }
    by_rank = any(word in name.lower() for name in names for word in _RANKS)
    return _Decision(Branch(_head(file, node), f"if {file.flat(node.test)}", leaves), in_else, by_rank)


def _loops(file: source.Source, node: ast.AST) -> Iterator[Branch]:
    """The loops of the function that a place is in, innermost first."""
    for outer in file.ancestors(node):
        if isinstance(outer, (ast.For, ast.AsyncFor)):
            text = f"for {file.flat(outer.target)} in {file.flat(outer.iter)}"
            yield Branch(_head(file, outer, last_line(outer.iter)), text, False)
        if isinstance(outer, ast.While):
            yield Branch(_head(file, outer, last_line(outer.test)), f"while {file.flat(outer.test)}", False)
        if isinstance(outer, _FUNCTIONS):
            break


def _order(file: source.Source, node: ast.AST, is_collective: bool) -> Order:
    """The call as it is written, and the next collective in its block; of one that leads to a collective, the call that
    the next statement is."""
    statement = file.statement(node)
    own = node if isinstance(node, ast.Call) else _collective_in(statement)
    if statement is None or own is None:
        return Order()
    order = Order(file.flat(own))
    block = file.block(statement)
    for after in block[block.index(statement) + 1 :] if block else ():
        call = _collective_in(after) if is_collective else _call_of(after)
        if call is not None:
            order.next_text = file.flat(call)
            order.next = _head(file, call)
        if call is not None or not is_collective:
            break
    return order


def _call_of(statement: ast.stmt) -> ast.Call | None:
    value = statement.value if isinstance(statement, (ast.Expr, ast.Assign, ast.AnnAssign)) else None
    return value if isinstance(value, ast.Call) else None


def _collective_in(node: ast.AST | None) -> ast.Call | None:
    calls = [each for each in ast.walk(node) if isinstance(each, ast.Call)] if node is not None else []
    return next((each for each in calls if _name(each.func) in _COLLECTIVES), None)


def _name(node: ast.AST) -> str:
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def _head(file: source.Source, node: ast.stmt | ast.expr, end_line: int = 0) -> Location:
    """The place of a statement's first line, or of all of its head."""
    place = places.location(file.file, node.lineno, end_line or node.lineno, node.col_offset, -1, "")
    place["end_column"] = len(file.line(node.lineno))
    return place
