"""Objects of the program's own that move what they hold: a batch, a graph, a state with a method `to(device)`.

What such a method forgets stays behind while everything around it goes; the line to edit is in the method. Reads trees
and live objects; runs nothing.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from locus.blame.candidates import Cause, location_of
from locus.fixing import rewriting
from locus.program import batches, bindings, histories, source, text_index, trails, values

if TYPE_CHECKING:
    from locus.program.shapes import Edit


_METHODS = ("to", "cuda", "to_device", "move_to", "move")


def of_dropped(trail: trails.Trail) -> tuple[str, Edit] | None:
    """`self.x.to(device)` by itself in such a method, `v.to(device)` in a loop over what a dict holds: what is left
    where it was ("" where its own name says it best), and the edit that keeps it. Only where the line has copied."""
    attributes = [(link.context.me, link.target) for link in trail.links if link.how == "attribute"]
    stored = [(me, target.attr) for me, target in attributes if isinstance(target, ast.Attribute)]
    for owner, attribute in [*trail.owners, *stored]:
        for file, tree in () if values.is_module(owner) else bindings.class_trees(owner):
            for method in tree.body:
                if isinstance(method, ast.FunctionDef) and method.name in _METHODS:
                    found = _dropped_in(file, method, attribute)
                    if found is not None:
                        return found
    for file, scope in dict.fromkeys((link.context.file, link.context.scope) for link in trail.links):
        found = _dropped_in(file, scope, None)
        if found is not None:
            return found
    return None


def _dropped_in(file: source.Source, scope: ast.AST, attribute: str | None) -> tuple[str, Edit] | None:
    me = bindings.self_name(scope)
    for statement, moved in text_index.once(scope, _dropped):
        if not histories.has_copied(file.file, statement.lineno):
            continue
        name, changes = "", None
        if attribute is not None and ast.unparse(moved) == f"{me}.{attribute}":
            name = f"{me}.{attribute}"
            changes = [source.Change.before(statement, f"{name} = ")]
        elif isinstance(moved, ast.Name):
            changes = _kept_in_container(file, statement, moved.id, me, attribute)
        edit = file.edit(changes) if changes else None
        if edit is not None:
            return name, edit
    return None


def _dropped(scope: ast.AST) -> list[tuple[ast.Expr, ast.expr]]:
    """The statements `x.to(device)` of a function, whose result nobody keeps, and x."""
    every = [statement for statement in batches.statements(scope) if isinstance(statement, ast.Expr)]
    return [(statement, statement.value.func.value) for statement in every if bindings.is_move(statement.value)]


def _kept_in_container(
    file: source.Source, statement: ast.stmt, name: str, me: str, attribute: str | None
) -> list[source.Change] | None:
    """`for k, v in batch.items(): v.to(device)` -> `batch[k] = v.to(device)`; setattr() for an object's own."""
    loop = next((a for a in file.ancestors(statement) if isinstance(a, (ast.For, *source.Function))), None)
    method = loop.iter.func if isinstance(loop, ast.For) and isinstance(loop.iter, ast.Call) else None
    if not isinstance(loop, ast.For) or not isinstance(method, ast.Attribute) or method.attr != "items":
        return None
    target = loop.target
    if not isinstance(target, ast.Tuple) or len(target.elts) != 2 or ast.unparse(target.elts[1]) != name:
        return None
    key, held = ast.unparse(target.elts[0]), file.flat(method.value)
    if held in (f"vars({me})", f"{me}.__dict__"):
        return [source.Change.before(statement, f"setattr({me}, {key}, "), source.Change.after(statement, ")")]
    plain = isinstance(method.value, (ast.Name, ast.Attribute, ast.Subscript))
    plain = plain and (attribute is None or held == f"{me}.{attribute}")
    return [source.Change.before(statement, f"{held}[{key}] = ")] if plain else None


def of_forgotten(owner: object, attribute: str, device: str) -> Cause | None:
    """The method that moved an object's other tensors to `device` and left this one where it was."""
    if values.is_module(owner) or values.is_tensor(owner):
        return None
    for file, tree in bindings.class_trees(owner):
        for method in tree.body:
            if isinstance(method, ast.FunctionDef) and method.name in _METHODS:
                given = _given_unmoved(file, method, attribute)
                if given is not None:
                    return given
                found = _last_move(method, owner, attribute, device)
                if found is not None:
                    statement, other = found
                    return Cause(location_of(file, statement), _same_for(file, statement, other, attribute))
    return None


def _given_unmoved(file: source.Source, method: ast.FunctionDef, attribute: str) -> Cause | None:
    """`Batch(self.x.to(device), self.y)`, `replace(self, x=self.x.to(device))`: a new object, one part as it was."""
    mine = f"{bindings.self_name(method)}.{attribute}"
    for node in ast.walk(method):
        if not isinstance(node, ast.Return) or not isinstance(node.value, ast.Call):
            continue
        call = node.value
        given = [*call.args, *(keyword.value for keyword in call.keywords if keyword.arg is not None)]
        moves = [value for value in given if bindings.is_move(value)]
        move = next((value for value in moves if _is_own(value, method)), None)
        if move is None:
            continue
        suffix = rewriting.same_move(file, move)
        passed = next((value for value in given if ast.unparse(value) == mine), None)
        if passed is not None:
            return Cause(location_of(file, passed), rewriting.append_call(file, passed, suffix))
        replaces = ast.unparse(call.func).rpartition(".")[2] in ("replace", "_replace")
        if replaces and not any(keyword.arg in (None, attribute) for keyword in call.keywords):
            edit = rewriting.add_argument(file, call, f"{attribute}={mine}{suffix}")
            return Cause(location_of(file, call), edit)
    return None


def _is_own(move: bindings.Move, method: ast.FunctionDef) -> bool:
    """Whether what is moved is an attribute of the method's object."""
    held = move.func.value
    return isinstance(held, ast.Attribute) and ast.unparse(held.value) == bindings.self_name(method)


def _last_move(method: ast.FunctionDef, owner: object, attribute: str, device: str) -> tuple[ast.stmt, str] | None:
    """The last statement that moves an attribute which is now on the device; none if this one is dealt with too."""
    me = bindings.self_name(method)
    last = None
    for statement in batches.statements(method):
        for target, value in bindings.pairs(statement):
            if not isinstance(target, ast.Attribute) or ast.unparse(target.value) != me:
                continue
            if target.attr == attribute:
                return None
            held = values.get_attribute(owner, target.attr)
            moves_own = bindings.is_move(value) and ast.unparse(value.func.value) == ast.unparse(target)
            if moves_own and values.is_tensor(held) and str(held.device) == device:
                last = statement, target.attr
    return last


def _same_for(file: source.Source, statement: ast.stmt, other: str, attribute: str) -> Edit | None:
    """The statement again, for the attribute that was forgotten."""
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    if len(targets) != 1 or not isinstance(targets[0], ast.Attribute) or not rewriting.starts_line(file, statement):
        return None
    text = ast.unparse(_Renamed(other, attribute).visit(ast.parse(ast.unparse(statement)).body[0]))
    return file.insertion(text_index.last_line(statement), f"{rewriting.indent_of(file, statement)}{text}")


class _Renamed(ast.NodeTransformer):
    def __init__(self, old: str, new: str):
        self._old, self._new = old, new

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        self.generic_visit(node)
        node.attr = self._new if node.attr == self._old else node.attr
        return node
