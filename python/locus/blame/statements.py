"""What one statement says about the value that flows through it: facts that need no more than the text around it."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeGuard

from locus.blame import nested, siblings
from locus.fixing import device_text
from locus.program import batches, bindings, histories, makers, values
from locus.program.links import other_bindings
from locus.vocabulary import Fact

if TYPE_CHECKING:
    from locus.program.links import Link


def said_at(link: Link) -> list[Fact]:
    """What a statement itself says about the value that flows through it."""
    if is_list_of_tensors(link) and link.how == "argument":
        return ["sibling_is_moved"] if siblings.moved_in_statement(link) else []
    if link.how in ("loop", "made") or is_container(link):
        return []
    inside = list(ast.walk(link.node))
    return [fact for fact, holds in _SAID.items() if holds(link, inside)]


def _is_moved_elsewhere(link: Link) -> bool:
    """Whether the function binds the same name twice, once moved and here not."""
    if link.how == "attribute":
        return _is_placed_elsewhere(link)
    if link.how != "assign" or not isinstance(link.node, ast.Call):
        return False
    return any(bindings.is_move(value) and siblings.moves_tensor(value) for _, value in other_bindings(link))


def _is_placed_elsewhere(link: Link) -> bool:
    """`self.mean = state["mean"]`, as it was given, where another method of the class places what it keeps there."""
    given, scope, target = link.node, link.context.scope, link.target
    while isinstance(given, ast.Call) and isinstance(given.func, ast.Attribute) and not given.args:
        given = given.func.value  # `.clone()`
    if not isinstance(target, ast.Attribute) or root_name(given) not in bindings.parameters(scope)[1:]:
        return False
    for file, tree in bindings.class_trees(link.context.me) if link.context.me is not values.MISSING else ():
        for stored in file.find(tree, ("stored attribute", target.attr)):
            statement = file.statement(stored)
            for other, value in bindings.pairs(statement) if statement is not link.statement else ():
                if ast.unparse(other) == ast.unparse(target) and siblings.places_tensor(value):
                    return True
    return False


def is_container(link: Link) -> bool:
    """`losses(boxes.to(device), targets)`: a list or a dict is passed on, which has no .to()."""
    if link.how in ("loop", "made") or link.context.frame is None:
        return False
    return isinstance(values.evaluate(link.node, link.context.frame), (list, tuple, dict))


def is_list_of_tensors(link: Link) -> bool:
    """`decode(h.to(second), skips)`, `losses = parts(out)`: each of what is in the list has a `.to()`."""
    frame, node = link.context.frame, link.node
    if frame is None or isinstance(node, (ast.List, ast.Tuple)):
        return False
    held = values.evaluate(node, frame) if link.how == "argument" else values.MISSING
    named = isinstance(link.target, ast.Name) and link.target.id == link.name
    if link.how == "assign" and isinstance(node, ast.Call) and named and not isinstance(link.statement, ast.For):
        held = values.name_in(frame, link.name)
    if not isinstance(held, (list, tuple)) or type(held) not in (list, tuple):  # not a named tuple
        return False
    return len(held) > 0 and all(map(values.is_tensor, held))


def _is_identity(link: Link) -> bool:
    """`x = x`, `x_gpu = x`: a statement that does nothing, or not what its name says."""
    if link.target is None or not isinstance(link.node, (ast.Name, ast.Attribute, ast.Subscript)):
        return False
    named = ast.unparse(link.target).lower().replace(".", "_").split("_")
    same = ast.unparse(link.target) == ast.unparse(link.node)
    return same or any(word in named for word in ("device", "gpu", "cuda"))


def hands_on(node: ast.AST) -> TypeGuard[ast.GeneratorExp | ast.ListComp | ast.DictComp]:
    """`(t for t in batch)`: a comprehension that changes nothing."""
    if not isinstance(node, (ast.GeneratorExp, ast.ListComp, ast.DictComp)) or len(node.generators) != 1:
        return False
    element = node.value if isinstance(node, ast.DictComp) else node.elt
    if node.generators[0].ifs:
        return False
    return isinstance(element, ast.Name) and element.id in batches.targets(node.generators[0].target)


def _ignores_device(link: Link) -> bool:
    """A function that is told the device and does not use it for this value."""
    scope = link.context.scope
    given = getattr(scope, "args", None)
    if given is None or not isinstance(scope, ast.FunctionDef) or link.how not in ("return", "assign", "attribute"):
        return False
    calls = [node for node in ast.walk(link.node) if isinstance(node, ast.Call)]
    if link.how == "attribute" and not any(map(makers.makes_tensor, calls)):
        return False  # computed of something: that is where it should have been said
    told = {a.arg for a in [*given.posonlyargs, *given.args, *given.kwonlyargs] if a.arg in device_text.NAMES}
    if not told:
        return False
    parameters = {a.arg for a in [*given.posonlyargs, *given.args, *given.kwonlyargs]} - told
    used = [n for n in ast.walk(scope) if isinstance(n, ast.Name) and n.id in told and isinstance(n.ctx, ast.Load)]
    if not used:
        return True
    # In a function that moves things, what goes out as it came in has been forgotten.
    unchanged = isinstance(link.node, ast.Name) and link.node.id in parameters and link.how == "return"
    element = isinstance(link.target, ast.Subscript) and isinstance(link.node, (ast.Name, ast.Subscript))
    passed_on = unchanged or (element and root_name(link.node) in parameters)
    return passed_on and any(bindings.is_move(n) or _passes_on(n, scope.name) for n in ast.walk(scope))


def _passes_on(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Call) and histories.called_name(node) == name


def root_name(node: ast.AST) -> str:
    while isinstance(node, (ast.Attribute, ast.Subscript)):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


_SAID: dict[Fact, Callable[[Link, list[ast.AST]], bool]] = {
    "object_not_moved": lambda link, inside: link.lost,
    "sibling_is_moved": lambda link, inside: siblings.moved_in_statement(link),
    "moved_elsewhere": lambda link, inside: _is_moved_elsewhere(link),
    "name_promises_device": lambda link, inside: _is_identity(link),
    "handed_on": lambda link, inside: any(map(hands_on, inside)),
    "nested_goes_by": lambda link, inside: any(nested.passed_by(node) is not None for node in inside),
    "device_argument_unused": lambda link, inside: _ignores_device(link),
}
