"""What is where in the tree of one file, looked up instead of walked for: explaining a mistake then costs the same in a
long file as in a short one.

Made once a file, of its tree alone. Knows no values, no frames, and nothing of devices.
"""

from __future__ import annotations

import ast
import bisect
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, TypeVar

_Definition = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_Named = (ast.FunctionDef, ast.AsyncFunctionDef)
_SHARED = (ast.expr_context, ast.operator, ast.boolop, ast.unaryop, ast.cmpop)  # one object, wherever it stands

Key = tuple[str, str]
"""A kind of thing, and its name: ("call", "zeros"), ("store", "x")."""

Placed = ast.expr | ast.stmt | ast.excepthandler | ast.keyword | ast.arg | ast.alias | ast.pattern
"""The nodes that know where their text is."""

S = TypeVar("S")
T = TypeVar("T")


class Span(NamedTuple):
    """Where a text is: lines from 1, columns in bytes of UTF-8."""

    line: int
    column: int
    end_line: int
    end_column: int


def span(node: ast.AST) -> Span:
    """Where a node's text is. TypeError for a node that has none of its own: a module, an operator."""
    if not isinstance(node, Placed):
        raise TypeError(f"{type(node).__name__} has no place of its own")
    return Span(node.lineno, node.col_offset, last_line(node), node.end_col_offset or node.col_offset)


def last_line(node: Placed) -> int:
    """The line that a node's text ends at."""
    return node.end_lineno or node.lineno


def once(about: S, make: Callable[[S], T]) -> T:
    """What `make` says of a node or a file, asked once: the answer is kept with it."""
    kept = about.__dict__.setdefault("_locus_once", {})
    if make not in kept:
        kept[make] = make(about)
    known: T = kept[make]
    return known


class Index:
    """The nodes of a tree by what they do, and which of them lie inside which."""

    def __init__(self, tree: ast.Module):
        self.parents: dict[ast.AST, ast.AST] = {}
        self._rank: dict[ast.AST, int] = {}
        self._start: dict[ast.AST, int] = {}
        self._end: dict[ast.AST, int] = {}
        self._by_end: dict[tuple[int, int], list[Placed]] = {}
        self._functions: dict[tuple[str, int], ast.AST] = {}
        self._found: dict[Key, list[ast.AST]] = {}
        self._covering: list[list[ast.stmt]] | None = None
        self._tree = tree
        for rank, node in enumerate(ast.walk(tree)):
            self._rank[node] = rank
            for child in ast.iter_child_nodes(node):
                self.parents[child] = node
            if isinstance(node, Placed):
                self._by_end.setdefault(span(node)[2:], []).append(node)
            if isinstance(node, _Named):
                self._functions.setdefault((node.name, first_line(node)), node)
            elif isinstance(node, ast.Lambda):
                self._functions.setdefault(("<lambda>", node.lineno), node)
        self._number(tree)

    def _number(self, tree: ast.AST) -> None:
        """Numbers the nodes in the order of the text, and notes each under its keys."""
        number, stack = 0, [(tree, False)]
        while stack:
            node, is_done = stack.pop()
            if is_done:
                self._end[node] = number
                continue
            self._start[node] = number
            number += 1
            for key in _keys(node):
                self._found.setdefault(key, []).append(node)
            stack.append((node, True))
            inside = [child for child in ast.iter_child_nodes(node) if not isinstance(child, _SHARED)]
            stack += [(child, False) for child in reversed(inside)]

    def find(self, scope: ast.AST, *keys: Key) -> list[ast.AST]:
        """The nodes with one of these keys inside `scope` (itself included), as ast.walk(scope) would give them."""
        found: list[ast.AST] = []
        start, end = self._start.get(scope), self._end.get(scope)
        if start is None or end is None:
            return [node for node in ast.walk(scope) if not set(keys).isdisjoint(_keys(node))]  # not of this tree
        for key in keys:
            every = self._found.get(key, [])
            first = bisect.bisect_left(every, start, key=self._start.__getitem__)
            last = bisect.bisect_left(every, end, lo=first, key=self._start.__getitem__)
            found += every[first:last]
        return sorted(set(found) if len(keys) > 1 else found, key=self._rank.__getitem__)

    def ending_at(self, line: int, column: int) -> list[Placed]:
        """The nodes whose text ends there, as ast.walk() gives them."""
        return self._by_end.get((line, column), [])

    def function_at(self, line: int, name: str) -> ast.AST | None:
        """The function of this name whose code begins at a line; name "<lambda>" for a lambda."""
        return self._functions.get((name, line))

    def class_named(self, names: Iterable[str]) -> ast.ClassDef | None:
        """A class by its own name and those of what it is in, outermost first."""
        around: list[ast.AST] = [self._tree]
        for name in names:
            around = [n for outer in around for n in self.find(outer, ("definition", name)) if n is not outer]
        return next((node for node in around if isinstance(node, ast.ClassDef)), None)

    def statements_at(self, line: int) -> list[ast.stmt]:
        """The statements whose text covers a line, outermost first."""
        if self._covering is None:
            self._covering = []
            for node in self._start:  # in the order of the text
                if isinstance(node, ast.stmt):
                    last = last_line(node)
                    self._covering += [[] for _ in range(last + 1 - len(self._covering))]
                    for each in range(first_line(node), last + 1):
                        self._covering[each].append(node)
        found = self._covering[line] if 0 < line < len(self._covering) else []
        return sorted(found, key=lambda s: (s.lineno, s.col_offset, -last_line(s)))

    def block(self, statement: ast.stmt) -> list[ast.stmt]:
        """The block that a statement stands in."""
        parent = self.parents.get(statement, self._tree)
        return next((block for block in blocks(parent) if statement in block), [])

    def statements_around(
        self, first: int, last: int, longest: int, begins_line: Callable[[ast.stmt], bool]
    ) -> tuple[int, int, bool]:
        """The lines of the whole statements that some lines belong to: (first, last, whether they are indented). Where
        that is one long statement with blocks inside, those of the block that holds the lines."""
        block, indented = self._tree.body, False
        while True:
            near = _touching(block, first, last)
            start = min(first, first_line(near[0])) if near else first
            end = max(last, last_line(near[-1])) if near else last
            if len(near) != 1 or end - start < longest:
                return start, end, indented
            inner = [b for b in blocks(near[0]) if first_line(b[0]) <= first and last <= last_line(b[-1])]
            if not inner or not begins_line(inner[0][0]):
                return start, end, indented
            block, indented = inner[0], True


def first_line(statement: ast.stmt) -> int:
    """The line that a statement begins at, with its decorators."""
    decorators = statement.decorator_list if isinstance(statement, _Definition) else []
    return min([statement.lineno, *(decorator.lineno for decorator in decorators)])


def _touching(block: list[ast.stmt], first: int, last: int) -> list[ast.stmt]:
    """The statements of a block that share a line with these, and with each other."""
    low = bisect.bisect_left(block, first, key=last_line)
    high = bisect.bisect_right(block, last, key=first_line)
    if low > 0 and (low >= high or first_line(block[low]) > first):
        low -= 1  # between two statements: a line there may still belong to the one before
    while low > 0 and last_line(block[low - 1]) >= first_line(block[low]):
        low -= 1
    while high < len(block) and first_line(block[high]) <= last_line(block[high - 1]):
        high += 1
    return block[low:high]


def blocks(node: ast.AST) -> Iterator[list[ast.stmt]]:
    """The blocks of statements directly inside a node."""
    for _, value in ast.iter_fields(node):
        if isinstance(value, list) and value:
            if isinstance(value[0], ast.stmt):
                yield value
            elif isinstance(value[0], (ast.ExceptHandler, ast.match_case)):
                yield from (each.body for each in value)


def text_of(node: ast.AST) -> str:
    """ast.unparse(), at once for what most targets are: names and attributes of names."""
    parts: list[str] = []
    inner = node
    while isinstance(inner, ast.Attribute):
        parts.append(inner.attr)
        inner = inner.value
    return ".".join([inner.id, *reversed(parts)]) if isinstance(inner, ast.Name) else ast.unparse(node)


def _keys(node: ast.AST) -> Iterator[Key]:
    """What a node is looked up by."""
    if isinstance(node, ast.Name):
        yield "store" if isinstance(node.ctx, ast.Store) else "load", node.id
    elif isinstance(node, ast.Attribute):
        yield "attribute", node.attr
        if isinstance(node.ctx, ast.Store):
            yield "stored attribute", node.attr
    elif isinstance(node, ast.Call):
        yield "call", node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    elif isinstance(node, _Definition):
        yield "definition", node.name
    elif isinstance(node, ast.Assign):
        for target in node.targets:
            yield "assign", text_of(target)
            if isinstance(target, ast.Subscript):
                yield "assign to item of", text_of(target.value)
        if len(node.targets) == 1 and isinstance(node.targets[0], (ast.Tuple, ast.List)):
            for element in node.targets[0].elts:
                yield "assign", text_of(element)
    elif isinstance(node, ast.AnnAssign):
        yield "assign", text_of(node.target)
    elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        if isinstance(node.value.func, ast.Attribute) and node.value.func.attr in ("to", "cuda"):
            yield "dropped move", text_of(node.value.func.value)
    elif isinstance(node, (ast.Import, ast.ImportFrom)):
        yield "import", ""
        for alias in node.names:
            yield "import", (alias.asname or alias.name).partition(".")[0]
