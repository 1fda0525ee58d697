"""What a tree says about names: which statement binds which, what a call gives for which parameter.

Reads trees; of values it asks for their class only.
"""

from __future__ import annotations

import ast
import sys
import types
from collections.abc import Iterator
from typing import TYPE_CHECKING, TypeGuard

from locus.program import batches, histories, source, text_index

if TYPE_CHECKING:

    class Move(ast.Call):
        """What is_move() says yes to."""

        func: ast.Attribute

    class OwnMove(ast.Assign):
        """`x = x.to(device)`."""

        value: Move


Part = int | str | None
"""Which element of a value is meant: of a tuple, of a dict; None: the value itself."""


def is_move(node: ast.AST | None) -> TypeGuard[Move]:
    """`x.to(device)`, `x.cuda()`."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return False
    is_method = not histories.is_namespace(node.func.value)
    return is_method and node.func.attr in ("to", "cuda") and histories.names_device(node)


def calls_mover(node: ast.AST) -> bool:
    """Whether an expression calls .to() or .cuda() of anything."""
    return any(isinstance(n, ast.Call) and histories.called_name(n) in ("to", "cuda") for n in ast.walk(node))


def place_in(target: ast.AST, name: str) -> int | None:
    """Which element of a tuple goes to a name."""
    if not isinstance(target, (ast.Tuple, ast.List)) or any(isinstance(e, ast.Starred) for e in target.elts):
        return None
    return next((n for n, element in enumerate(target.elts) if name in batches.targets(element)), None)


def method_of(cls: type, name: str) -> types.FunctionType | None:
    """A method that a class has, where it is written in Python."""
    for base in cls.__mro__:
        found = base.__dict__.get(name)
        if found is not None:
            found = getattr(found, "__func__", found)
            return found if isinstance(found, types.FunctionType) else None
    return None


def field_argument(call: ast.Call, cls: object, field: str) -> ast.expr | None:
    """What a call of a dataclass or a named tuple gives for one of its fields."""
    named = next((keyword.value for keyword in call.keywords if keyword.arg == field), None)
    if named is not None or not isinstance(cls, type) or any(isinstance(a, ast.Starred) for a in call.args):
        return named if isinstance(cls, type) else None
    fields: list[str] = list(getattr(cls, "__dataclass_fields__", ())) or list(getattr(cls, "_fields", ()))
    place = fields.index(field) if field in fields else len(call.args)
    return call.args[place] if place < len(call.args) else None


def _is_static(method: ast.AST) -> bool:
    return any(isinstance(d, ast.Name) and d.id == "staticmethod" for d in getattr(method, "decorator_list", ()))


def self_name(scope: ast.AST) -> str:
    """What a method calls its object."""
    given = getattr(scope, "args", None)
    return given.args[0].arg if given is not None and given.args else "self"


def parameters(scope: ast.AST) -> list[str]:
    """The names of all parameters of a function."""
    given = getattr(scope, "args", None)
    if given is None:
        return []
    every = [*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg]
    return [argument.arg for argument in every if argument is not None]


def binds(scope: ast.AST, name: str) -> bool:
    """Whether a function gives a name a value."""
    return name in parameters(scope) or any(
        name in batches.targets(target) for statement in binders(scope, name) for target, _ in pairs(statement)
    )


def binders(scope: ast.AST, name: str) -> list[ast.stmt]:
    """The statements of a function that bind a name, or an element of what it names, in the order of the text."""
    return text_index.once(scope, _binders).get(name, [])


def _binders(scope: ast.AST) -> dict[str, list[ast.stmt]]:
    found: dict[str, list[ast.stmt]] = {}
    for statement in batches.statements(scope):
        names = [name for target, _ in pairs(statement) for name in _bound(target)]
        for name in dict.fromkeys(names):
            found.setdefault(name, []).append(statement)
    return found


def _bound(target: ast.AST) -> list[str]:
    """The names that component() finds in a target."""
    if isinstance(target, ast.Subscript) and isinstance(target.value, ast.Name):
        return [target.value.id]
    return batches.targets(target)


def dropped_moves(scope: ast.AST, name: str) -> list[ast.Expr]:
    """The statements `x.to(device)` of a function, whose result nobody keeps, for the variable x."""
    return text_index.once(scope, _dropped_moves).get(name, [])


def _dropped_moves(scope: ast.AST) -> dict[str, list[ast.Expr]]:
    found: dict[str, list[ast.Expr]] = {}
    for statement in batches.statements(scope):
        if isinstance(statement, ast.Expr) and is_move(statement.value):
            moved = statement.value.func.value
            if isinstance(moved, ast.Name):
                found.setdefault(moved.id, []).append(statement)
    return found


def argument_of(call: ast.Call, file: source.Source, scope: ast.AST, name: str) -> ast.expr | None:
    """The expression that a call gives for a parameter of the function it ends up in."""
    for keyword in call.keywords:
        if keyword.arg == name:
            return keyword.value
    if not isinstance(scope, source.Function):
        return None
    given = scope.args
    places_ = [argument.arg for argument in [*given.posonlyargs, *given.args]]
    starred = [argument for argument in call.args if isinstance(argument, ast.Starred)]
    spread = [keyword.value for keyword in call.keywords if keyword.arg is None]
    if name in places_:
        number = places_.index(name)
        if _is_bound(file, scope):
            number -= 1
            if number < 0:
                return _object_of(call, scope)
        if 0 <= number < len(call.args) and not any(isinstance(a, ast.Starred) for a in call.args[: number + 1]):
            return call.args[number]
    if starred:
        return starred[0].value
    if spread:
        return spread[0]
    if given.vararg is not None and given.vararg.arg == name:
        rest = call.args[_places_before(file, scope) :]
        return ast.copy_location(ast.Tuple(list(rest), ast.Load()), call) if rest else None
    return None


def _object_of(call: ast.Call, scope: ast.AST) -> ast.expr | None:
    """`z` of `z.score(x)`, and of `z(x)`, which calls its `__call__`."""
    method = getattr(scope, "name", "")
    if method == "__call__":
        return call.func
    return call.func.value if isinstance(call.func, ast.Attribute) and call.func.attr == method else None


def part_of_argument(call: ast.Call, file: source.Source, scope: ast.AST, name: str, part: Part) -> Part:
    """Which element of the expression that argument_of() names goes to a parameter, or to an element of it: 1 for
    `mask` where f(x, mask) is called as f(*values)."""
    if not isinstance(scope, source.Function) or any(keyword.arg == name for keyword in call.keywords):
        return part
    star = next((n for n, argument in enumerate(call.args) if isinstance(argument, ast.Starred)), None)
    names = [argument.arg for argument in [*scope.args.posonlyargs, *scope.args.args]]
    if star is None:
        return part
    if name in names:
        place = names.index(name) - _is_bound(file, scope) - star
        return place if place >= 0 else part
    is_rest = scope.args.vararg is not None and scope.args.vararg.arg == name
    place = _places_before(file, scope) - star + part if is_rest and isinstance(part, int) else -1
    return place if place >= 0 else None


def _places_before(file: source.Source, scope: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> int:
    """How many positional arguments a call gives before those that `*rest` takes."""
    return len(scope.args.posonlyargs) + len(scope.args.args) - _is_bound(file, scope)


def _is_bound(file: source.Source, scope: ast.AST) -> bool:
    """Whether the first parameter is the object whose method it is."""
    return isinstance(file.parent(scope), ast.ClassDef) and not _is_static(scope)


_PUTTERS = ("append", "appendleft", "add", "put", "put_nowait", "extend", "insert")


def is_empty(node: ast.AST) -> bool:
    """`[]`, `{}`, `{key: [] for key in keys}`, `deque(maxlen=3)`, `queue.Queue()`: what is in it is put there later."""
    if isinstance(node, ast.DictComp):
        return is_empty(node.value)
    if isinstance(node, (ast.List, ast.Dict)):
        return not (node.elts if isinstance(node, ast.List) else node.keys)
    made = ("list", "dict", "set", "deque", "defaultdict", "OrderedDict", "Queue", "SimpleQueue", "LifoQueue")
    return (
        isinstance(node, ast.Call)
        and histories.called_name(node) in made
        and not any(
            isinstance(argument, (ast.Call, ast.List, ast.ListComp, ast.GeneratorExp)) for argument in node.args
        )
    )


def puts(scope: ast.AST, container: str) -> list[tuple[ast.stmt, object, ast.expr]]:
    """(statement, key, value) of what a function puts into a container by its methods; key: that of held[key]."""
    return text_index.once(scope, _puts).get(container, [])


def _puts(scope: ast.AST) -> dict[str, list[tuple[ast.stmt, object, ast.expr]]]:
    found: dict[str, list[tuple[ast.stmt, object, ast.expr]]] = {}
    for statement in batches.statements(scope):
        call = statement.value if isinstance(statement, ast.Expr) else None
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute) or not call.args:
            continue
        if call.func.attr not in _PUTTERS:
            continue
        held, key = call.func.value, None
        if isinstance(held, ast.Subscript):
            key = held.slice.value if isinstance(held.slice, ast.Constant) else ast.unparse(held.slice)
            held = held.value
        found.setdefault(text_index.text_of(held), []).append((statement, key, call.args[-1]))
    return found


def holds(loop: ast.For | ast.AsyncFor | ast.While, line: int) -> bool:
    """Whether a line is in the body of a loop."""
    return loop.body[0].lineno <= line <= (loop.body[-1].end_lineno or 0)


def pairs(statement: ast.stmt | None) -> Iterator[tuple[ast.expr, ast.expr]]:
    """(target, value) of what a statement binds."""
    if isinstance(statement, ast.Assign):
        for target in statement.targets:
            if isinstance(target, (ast.Tuple, ast.List)) and isinstance(statement.value, (ast.Tuple, ast.List)):
                same = len(target.elts) == len(statement.value.elts)
                if same and not any(isinstance(e, ast.Starred) for e in [*target.elts, *statement.value.elts]):
                    yield from zip(target.elts, statement.value.elts)
                    continue
            yield target, statement.value
    elif isinstance(statement, (ast.AnnAssign, ast.AugAssign)) and statement.value is not None:
        yield statement.target, statement.value
    elif isinstance(statement, (ast.For, ast.AsyncFor)):
        yield statement.target, statement.iter
    elif isinstance(statement, (ast.With, ast.AsyncWith)):
        for item in statement.items:
            if item.optional_vars is not None:
                yield item.optional_vars, item.context_expr


def component(target: ast.expr, value: ast.expr, name: str) -> tuple[ast.expr, ast.expr] | None:
    """The part of a target that is this name, or an element of it (`moved["x"] = …`), with its value."""
    if isinstance(target, ast.Name):
        return (target, value) if target.id == name else None
    if isinstance(target, ast.Subscript) and isinstance(target.value, ast.Name) and target.value.id == name:
        return target, value
    return (target, value) if name in batches.targets(target) else None


def class_trees(value: object) -> Iterator[tuple[source.Source, ast.ClassDef]]:
    """The files and trees of the classes of a value, its own first, PyTorch's not."""
    for cls in type(value).__mro__:
        if cls.__module__.startswith("torch."):
            return
        # A named tuple and a dataclass have methods that others wrote: the file is the one that has the class.
        codes = [code for code in map(_code_of, vars(cls).values()) if code is not None]
        module = getattr(sys.modules.get(cls.__module__), "__file__", None) or ""
        for name in dict.fromkeys([*(code.co_filename for code in codes), module]):
            file = source.load(name)
            tree = file.class_named(cls.__qualname__) if file is not None else None
            if file is not None and tree is not None:
                yield file, tree
                break


def _code_of(value: object) -> types.CodeType | None:
    """The code of a method that is written in the class itself."""
    function = getattr(value, "__func__", value)
    return function.__code__ if isinstance(function, types.FunctionType) else None
