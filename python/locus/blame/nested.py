"""Comprehensions that move tensors and hand on everything else: a dict or list inside the batch goes by unmoved.

`{k: v.to(device) if torch.is_tensor(v) else v for k, v in batch.items()}` is right for a flat batch only.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from locus.program import batches, bindings, source

if TYPE_CHECKING:
    from locus.program.shapes import Edit


def passed_by(node: ast.AST) -> ast.Name | None:
    """The name in a comprehension that goes out as it came, beside a branch that moves it."""
    if not isinstance(node, (ast.GeneratorExp, ast.ListComp, ast.DictComp)) or len(node.generators) != 1:
        return None
    element = node.value if isinstance(node, ast.DictComp) else node.elt
    if not isinstance(element, ast.IfExp):
        return None
    for moved, other in ((element.body, element.orelse), (element.orelse, element.body)):
        if isinstance(other, ast.Name) and other.id in batches.targets(node.generators[0].target):
            if bindings.is_move(moved) and ast.unparse(moved.func.value) == other.id:
                return other
    return None


def recursion(file: source.Source, node: ast.AST) -> Edit | None:
    """The function that the comprehension is in, called again for what is inside; None where that can't be written."""
    name = passed_by(node)
    scope = next((a for a in file.ancestors(node) if isinstance(a, source.Function)), None)
    if name is None or not isinstance(node, ast.DictComp) or not isinstance(scope, ast.FunctionDef):
        return None
    items = node.generators[0].iter
    method = items.func if isinstance(items, ast.Call) and isinstance(items.func, ast.Attribute) else None
    held = method.value if method is not None and method.attr == "items" else None
    whole = held.id if isinstance(held, ast.Name) else ""
    given = bindings.parameters(scope)
    element = node.value
    if whole not in given or not isinstance(element, ast.IfExp) or element.orelse is not name:
        return None
    is_method = isinstance(file.parent(scope), ast.ClassDef) and given[0] in ("self", "cls")
    arguments = [name.id if parameter == whole else parameter for parameter in given[1 if is_method else 0 :]]
    called = f"{given[0]}.{scope.name}" if is_method else scope.name
    text = f"{called}({', '.join(arguments)}) if isinstance({name.id}, dict) else "
    return file.edit([source.Change.before(name, text)])


def recursion_for_list(file: source.Source, statement: ast.stmt) -> Edit | None:
    """`return x` -> `return [to_device(v, d) for v in x] if isinstance(x, list) else x`, in a function that calls
    itself for what a dict holds, and gives back as it came what is neither that nor a tensor."""
    scope = next((a for a in file.ancestors(statement) if isinstance(a, source.Function)), None)
    given = statement.value if isinstance(statement, ast.Return) else None
    if not isinstance(scope, ast.FunctionDef) or not isinstance(given, ast.Name):
        return None
    names = bindings.parameters(scope)
    is_method = isinstance(file.parent(scope), ast.ClassDef) and bool(names) and names[0] in ("self", "cls")
    if given.id not in names or scope.body[-1] is not statement:
        return None
    calls = file.calls(scope, scope.name)
    looped = any(isinstance(file.parent(call), (ast.DictComp, ast.ListComp, ast.GeneratorExp)) for call in calls)
    if not looped or "list" in {n.id for n in ast.walk(scope) if isinstance(n, ast.Name)}:
        return None
    arguments = ["v" if name == given.id else name for name in names[1 if is_method else 0 :]]
    called = f"{names[0]}.{scope.name}" if is_method else scope.name
    text = f"[{called}({', '.join(arguments)}) for v in {given.id}] if isinstance({given.id}, list) else "
    return file.edit([source.Change.before(given, text)])
