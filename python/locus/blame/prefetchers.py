"""Parts of a batch that a prefetcher, a generator or a thread took from its loader and handed on as they came, while it
moved the rest. No running function shows it: the loop that uses such a part is another one's.

Reads histories and trees; runs nothing.
"""

from __future__ import annotations

import ast
import types

from locus.blame.candidates import Cause, location_of
from locus.fixing import rewriting
from locus.program import batches, bindings, histories, source
from locus.program.text_index import last_line


def of_received(name: str, steps: list[histories.Step], users: list[types.FrameType]) -> Cause | None:
    """The line to edit in the function that received a batch and left out the part that is called `name` now."""
    step = next((step for step in steps if step.facts["action"] == "received"), None)
    if step is None or step.file is None or step.node is None or any(s.facts["action"] == "moved" for s in steps):
        return None
    file, statement = step.file, step.file.statement(step.node)
    scope = next((a for a in file.ancestors(step.node) if isinstance(a, source.Function)), None)
    target = next((target for target, _ in bindings.pairs(statement)), None) if statement is not None else None
    if scope is None or not isinstance(target, (ast.Tuple, ast.List)) or _is_running(file, scope, users):
        return None
    moves = {ast.unparse(node.func.value): node for node in ast.walk(scope) if bindings.is_move(node)}
    parts = [ast.unparse(part) for part in target.elts]
    left = [text for text in parts if text not in moves]
    if len(left) > 1:
        left = [text for text in left if text.rpartition(".")[2] == name.rpartition(".")[2]]
    moved = [moves[text] for text in parts if text in moves]
    if not moved or len(left) != 1:
        return None
    bound = _bound_again(file, scope, left[0], moved) or _handed_on(file, left[0], moved)
    return bound or _beside(file, left[0], moved)


def _is_running(file: source.Source, scope: ast.AST, users: list[types.FrameType]) -> bool:
    codes = [frame.f_code for frame in users if frame.f_code.co_filename == file.file]
    return any(file.function_at(code.co_firstlineno, code.co_name) is scope for code in codes)


def _bound_again(file: source.Source, scope: ast.AST, name: str, moved: list[bindings.Move]) -> Cause | None:
    """`y = y`, `y = y.long()`: a statement of its own that could have moved it."""
    for statement in batches.statements(scope):
        for target, value in () if isinstance(statement, (ast.For, ast.AsyncFor)) else bindings.pairs(statement):
            if ast.unparse(target) == name and batches.root(value) is not None and name in ast.unparse(value):
                edit = rewriting.append_call(file, value, rewriting.same_move(file, moved[-1]))
                return Cause(location_of(file, value), edit)
    return None


def _handed_on(file: source.Source, name: str, moved: list[bindings.Move]) -> Cause | None:
    """`yield x.to(device), y`: the part as it stands beside one that is moved there."""
    for move in moved:
        together = file.parent(move)
        if isinstance(together, (ast.Tuple, ast.List, ast.Dict, ast.Call)):
            beside = [node for node in ast.iter_child_nodes(together) if ast.unparse(node) == name]
            if len(beside) == 1:
                edit = rewriting.append_call(file, beside[0], rewriting.same_move(file, move))
                return Cause(location_of(file, beside[0]), edit)
    return None


def _beside(file: source.Source, name: str, moved: list[bindings.Move]) -> Cause | None:
    """A line of its own after `x = x.to(device)`."""
    for move in reversed(moved):
        statement = file.statement(move)
        if rewriting.moves_itself(statement) and rewriting.has_lines(file, statement):
            line = f"{rewriting.indent_of(file, statement)}{name} = {name}{rewriting.same_move(file, move)}"
            return Cause(location_of(file, statement), file.insertion(last_line(statement), line))
    return Cause(location_of(file, file.statement(moved[-1]) or moved[-1]), None)
