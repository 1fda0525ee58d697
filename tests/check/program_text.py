"""A program's text beside its tree, for edits that keep everything else to the character."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class TextEdit:
    """New text for the bytes from start to end."""

    start: int
    end: int
    text: str


class ProgramText:
    """A program's text and tree, with byte positions, parents, and the statements that bind each name."""

    def __init__(self, source: str, file: str):
        self.file = file
        self.bytes = source.encode()
        self.tree = ast.parse(source, file)
        self.line_starts = [0]
        for line in self.bytes.splitlines(keepends=True):
            self.line_starts.append(self.line_starts[-1] + len(line))
        self.parents: dict[ast.AST, ast.AST] = {}
        for node in ast.walk(self.tree):
            for child in ast.iter_child_nodes(node):
                self.parents[child] = node
        self.bound_at: dict[str, list[int]] = {}
        for node in ast.walk(self.tree):
            if isinstance(node, (ast.Name, ast.Attribute)) and isinstance(node.ctx, ast.Store):
                self.bound_at.setdefault(ast.unparse(node), []).append(node.lineno)

    def start(self, node: ast.expr | ast.keyword | ast.stmt) -> int:
        return self.line_starts[node.lineno - 1] + node.col_offset

    def end(self, node: ast.expr | ast.keyword | ast.stmt) -> int:
        return self.line_starts[node.end_lineno - 1] + node.end_col_offset

    def text(self, node: ast.expr) -> str:
        return self.bytes[self.start(node) : self.end(node)].decode()

    def line_of(self, position: int) -> int:
        low = 0
        for number, start in enumerate(self.line_starts, 1):
            if start > position:
                break
            low = number
        return low

    def statement(self, node: ast.AST) -> ast.stmt:
        while not isinstance(node, ast.stmt):
            node = self.parents[node]
        return node

    def ancestors(self, node: ast.AST) -> Iterator[ast.AST]:
        while node in self.parents:
            node = self.parents[node]
            yield node

    def is_module_class(self, name: str) -> bool:
        """Whether a class is PyTorch's, or looks like a module of the program's own."""
        found = [n for n in ast.walk(self.tree) if isinstance(n, ast.ClassDef) and n.name == name]
        methods = {m.name for cls in found for m in cls.body if isinstance(m, ast.FunctionDef)}
        return not found or "forward" in methods or any("Module" in ast.unparse(b) for cls in found for b in cls.bases)

    def in_format_string(self, node: ast.AST) -> bool:
        """Positions inside f-strings are not to be trusted before Python 3.12."""
        return any(isinstance(a, ast.JoinedStr) for a in self.ancestors(node))

    def statement_lines(self, node: ast.AST) -> list[int]:
        statement = self.statement(node)
        last = statement.end_lineno
        body = getattr(statement, "body", None)
        if body and isinstance(body, list):
            last = max(statement.lineno, body[0].lineno - 1)
        return list(range(statement.lineno, last + 1))

    def applied(self, edit: TextEdit) -> str:
        return (self.bytes[: edit.start] + edit.text.encode() + self.bytes[edit.end :]).decode()

    def lines(self, first: int, last: int) -> str:
        return self.bytes[self.line_starts[first - 1] : self.line_starts[last]].decode().rstrip("\n")
