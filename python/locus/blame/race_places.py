"""Where an access of a race stands in the program's text, and what can be put before it or behind it."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from locus.fixing import rewriting
from locus.program import histories, places, source

if TYPE_CHECKING:
    from locus.program.shapes import Edit, Location


class Place:
    """A statement of the program, and what can be put before it."""

    def __init__(self, file: source.Source, node: ast.AST | None, statement: ast.stmt, at: Location):
        self.file, self.node, self.statement, self.location = file, node, statement, at

    @classmethod
    def at(cls, location: Location) -> Place | None:
        file = source.load(location["file"]) if location["line"] else None
        if file is None:
            return None
        node = _node(file, location)
        statement = file.statement(node) if node is not None else None
        if statement is None:
            around = file.statements_at(location["line"])
            statement = around[-1] if around else None
        return cls(file, node, statement, location) if statement is not None else None

    def scope(self) -> ast.AST:
        return self.file.scope(self.statement)

    def insert(self, *lines: str) -> tuple[Edit, Location] | None:
        """The text as lines of its own before the statement."""
        if not rewriting.starts_line(self.file, self.statement):
            return None
        indent = rewriting.indent_of(self.file, self.statement)
        edit = self.file.insertion(self.statement.lineno - 1, "\n".join(indent + line for line in lines))
        return (edit, self.location) if edit is not None else None

    def append(self, line: str, at: Location) -> tuple[Edit, Location] | None:
        """The text as a line of its own behind the statement."""
        last = self.statement.end_lineno
        if last is None or not rewriting.starts_line(self.file, self.statement):
            return None
        edit = self.file.insertion(last, rewriting.indent_of(self.file, self.statement) + line)
        return (edit, at) if edit is not None else None

    def stream_block(self) -> tuple[Place, ast.expr] | None:
        """The `with torch.cuda.stream(s):` around the statement, where there is one such block, and its `s`."""
        found: list[tuple[ast.With, ast.expr]] = []
        for outer in self.file.ancestors(self.statement):
            if isinstance(outer, source.Scope):
                break
            if not isinstance(outer, ast.With):
                continue
            for item in outer.items:
                call = item.context_expr
                if not isinstance(call, ast.Call) or histories.called_name(call) != "stream" or len(call.args) != 1:
                    continue
                if isinstance(call.args[0], (ast.Name, ast.Attribute)):
                    found.append((outer, call.args[0]))
        if len(found) != 1:
            return None
        block, stream = found[0]
        at = places.location(self.file.file, block.lineno, block.lineno, -1, -1, self.location["function"])
        return Place(self.file, None, block, at), stream


def _node(file: source.Source, at: Location) -> ast.AST | None:
    """The node at a location, whose columns are characters."""
    line, end = file.line(at["line"]), file.line(at["end_line"])
    if at["column"] < 0:
        return None
    first, last = len(line[: at["column"]].encode()), len(end[: at["end_column"]].encode())
    return file.at(at["line"], at["end_line"], first, last)


def used_by(node: ast.AST | None) -> list[ast.expr]:
    """The names and attributes that a call or an operator is given."""
    given: list[ast.expr] = []
    if isinstance(node, ast.BinOp):
        given = [node.left, node.right]
    elif isinstance(node, ast.Call):
        method = node.func.value if isinstance(node.func, ast.Attribute) else None
        is_name = isinstance(method, ast.Name) and method.id in ("torch", "F")
        given = [*([method] if method is not None and not is_name else []), *node.args]
    return [each for each in given if isinstance(each, (ast.Name, ast.Attribute))]
