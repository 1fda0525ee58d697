"""An evaluation that keeps what only backward() would need: a function that has put a model into eval() and never asks
for a gradient, with gradients on. The edit is `@torch.no_grad()` above it."""

from __future__ import annotations

import ast
import types
from typing import TYPE_CHECKING, NamedTuple

from locus.program import places, source

if TYPE_CHECKING:
    from locus.program.shapes import Edit, Location

_SWITCHES = {"no_grad", "inference_mode", "set_grad_enabled", "enable_grad"}
_GRADIENTS = {"backward", "grad", "requires_grad_", "vjp", "jacrev"}
_MAKE_NO_FUNCTION = {"staticmethod", "classmethod", "property"}
_MAKE_NUMBERS = {"float", "int", "len", "round", "item", "tolist", "numpy"}


class Evaluation(NamedTuple):
    """A function that evaluates."""

    location: Location
    """Where it puts a model into eval()."""
    model: str
    edit: Edit | None


def find(frames: list[types.FrameType]) -> Evaluation | None:
    """The innermost function among the program's frames that evaluates; None where gradients are switched anywhere.

    There is an edit where nobody outside can ask for a gradient of what the function returns.
    """
    found: Evaluation | None = None
    may_train = returns_numbers = False
    for frame in frames:
        file = source.load(frame.f_code.co_filename)
        if file is None:
            return None
        scope = file.function_at(frame.f_code.co_firstlineno, frame.f_code.co_name) or file.tree
        said = _names(scope)
        if said & _SWITCHES:
            return None
        if found is not None:
            may_train |= bool(said & _GRADIENTS)
        elif said & _GRADIENTS:
            return None
        else:
            found = _evaluation(file, scope, frame)
            returns_numbers = _returns_numbers(scope)
    if found is not None and may_train and not returns_numbers:
        return found._replace(edit=None)
    return found


def _names(scope: ast.AST) -> set[str]:
    """What a function names; of a module, what is said outside its functions."""
    own = [node for each in scope.body for node in _own(each)] if isinstance(scope, ast.Module) else None
    nodes = list(ast.walk(scope)) if own is None else own
    return {node.attr for node in nodes if isinstance(node, ast.Attribute)} | {
        node.id for node in nodes if isinstance(node, ast.Name)
    }


def _own(statement: ast.AST) -> list[ast.AST]:
    if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return []
    return [statement, *(inner for child in ast.iter_child_nodes(statement) for inner in _own(child))]


def _returns_numbers(scope: ast.AST) -> bool:
    return all(
        node.value is None or _is_number(node.value, scope) for node in ast.walk(scope) if isinstance(node, ast.Return)
    )


def _is_number(node: ast.AST, scope: ast.AST, within: frozenset[str] = frozenset()) -> bool:
    """Whether an expression is certainly no tensor, or has none in it."""
    if isinstance(node, ast.Constant):
        return True
    if isinstance(node, ast.Call):
        called = node.func
        name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
        return name in _MAKE_NUMBERS
    if isinstance(node, (ast.BinOp, ast.Tuple, ast.List, ast.Dict, ast.UnaryOp)):
        parts = [each for each in ast.iter_child_nodes(node) if isinstance(each, ast.expr)]
        return all(_is_number(part, scope, within) for part in parts)
    if isinstance(node, ast.Name) and node.id not in within:
        assigned = [
            each.value
            for each in ast.walk(scope)
            if isinstance(each, (ast.Assign, ast.AugAssign))
            for target in (each.targets if isinstance(each, ast.Assign) else [each.target])
            if isinstance(target, ast.Name) and target.id == node.id
        ]
        return bool(assigned) and all(_is_number(value, scope, within | {node.id}) for value in assigned)
    return False


def _evaluation(file: source.Source, scope: ast.AST, frame: types.FrameType) -> Evaluation | None:
    import torch

    for node in ast.walk(scope):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or node.func.attr != "eval":
            continue
        if node.args or node.keywords or file.scope(node) is not scope or node.lineno > frame.f_lineno:
            continue
        model = _value(node.func.value, frame)
        if not isinstance(model, torch.nn.Module) or model.training:
            continue
        place = (node.lineno, node.end_lineno or node.lineno, node.col_offset, node.end_col_offset or 0)
        location = places.location(file.file, *place, getattr(scope, "name", ""))
        return Evaluation(location, file.flat(node.func.value), _decorated(file, scope, frame))
    return None


def _value(node: ast.expr, frame: types.FrameType) -> object:
    """What a name or an attribute of it is now; reads what is stored, and runs nothing of the program."""
    if isinstance(node, ast.Name):
        return frame.f_locals.get(node.id, frame.f_globals.get(node.id))
    if isinstance(node, ast.Attribute):
        owner = _value(node.value, frame)
        stored = getattr(owner, "__dict__", {})
        modules = stored.get("_modules")
        if node.attr in stored:
            return stored[node.attr]
        return modules.get(node.attr) if isinstance(modules, dict) else None
    return None


def _decorated(file: source.Source, scope: ast.AST, frame: types.FrameType) -> Edit | None:
    import torch

    if not isinstance(scope, ast.FunctionDef) or frame.f_globals.get("torch") is not torch:
        return None
    indent = " " * scope.col_offset
    first = min([scope.lineno, *(each.lineno for each in scope.decorator_list)])
    if any(isinstance(each, ast.Name) and each.id in _MAKE_NO_FUNCTION for each in scope.decorator_list):
        first = scope.lineno  # below those, which make something that is no function
    note = "an evaluation needs no gradients, and nothing is kept for them"
    return file.insertion(first - 1, f"{indent}@torch.no_grad()", note)
