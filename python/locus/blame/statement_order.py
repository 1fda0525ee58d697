"""The edit that puts a statement after others: what was done too early. Reads source only; never raises."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import TYPE_CHECKING

from locus.program import source
from locus.program.source import Change
from locus.program.text_index import last_line

if TYPE_CHECKING:
    from locus.program.shapes import Edit, Location


def moved_after(early: Location, others: Sequence[Sequence[Location]]) -> Edit | None:
    """The edit that makes the statement at `early` follow the last of `others`, where they stand in one block and
    nothing between them needs what it binds; None where that can't be seen. Of each: its place, and those of its
    callers.
    """
    try:
        file = source.load(early["file"])
        if file is None:
            return None
        statement = _statement_at(file, early["line"])
        block = file.block(statement) if statement is not None else []
        if statement is None or not block:
            return None
        last = block.index(statement)
        for callers in others:
            index = _index_in(block, [place["line"] for place in callers if place["file"] == early["file"]])
            if index is None:
                return None
            last = max(last, index)
        between = block[block.index(statement) + 1 : last + 1]
        if not between or _binds(statement) & set().union(*map(_names, between)):
            return None
        return _move(file, statement, between[-1])
    except Exception:
        return None


def _index_in(block: list[ast.stmt], lines: list[int]) -> int | None:
    """The statement of a block that one of these lines is in, and runs when it is its turn."""
    for line in lines:
        for number, each in enumerate(block):
            if each.lineno <= line <= last_line(each) and not isinstance(each, _LATER):
                return number
    return None


_LATER = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def _move(file: source.Source, statement: ast.stmt, target: ast.stmt) -> Edit | None:
    first, end, after = statement.lineno, last_line(statement), last_line(target)
    if any(file.line(number).strip().endswith("\\") or ";" in file.line(number) for number in (first, end, after)):
        return None  # several statements on a line
    moved = "\n".join(file.lines[first - 1 : end])
    column = len(file.lines[after - 1].encode())
    return file.edit([Change(first, 0, end + 1, 0, ""), Change(after, column, after, column, "\n" + moved)])


def _statement_at(file: source.Source, line: int) -> ast.stmt | None:
    found = [each for each in file.statements_at(line) if isinstance(each, (ast.Assign, ast.AnnAssign, ast.Expr))]
    return found[-1] if found else None


def _names(node: ast.AST) -> set[str]:
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}


def _binds(statement: ast.stmt) -> set[str]:
    return {n.id for n in ast.walk(statement) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
