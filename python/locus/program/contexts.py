"""Contexts of a trail: the functions that are running, and what simple expressions are in them and in those that ended.

Reads trees and live frames; runs nothing.
"""

from __future__ import annotations

import ast
import types
from collections.abc import Iterator
from dataclasses import replace

import torch

from locus.program import batches, bindings, links, places, source, values
from locus.program.links import Context


def of_frame(users: list[types.FrameType], frame: types.FrameType) -> Context | None:
    """Where a frame of the program's is."""
    source.vouch(frame.f_code, frame.f_globals)
    file = source.load(frame.f_code.co_filename)
    scope = file.function_at(frame.f_code.co_firstlineno, frame.f_code.co_name) if file is not None else None
    if scope is None and file is not None and frame.f_code.co_name.startswith("<") and frame.f_back is not None:
        # A comprehension has a frame of its own before Python 3.12: its function's names are what matters.
        place = next((n for n, each in enumerate(users) if each is frame), None)
        outer = users[place + 1] if place is not None and place + 1 < len(users) else None
        around_it = of_frame(users, outer) if outer is not None else None
        return around_it if around_it is not None and around_it.file is file else None
    return None if scope is None or file is None else Context(file, scope, frame, frame.f_lineno or 0)


def around(users: list[types.FrameType], context: Context) -> Context | None:
    """The function around this one, or the module: where a name that is not local comes from."""
    if context.scope is context.file.tree:
        return None
    outer = context.file.ancestors(context.scope)
    scope = next((each for each in outer if isinstance(each, source.Function)), context.file.tree)
    frame = next((each for each in users if _runs(each, context.file, scope)), None)
    return Context(context.file, scope, frame, links.END)


def _runs(frame: types.FrameType, file: source.Source, scope: ast.AST) -> bool:
    code = frame.f_code
    return code.co_filename == file.file and file.function_at(code.co_firstlineno, code.co_name) is scope


def value(users: list[types.FrameType], node: ast.AST, context: Context) -> object:
    """What a simple expression is, where a frame or `self` says it."""
    if context.frame is not None:
        return values.evaluate(node, context.frame)
    if isinstance(node, ast.Name):
        if context.me is not values.MISSING and node.id == bindings.self_name(context.scope):
            return context.me
        in_call = node.id in bindings.parameters(context.scope)
        if in_call and context.call is not None and context.caller is not None:
            given = bindings.argument_of(context.call, context.file, context.scope, node.id)
            return values.MISSING if given is None else value(users, given, context.caller)
        if bindings.binds(context.scope, node.id):
            return values.MISSING
        return values.globals_of(context.file.file, users).get(node.id, values.MISSING)
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Attribute):
        owner = value(users, node.value, context)
        return values.MISSING if owner is values.MISSING else values.get_attribute(owner, node.attr)
    return values.MISSING


def stores_outside(
    users: list[types.FrameType], owner: object, attribute: str
) -> Iterator[tuple[Context, ast.stmt, ast.expr, ast.expr]]:
    """`model.prior = prior` in a function that is running: statements that bind an attribute of an object they have."""
    for frame in users:
        context = of_frame(users, frame)
        for statement in batches.statements(context.scope) if context is not None else ():
            for target, bound in bindings.pairs(statement):
                if isinstance(target, ast.Attribute) and target.attr == attribute and context is not None:
                    is_method = isinstance(context.file.parent(context.scope), ast.ClassDef)
                    own = is_method and ast.unparse(target.value) == bindings.self_name(context.scope)
                    if not own and values.evaluate(target.value, frame) is owner:
                        yield Context(context.file, context.scope, frame, statement.lineno), statement, target, bound


def given_to_method(
    users: list[types.FrameType], context: Context, name: str
) -> Iterator[tuple[Context, ast.stmt, ast.expr]]:
    """`prior` of `model.set_prior(prior)` in a function that runs, for the parameter of a method that has ended; of
    `criterion = Criterion(prior)` for that of an `__init__`."""
    method = getattr(context.scope, "name", "")
    makes = method == "__init__"
    if context.me is values.MISSING or not method or (method.startswith("__") and not makes):
        return
    for outer, call in calls_of(users, type(context.me).__name__ if makes else method):
        is_own = _gives(outer, call, context.me) if makes else _is_called_on(outer, call, context.me)
        given = bindings.argument_of(call, context.file, context.scope, name) if is_own else None
        statement = outer.file.statement(call)
        if given is not None and statement is not None:
            yield replace(outer, line=statement.lineno), statement, given


def calls_of(users: list[types.FrameType], name: str) -> Iterator[tuple[Context, ast.Call]]:
    """The calls of something by this name in the functions that are running, each in the innermost of them."""
    seen: set[ast.Call] = set()
    for frame in users:
        outer = of_frame(users, frame)
        for call in outer.file.calls(outer.scope, name) if outer is not None else ():
            if call not in seen and outer is not None:
                seen.add(call)
                yield outer, call


def _is_called_on(outer: Context, call: ast.Call, me: object) -> bool:
    """`me.set_prior(prior)`."""
    if outer.frame is None or not isinstance(call.func, ast.Attribute):
        return False
    return values.evaluate(call.func.value, outer.frame) is me


def _gives(outer: Context, call: ast.Call, me: object) -> bool:
    """`me = Criterion(prior)`."""
    bound = [target for target, value in bindings.pairs(outer.file.statement(call)) if value is call]
    return outer.frame is not None and any(values.evaluate(target, outer.frame) is me for target in bound)


def taken(users: list[types.FrameType], node: ast.IfExp, context: Context) -> list[ast.expr]:
    """The branch that `a if x is None else b` has taken, where x is known; else both."""
    test = node.test
    if isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], (ast.Is, ast.IsNot)):
        held = value(users, test.left, context)
        is_none = isinstance(test.comparators[0], ast.Constant) and test.comparators[0].value is None
        if is_none and held is not values.MISSING:
            return [node.body if (held is None) == isinstance(test.ops[0], ast.Is) else node.orelse]
    return [node.body, node.orelse]


def stores_of(method: ast.AST, attribute: str) -> Iterator[tuple[ast.stmt, ast.Attribute, ast.expr]]:
    """`self.x = …` in a method: the statements, their targets and what they bind."""
    me = bindings.self_name(method)
    for statement in batches.statements(method):
        for target, bound in bindings.pairs(statement):
            if isinstance(target, ast.Attribute) and target.attr == attribute and ast.unparse(target.value) == me:
                yield statement, target, bound


def goes_elsewhere(users: list[types.FrameType], move: bindings.Move, context: Context, device: str) -> bool:
    """Whether a move is known to go to another kind of device than this one."""
    said = value(users, move.args[0], context) if move.args else values.MISSING
    kind = str(said).partition(":")[0] if isinstance(said, (torch.device, str)) else ""
    return kind in ("cpu", "cuda") and kind != device.partition(":")[0]


def own_method(
    users: list[types.FrameType], node: ast.Name, bound: ast.expr, context: Context
) -> tuple[types.FunctionType, ast.Call, object] | None:
    """`graph = make().to(device)`: the method of the program's own class that gave what the variable holds, its call
    and its object."""
    if not (isinstance(bound, ast.Call) and isinstance(bound.func, ast.Attribute)):
        return None
    held = value(users, node, context)
    if held is values.MISSING or values.is_tensor(held) or values.is_module(held):
        return None
    method = bindings.method_of(type(held), bound.func.attr)
    if method is None or not places.is_user_file(method.__code__.co_filename):
        return None
    return method, bound, held
