"""Which attributes the objects of a class have, as far as the text of the class says it.

Reads trees; knows nothing of frames.
"""

from __future__ import annotations

import ast

from locus.fixing.name_scopes import function_of, start
from locus.program import source


def has(file: source.Source, scope: ast.AST, text: str, node: ast.AST) -> bool:
    """Whether `self.device` is bound in the class, or `args.device` is read elsewhere in the function."""
    attribute = text.rpartition(".")[2]
    if text.startswith("self."):
        first = getattr(scope, "name", "") == "__init__"
        holder = file.scope(scope)
        stored = file.find(holder, ("stored attribute", attribute))
        if not stored and isinstance(holder, ast.ClassDef) and not first:
            inherited = any(_has_stored(file, base, text) for base in _bases(file, holder))
            return inherited or _is_property(holder, attribute)
        # In the method that binds it, what comes before is too early, and so is the binding itself.
        here = file.statement(node)
        early = [
            n
            for n in stored
            if first and (function_of(file, n) is not scope or start(n) >= start(node) or file.statement(n) is here)
        ]
        return any(ast.unparse(n) == text for n in stored if n not in early)
    return any(ast.unparse(n) == text for n in file.find(scope, ("attribute", attribute)))


def _bases(file: source.Source, holder: ast.ClassDef) -> list[ast.ClassDef]:
    """The classes of the same file that a class builds on."""
    classes = {node.name: node for node in file.tree.body if isinstance(node, ast.ClassDef)}
    found: list[ast.ClassDef] = []
    for base in (classes[b.id] for b in holder.bases if isinstance(b, ast.Name) and b.id in classes):
        if base is not holder:
            found += [base, *_bases(file, base)]
    return found


def _has_stored(file: source.Source, holder: ast.ClassDef, text: str) -> bool:
    """Whether the __init__ of a class binds an attribute of the object's."""
    stored = file.find(holder, ("stored attribute", text.rpartition(".")[2]))
    return any(ast.unparse(n) == text and getattr(function_of(file, n), "name", "") == "__init__" for n in stored)


def _is_property(holder: ast.ClassDef, name: str) -> bool:
    """`@property` above `def device(self)`."""
    return any(
        isinstance(each, ast.FunctionDef)
        and each.name == name
        and any(isinstance(mark, ast.Name) and mark.id == "property" for mark in each.decorator_list)
        for each in holder.body
    )
