"""Whether a program changes parameters by hand: `p -= lr * p.grad`, `p.data.add_(p.grad, alpha=-lr)`. Then nobody can
say of a parameter that no optimizer has that it is not trained."""

from __future__ import annotations

import ast
import sys

from locus.program import places, source

_CHANGES = {"add_", "sub_", "addcmul_", "addcdiv_", "copy_", "lerp_", "_foreach_add_", "_foreach_sub_"}


def in_program() -> bool:
    """Looks through all files of the program's own that are loaded."""
    files = {
        file for module in list(sys.modules.values()) if isinstance(file := getattr(module, "__file__", None), str)
    }
    return any(
        loaded.once(_in_file)
        for file in files
        if places.is_user_file(file) and (loaded := source.load(file)) is not None
    )


def _in_file(file: source.Source) -> bool:
    return any(_is_one(node) for node in ast.walk(file.tree))


def _is_one(node: ast.AST) -> bool:
    if isinstance(node, ast.AugAssign):
        takes_away = isinstance(node.op, ast.Sub) or (isinstance(node.op, ast.Add) and _has_minus(node.value))
        return takes_away and _has_gradient(node.value)
    if isinstance(node, ast.Assign):
        value = node.value
        return isinstance(value, ast.BinOp) and isinstance(value.op, ast.Sub) and _has_gradient(value.right)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _CHANGES:
        return any(_has_gradient(each) for each in [*node.args, *(keyword.value for keyword in node.keywords)])
    return False


def _has_gradient(node: ast.AST) -> bool:
    """`p.grad`, or a name that says so: `for p, g in zip(parameters, grads)`."""
    return any(
        (isinstance(each, ast.Attribute) and each.attr == "grad")
        or (isinstance(each, ast.Name) and (each.id == "g" or "grad" in each.id.lower()))
        for each in ast.walk(node)
    )


def _has_minus(node: ast.AST) -> bool:
    return any(isinstance(each, ast.UnaryOp) and isinstance(each.op, ast.USub) for each in ast.walk(node))
