"""Follows a value through a program's text, from where it is used back to where it was made: assignments, loops,
arguments of the calls that are running, functions that returned it, attributes.

Reads trees and live frames; runs nothing. A trail is what the text says, not what happened: it is for choosing among
lines, and never proves that a tensor is wrong.
"""

from __future__ import annotations

import ast
import functools
import types
from collections.abc import Collection
from dataclasses import replace

import torch

from locus.program import batches, bindings, contexts, expressions, histories, links, makers, places, source, values
from locus.program.following import followed, read_in
from locus.program.links import Context, Link, Part

_MAX_LINKS = 40
_MAX_DEPTH = 24
_TENSOR_ATTRIBUTES = {"T", "mT", "H", "mH", "data", "real", "imag", "grad"}
_ITERATING = {
    "enumerate", "zip", "iter", "next", "reversed", "tqdm", "list", "tuple", "islice", "cycle", "chain", "sorted",
}  # fmt: skip
_VIEWS_OF_DICTS = {"items", "values", "get", "pop", "copy"}


def follow(
    users: list[types.FrameType], device: str, node: ast.expr, frame: types.FrameType,
    lines: Collection[tuple[str, int]] = (),
) -> Trail:  # fmt: skip
    """The way of an expression in a live frame."""
    way = Trail(users, device, lines)
    way.follow(node, frame)
    return way


class Trail:
    """The way of one operand, nearest link first."""

    def __init__(self, users: list[types.FrameType], device: str, lines: Collection[tuple[str, int]] = ()):
        self.users, self.device = users, device
        self.lines = lines
        """The lines of the value's history: of several bindings that reach a place, one of these is what happened."""
        self.links: list[Link] = []
        self.held: list[tuple[torch.Tensor, ast.expr, int]] = []
        """Tensors on the operand's device that objects hold and the value was computed from; how many links before."""
        self.leaders: list[tuple[torch.Tensor, ast.expr, Context]] = []
        """Tensors whose `.device` said where the value goes."""
        self.owners: list[tuple[object, str]] = []
        """Objects and the attributes of theirs that the value was taken from."""
        self._seen: set[tuple[int, int]] = set()
        self._keys: dict[ast.AST, str | None] = {}

    def follow(self, node: ast.expr, frame: types.FrameType) -> None:
        """Collects the links behind an expression in a live frame."""
        context = contexts.of_frame(self.users, frame)
        if context is None:
            return
        if context.file.parent(node) is None:  # a name that was found, not an expression of the file: it is read here
            for part in ast.walk(node):
                if isinstance(part, ast.expr):
                    part.lineno = part.end_lineno = context.line
        self._resolve(node, context, 0)

    def follow_in(self, node: ast.expr, context: Context) -> None:
        """Collects the links behind an expression that another trail came to."""
        self._resolve(node, context, 0)

    def until_moved(self) -> list[Link]:
        """The links up to one that moves the value itself: what lies behind it is another tensor."""
        number = next((n for n, link in enumerate(self.links) if link.moved), len(self.links))
        return self.links[:number]

    def decided_by(self, tensor: object) -> bool:
        """Whether another tensor, held by an object or asked for its device, decided where the value is."""
        return any(tensor is each for each, *_ in [*self.leaders, *self.held])

    # -- expressions

    def _resolve(self, node: ast.expr | None, context: Context, depth: int, part: Part = None) -> None:
        """`part`: which element of the value flows on, where it is a tuple that is unpacked; or which field, where it
        is an object that was made by a call of its class."""
        key = (id(node), id(context.scope))
        if node is None or depth > _MAX_DEPTH or len(self.links) >= _MAX_LINKS or key in self._seen:
            return
        self._seen.add(key)
        if isinstance(node, ast.Name):
            self._resolve_name(node, context, depth + 1, part)
        elif isinstance(node, ast.Attribute):
            self._resolve_attribute(node, context, depth + 1, part)
        elif isinstance(node, ast.Subscript):
            self._resolve(node.value, context, depth + 1, self._element(node, context))
        elif isinstance(node, (ast.Starred, ast.Await, ast.NamedExpr, ast.UnaryOp)):
            inner = node.operand if isinstance(node, ast.UnaryOp) else node.value
            self._resolve(inner, context, depth + 1)
        elif isinstance(node, ast.Call):
            self._resolve_call(node, context, depth + 1, part)
        elif isinstance(node, (ast.BinOp, ast.Compare)):
            parts = [node.left, node.right] if isinstance(node, ast.BinOp) else [node.left, *node.comparators]
            for side in self._likely(parts, context):
                self._resolve(side, context, depth + 1)
        elif isinstance(node, ast.IfExp):
            for branch in contexts.taken(self.users, node, context):
                self._resolve(branch, context, depth + 1)
        elif isinstance(node, (ast.ListComp, ast.SetComp, ast.GeneratorExp)):
            self._resolve(node.elt, context, depth + 1)
        elif isinstance(node, ast.DictComp):
            self._keys[node] = part if isinstance(part, str) else None
            self._resolve(node.value, context, depth + 1)
        elif isinstance(node, (ast.Tuple, ast.List, ast.Dict)) and links.pick(node, part)[0] is not node:
            self._resolve(links.pick(node, part)[0], context, depth + 1)
        elif isinstance(node, (ast.Tuple, ast.List, ast.Set)):
            for element in self._likely(node.elts, context):
                self._resolve(element, context, depth + 1)
        elif isinstance(node, ast.Dict) and not links.lacks(node, part):
            for element in self._likely(node.values, context):
                self._resolve(element, context, depth + 1)

    def _element(self, node: ast.Subscript, context: Context) -> Part:
        """Which element a subscript takes out of a tuple or a dict, where it says so; not of a tensor."""
        key = node.slice.value if isinstance(node.slice, ast.Constant) else None
        if isinstance(key, (int, str)) and not values.is_tensor(self.value(node.value, context)):
            return key if isinstance(key, str) or (type(key) is int and key >= 0) else None
        return None

    def _likely(self, parts: list[ast.expr], context: Context) -> list[ast.expr]:
        """The parts that could be tensors on the device: those that are, or else those of which nothing is known."""
        known = [(part, self.value(part, context)) for part in parts]
        here = [part for part, value in known if values.is_tensor(value) and str(value.device) == self.device]
        if self.device == "cpu":  # a number may be with tensors of any device
            sized = [part for part, value in known if part in here and values.is_tensor(value) and value.dim() > 0]
            here = sized or here
        unknown = [part for part, value in known if value is values.MISSING or isinstance(value, (list, tuple, dict))]
        return (here or [part for part in unknown if not isinstance(part, ast.Constant)])[:3]

    def value(self, node: ast.expr, context: Context) -> object:
        """What a simple expression is, where a frame or `self` says it."""
        return contexts.value(self.users, node, context)

    def _resolve_name(self, node: ast.Name, context: Context, depth: int, field: Part = None) -> None:
        for inner in context.file.ancestors(node):
            if inner is context.scope or isinstance(inner, source.Function):
                break
            for generator in getattr(inner, "generators", ()):
                if node.id in batches.targets(generator.target):
                    statement = context.file.statement(node)
                    if statement is not None:
                        self._add(Link(context, statement, generator.iter, "loop", generator.target))
                    self._resolve(generator.iter, context, depth, self._keys.get(inner))
                    return
        found = links.sources(context, node)
        for bound in self._that_happened(found.bound, context):
            self._follow_binding(node, bound, context, depth, field)
        if found.is_parameter and node.id in bindings.parameters(context.scope):
            self._resolve_parameter(node.id, context, depth, field)
        elif not found.bound:
            outer = contexts.around(self.users, context)
            if outer is not None:
                self._resolve(ast.copy_location(ast.Name(node.id, ast.Load()), node), outer, depth)

    def _that_happened(self, bound: list[links.Bound], context: Context) -> list[links.Bound]:
        """Of several statements that may have bound a name, those that the value's history knows, if it knows any; else
        those that do not put it elsewhere than it is."""
        known = [each for each in bound if self._has_run(context.file, each.statement)]
        return known or [each for each in bound if not self._is_elsewhere(each.value, context)] or bound

    def _has_run(self, file: source.Source, statement: ast.stmt) -> bool:
        """Whether the value's history knows a line of a statement."""
        first, last = statement.lineno, statement.end_lineno or 0
        return any(first <= line <= last for path, line in self.lines if path == file.file)

    def _is_elsewhere(self, value: ast.expr, context: Context) -> bool:
        """Whether an expression says another device than the operand's: `torch.zeros(3, device=device)`."""
        given = [k.value for k in value.keywords if k.arg == "device"] if isinstance(value, ast.Call) else []
        said = self.value(given[0], context) if given else values.MISSING
        return isinstance(said, (torch.device, str)) and torch.device(said).type != torch.device(self.device).type

    def _follow_binding(self, node: ast.Name, bound: links.Bound, context: Context, depth: int, field: Part) -> None:
        statement, value, target, how = bound
        earlier = replace(context, line=statement.lineno)
        method = contexts.own_method(self.users, node, value, context)
        moved = how != "loop" and method is None and bindings.is_move(value)
        part: Part = bindings.place_in(target, node.id)
        part = field if part is None and (how == "assign" or isinstance(field, str)) else part
        if how == "assign":
            value, part = links.pick(value, part)
        self._add(Link(context, statement, value, how, target, moved, name=node.id))
        if how == "assign" and (bindings.is_empty(value) or isinstance(part, str)):
            self._resolve_puts(context.file, context.scope, node.id, context, depth, part)
        if isinstance(statement, ast.AugAssign):
            self._resolve(ast.copy_location(ast.Name(node.id, ast.Load()), statement), earlier, depth)
        elif method is None or not self._enter(method[0], method[1], earlier, method[2], depth, part):
            self._resolve(value, earlier, depth, part)

    def _resolve_puts(
        self, file: source.Source, scope: ast.AST, text: str, context: Context, depth: int, part: Part
    ) -> None:
        """What a function puts into a list, a dict of lists or a queue."""
        for statement, key, value in bindings.puts(scope, text):
            if isinstance(part, str) and isinstance(key, str) and key != part:
                continue
            at = Context(file, scope, context.frame, statement.lineno, context.call, context.caller, context.me)
            value, inner = links.pick(value, part if key is None else None)
            self._add(Link(at, statement, value, "put"))
            self._resolve(value, at, depth, inner)

    def _resolve_parameter(self, name: str, context: Context, depth: int, part: Part) -> None:
        if context.call is not None and context.caller is not None:
            argument = bindings.argument_of(context.call, context.file, context.scope, name)
            if argument is not None:
                part = bindings.part_of_argument(context.call, context.file, context.scope, name, part)
                self._resolve(argument, context.caller, depth, part)
            return
        if context.frame is None:
            for outer, statement, given in contexts.given_to_method(self.users, context, name):
                self._add(Link(outer, statement, given, "argument", moved=bindings.is_move(given)))
                self._resolve(given, outer, depth)
            return
        place = next((n for n, frame in enumerate(self.users) if frame is context.frame), None)
        if place is None or place + 1 >= len(self.users):
            return
        caller = self.users[place + 1]
        use = expressions.Use(caller, None)
        outside = contexts.of_frame(self.users, caller)
        if outside is None or use.file is None or not isinstance(use.node, ast.Call) or use.statement is None:
            return
        argument = bindings.argument_of(use.node, context.file, context.scope, name)
        if argument is None:
            return
        is_method = isinstance(context.file.parent(context.scope), ast.ClassDef)
        if not is_method or name != bindings.self_name(context.scope):  # the object whose method it is was not passed
            self._add(Link(outside, use.statement, argument, "argument", moved=bindings.is_move(argument)))
        part = bindings.part_of_argument(use.node, context.file, context.scope, name, part)
        self._resolve(argument, outside, depth, part)

    def _resolve_attribute(self, node: ast.Attribute, context: Context, depth: int, part: Part = None) -> None:
        owner = self.value(node.value, context)
        if values.is_tensor(owner) or (owner is values.MISSING and node.attr in _TENSOR_ATTRIBUTES):
            self._resolve(node.value, context, depth)
            return
        if owner is values.MISSING:
            self._resolve(node.value, context, depth)
            return
        held = values.get_attribute(owner, node.attr)
        if values.is_tensor(held) and str(held.device) == self.device:
            self.held.append((held, node, len(self.links)))
            self.owners.append((owner, node.attr))
        made = getattr(type(owner), node.attr, None)
        if isinstance(made, (property, functools.cached_property)):
            getter = made.fget if isinstance(made, property) else made.func
            self._enter(getter, None, context, owner, depth)
            return
        before = len(self.links)
        methods = [
            (file, method) for file, tree in bindings.class_trees(owner) for method in tree.body
            if isinstance(method, (ast.FunctionDef, ast.AsyncFunctionDef))
        ]  # fmt: skip
        stores = [(file, stored[0]) for file, method in methods for stored in contexts.stores_of(method, node.attr)]
        known = [statement for file, statement in stores if self._has_run(file, statement)]  # what happened
        if not self.lines:  # memory of others, which PyTorch has not allocated
            known = [statement for _, statement in stores if makers.takes_memory(statement)]
        for file, method in methods:
            self._resolve_stores(file, method, node.attr, owner, depth, part, known)
        for outer, statement, target, value in contexts.stores_outside(self.users, owner, node.attr):
            self._add(Link(outer, statement, value, "attribute", target, bindings.is_move(value)))
            self._resolve(value, outer, depth, part)
        if values.is_module(owner):
            return
        movers = [name for name in ("to", "cuda") if bindings.method_of(type(owner), name) is not None]
        moves_itself = bool(movers) and getattr(context.scope, "name", "") not in movers
        if len(self.links) == before or moves_itself:
            # A dataclass or named tuple, or an object that can be moved: whoever made it.
            stored = len(self.links)
            self._resolve(node.value, context, depth, node.attr)
            bound = next((n for n in range(stored, len(self.links)) if self.links[n].how == "assign"), None)
            if moves_itself and bound is not None and not bindings.calls_mover(self.links[bound].node):
                self.links[bound] = self.links[bound]._replace(lost=True)

    def _resolve_stores(
        self, file: source.Source, method: ast.AST, attribute: str, owner: object, depth: int, part: Part,
        known: list[ast.stmt],
    ) -> None:  # fmt: skip
        me = bindings.self_name(method)
        self._resolve_puts(file, method, f"{me}.{attribute}", Context(file, method, None, 1, me=owner), depth, part)
        for statement, target, value in contexts.stores_of(method, attribute):
            if bindings.is_move(value) or (known and statement not in known):
                continue  # moves it, if it is called
            context = Context(file, method, None, statement.lineno, me=owner)
            value, inner = links.pick(value, part)
            self._add(Link(context, statement, value, "attribute", target))
            self._resolve(value, context, depth, inner)

    # -- calls

    def _resolve_call(self, node: ast.Call, context: Context, depth: int, part: Part = None) -> None:
        name = histories.called_name(node)
        self._note_leader(node, context)
        called = self.value(node.func, context)
        if called is values.MISSING and isinstance(node.func, ast.Attribute):
            owner = self.value(node.func.value, context)
            is_object = owner is not values.MISSING and not values.is_tensor(owner)
            if is_object and not histories.is_namespace(node.func.value):
                method = bindings.method_of(type(owner), node.func.attr)
                if method is not None and self._enter(method, node, context, owner, depth, part):
                    return
        given = bindings.field_argument(node, called, part) if isinstance(part, str) else None
        if given is not None:
            statement = context.file.statement(node)
            if statement is not None:
                self._add(Link(context, statement, given, "argument", moved=bindings.is_move(given)))
            self._resolve(given, context, depth)
            return
        if values.is_module(called):
            forward = bindings.method_of(type(called), "forward")
            if forward is not None and self._enter(forward, node, context, called, depth, part):
                return
        elif called is not values.MISSING:
            plain = isinstance(called, (type, types.FunctionType))
            own = None if plain else bindings.method_of(type(called), "__call__")
            if self._enter(own or called, node, context, called if own else values.MISSING, depth, part):
                return
        if isinstance(node.func, ast.Attribute) and not histories.is_namespace(node.func.value):
            self._resolve(node.func.value, context, depth, part if name in _VIEWS_OF_DICTS else None)
            is_object = isinstance(node.func.value, (ast.Name, ast.Attribute)) and name not in _VIEWS_OF_DICTS
            if is_object and not values.is_tensor(self.value(node.func.value, context)):
                for argument in self._likely(node.args, context):
                    self._resolve(argument, context, depth)
            return
        led = followed(node) if context.frame is None else []
        if led and self.value(led[0], context) is values.MISSING:
            statement = context.file.statement(node)
            if statement is not None and name in makers.FACTORIES and not name.endswith("_like"):
                self._add(Link(context, statement, node, "made"))
            self._resolve(led[0], context, depth)  # in a function that has ended: where that is made
        elif makers.makes_tensor(node):
            statement = context.file.statement(node)
            if statement is not None:
                self._add(Link(context, statement, node, "made"))
            return
        if name == "zip" and isinstance(part, int) and part < len(node.args):
            self._resolve(node.args[part], context, depth)
            return
        for argument in self._likely(list(node.args), context)[: 3 if name in _ITERATING or name[:1].isupper() else 1]:
            self._resolve(argument, context, depth)

    def _note_leader(self, node: ast.Call, context: Context) -> None:
        """`.to(other.device)`, `device=other.device`, `zeros_like(other)`: the value goes where another tensor is."""
        for expression in followed(node):
            for part in read_in(expression):
                leader = self.value(part, context)
                if values.is_tensor(leader) and str(leader.device) == self.device:
                    self.leaders.append((leader, part, context))
                    break

    def _enter(
        self, function: object, call: ast.Call | None, context: Context, me: object, depth: int,
        part: Part = None,
    ) -> bool:  # fmt: skip
        """Goes on at what a function of the program returns."""
        if isinstance(function, types.MethodType):
            me, function = function.__self__, function.__func__
        function = getattr(function, "__wrapped__", function)  # lru_cache, functools.wraps
        if not isinstance(function, types.FunctionType) or not places.is_user_file(function.__code__.co_filename):
            return False
        code = function.__code__
        file = source.load(code.co_filename)
        scope = file.function_at(code.co_firstlineno, code.co_name) if file else None
        if file is None or scope is None or sum(scope is each for each in links.scopes(context)) > 1:
            return False
        inside = Context(file, scope, None, links.END, call, context, me)
        if isinstance(scope, ast.Lambda):
            self._resolve(scope.body, inside, depth)
            return True
        found = False
        for statement in batches.statements(scope):
            given = statement.value if isinstance(statement, (ast.Return, ast.Expr)) else None
            if isinstance(statement, ast.Expr):
                given = given.value if isinstance(given, (ast.Yield, ast.YieldFrom)) else None
            if given is None:
                continue
            found = True
            at = Context(file, scope, None, statement.lineno, call, context, me)
            if bindings.is_move(given) and contexts.goes_elsewhere(self.users, given, at, self.device):
                continue  # `return obj.to(device)`: what is here came out by another one
            given, inner = links.pick(given, part)
            self._add(Link(at, statement, given, "return", moved=bindings.is_move(given)))
            self._resolve(given, at, depth, inner)
        return found

    # -- frames and files

    def _add(self, link: Link) -> None:
        if len(self.links) < _MAX_LINKS:
            self.links.append(link)
