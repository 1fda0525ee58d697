"""Ranks that a program's text tells from others: `if rank == 0`, `local_rank in (0, 4)`, `tp_rank < 2`."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

LAST = -1
"""In the place of a rank: the last one."""


class Compared(NamedTuple):
    """A rank that a line compares with a constant."""

    of: str
    """ "" for the rank itself, "local" for that of its host, else the name of the dimension: "tp"."""
    rank: int
    line: int


class Read(NamedTuple):
    """What the text of a file says of ranks."""

    compared: list[Compared]
    unknown: list[int]
    """Lines that compare a rank with something that is not a constant."""
    files: list[int]
    """Lines that open a file by a name with a rank in it."""


_OPENERS = ("open", "load", "save", "load_file", "memmap", "fromfile", "read_csv", "read_parquet")


def read(text: str) -> Read:
    """What one file says; nothing where it can't be parsed."""
    found = Read([], [], [])
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return found
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare) and len(node.ops) == 1:
            _compare(node, found)
        elif isinstance(node, ast.Call) and _last_name(node.func) in _OPENERS:
            if any(_of(each) is not None for part in node.args[:1] for each in ast.walk(part)):
                found.files.append(node.lineno)
    return found


def _compare(node: ast.Compare, found: Read) -> None:
    sides = (node.left, node.comparators[0])
    for mine, other in (sides, sides[::-1]):
        of = _of(mine)
        if of is None or _of(other) is not None:
            continue
        if isinstance(other, ast.Constant) and not isinstance(other.value, int):
            return  # None, or a word
        numbers = list(_numbers(other))
        if not numbers:
            found.unknown.append(node.lineno)
        for number in numbers:
            for rank in _around(number, node.ops[0]):
                found.compared.append(Compared(of, rank, node.lineno))
        return


def _around(number: int, how: ast.cmpop) -> tuple[int, ...]:
    """The ranks on both sides of a border."""
    if number == LAST or not isinstance(how, (ast.Lt, ast.GtE, ast.LtE, ast.Gt)):
        return (number,)
    low = number - 1 if isinstance(how, (ast.Lt, ast.GtE)) else number
    return tuple(each for each in (low, low + 1) if each >= 0)


def _of(node: ast.AST) -> str | None:
    """Whether an expression is a rank, and of what; see Compared.of."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod):
        return _of(node.left)
    if isinstance(node, ast.Subscript) or (
        isinstance(node, ast.Call) and _last_name(node.func) in ("int", "getenv", "get")
    ):
        for each in ast.walk(node):
            if isinstance(each, ast.Constant) and each.value in ("RANK", "LOCAL_RANK"):
                return "" if each.value == "RANK" else "local"
        return None
    if isinstance(node, ast.Call):
        name = _last_name(node.func)
        if name == "get_local_rank":
            words = [each.value for each in node.args if isinstance(each, ast.Constant)]
            return words[0] if words and isinstance(words[0], str) else None
        return "" if name == "get_rank" and not node.args and not node.keywords else None
    name = _last_name(node).lower()
    if not name.endswith("rank"):
        return None
    of = name.removesuffix("rank").rstrip("_")
    return "" if of in ("", "global", "world", "my", "this", "cur", "current") else of


def _last_name(node: ast.AST) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def _numbers(node: ast.AST) -> Iterator[int]:
    """The constants that an expression is, or holds; the last rank for `world_size - 1`."""
    if isinstance(node, ast.Constant) and isinstance(node.value, int) and not isinstance(node.value, bool):
        yield node.value
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        yield LAST
    elif isinstance(node, (ast.Tuple, ast.List, ast.Set)):
        for each in node.elts:
            yield from _numbers(each)
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub):
        text = ast.unparse(node.left).lower()
        if "world" in text or "size" in text:
            yield LAST
