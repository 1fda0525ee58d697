"""Objects that keep what they gather on the host: a meter, a table of counts, a replay memory. What comes from a device
is to be brought there, not the object to the device.

Reads trees and live objects; runs nothing.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from locus.blame.candidates import names_devices
from locus.program import bindings, source, values

if TYPE_CHECKING:
    from locus.program import expressions, trails
    from locus.program.shapes import Operand


def gathers(facts: Operand, tensor: object, way: trails.Trail | None, use: expressions.Use | None) -> bool:
    """Whether a tensor that is written to is such an object's own, made where nobody said a device: the class places
    nothing that it keeps, all of it is on the host, and no method computes of it with what it is given. Only where the
    program has a name for the device, which the class is not told: one that says `.cuda()` may say it anywhere."""
    made = [step for step in facts["history"] if step["action"] == "created"]
    if not facts["written"] or facts["device"] != "cpu" or not made or any(step["explicit"] for step in made):
        return False
    for owner, attribute in way.owners if way is not None else ():
        if values.get_attribute(owner, attribute) is not tensor or values.is_module(owner):
            continue
        held = [value for value in values.attributes(owner).values() if values.is_tensor(value)]
        trees = list(bindings.class_trees(owner))
        running = use.statement if use is not None else None
        if any(file.once(names_devices) for file, _ in trees) and not any(value.is_cuda for value in held):
            return not any(_serves_devices(file, tree, attribute, running) for file, tree in trees)
    return False


def _serves_devices(file: source.Source, tree: ast.ClassDef, attribute: str, running: ast.stmt | None) -> bool:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and any(keyword.arg == "device" for keyword in node.keywords):
            return True
        if isinstance(node, ast.Assign):
            for target, value in bindings.pairs(node):
                if isinstance(target, ast.Attribute) and bindings.is_move(value):
                    return True
        is_read = isinstance(node, ast.Attribute) and node.attr == attribute and isinstance(node.ctx, ast.Load)
        if is_read and file.statement(node) is not running and _meets_given(file, node):
            return True
    return False


def _meets_given(file: source.Source, node: ast.AST) -> bool:
    """`x * self.scale`, for a parameter x."""
    scope = next((a for a in file.ancestors(node) if isinstance(a, source.Function)), None)
    given = set(bindings.parameters(scope)[1:]) if scope is not None else set()
    for around in file.ancestors(node):
        if isinstance(around, ast.stmt):
            return isinstance(around, ast.Return) and around.value is node
        if isinstance(around, (ast.BinOp, ast.Compare)):
            if any(isinstance(n, ast.Name) and n.id in given for n in ast.walk(around)):
                return True
    return False
