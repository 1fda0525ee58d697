"""What a definition is, and which part of a value it takes: the words of flow.py.

A path leads from the value of a definition to the part that was bound: `a, (b, *c) = v` gives `b` the path (1, 0) of
`v`. Works on syntax trees only; names of builtins (enumerate, zip, dict, …) are taken at their word.
"""

from __future__ import annotations

import ast
import enum
from dataclasses import dataclass
from typing import Literal, NamedTuple

Scope = ast.Module | ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef

Kind = Literal[
    "assign",
    "augmented",
    "annotated",
    "loop",
    "with",
    "parameter",
    "walrus",
    "comprehension",
    "import",
    "function",
    "class",
    "except",
    "delete",
    "match",
    "item",
    "put",
    "free",
]
"""How a name gets its value. `item` (`x[k] = v`) and `put` (`xs.append(v)`) add to what is there; `free` is bound
outside of the scope: by the scopes around it, by a function inside that says `global` or `nonlocal`, or a builtin."""


class Step(enum.Enum):
    """A step of a path that no index and no key can say."""

    ELEMENT = "element"
    """Any of what iterating gives."""
    KEY = "key"
    """Any key of a mapping."""
    VALUE = "value"
    """Any value of a mapping."""


@dataclass(frozen=True)
class Star:
    """What `*name` takes: the items from `start` on, without the last `left` ones."""

    start: int
    left: int = 0


@dataclass(frozen=True)
class Member:
    """An attribute, as in `case Point(x=name)`; None is the attribute of a positional pattern."""

    name: str | None


Path = tuple[int | str | Step | Star | Member, ...]
"""Which part of a value: an index, a key, or a step of its own. () is the whole value."""


@dataclass(frozen=True)
class Definition:
    """One place that gives a name, a dotted path or a container its value. Equal where the nodes are the same ones."""

    name: str
    """A name, or names with dots: `x`, `self.x`, `cfg.a.b`. For `item` and `put`, the container's."""
    kind: Kind
    node: ast.AST
    """The statement, or the walrus, `ast.comprehension`, `ast.arg`, handler, case, call; of a free name, the scope."""
    target: ast.AST
    """What is bound: a Name, Attribute or Subscript, an `ast.arg` or `ast.alias`, or the statement itself."""
    value: ast.expr | None = None
    """The expression that the value comes from; for `augmented`, what is added to the old value."""
    path: Path = ()
    """Which part of `value` it takes."""


def dotted(node: ast.AST) -> tuple[str, str] | None:
    """The root and the rest of a chain of plain names: `self.a.b` is ("self", ".a.b"); None for anything else."""
    rest: list[str] = []
    while isinstance(node, ast.Attribute):
        rest.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return None
    return node.id, "".join("." + name for name in reversed(rest))


class Container(NamedTuple):
    """What an item is put into: `self.d["a"]` is in `self.d`, under "a"."""

    root: str
    rest: str
    key: str | None
    """The key, if it is text in quotes. Indexes are none: those of a list move."""
    exact: bool
    """Whether the expression is the item itself and not something inside it."""


def container(node: ast.AST) -> Container | None:
    """The plain path that is left when subscripts, and what comes after them, are taken off; None if there is none."""
    found: ast.Subscript | None = None
    outer = node
    while isinstance(node, (ast.Attribute, ast.Subscript)):
        if isinstance(node, ast.Subscript):
            found = node
        node = node.value
    if not isinstance(node, ast.Name) or found is None:
        return None
    path = dotted(found.value)
    if path is None:
        return None
    text = found.slice.value if isinstance(found.slice, ast.Constant) else None
    return Container(*path, text if isinstance(text, str) else None, found is outer)


_Count = tuple[int, int, int, bool]
PUTS: dict[str, _Count] = {
    "append": (1, 1, 0, False),
    "appendleft": (1, 1, 0, False),
    "add": (1, 1, 0, False),
    "push": (1, 1, 0, False),
    "put": (1, 3, 0, False),
    "put_nowait": (1, 1, 0, False),
    "insert": (2, 2, 1, False),
    "setdefault": (2, 2, 1, False),
    "extend": (1, 1, 0, True),
    "extendleft": (1, 1, 0, True),
    "update": (1, 1, 0, True),
}
"""Methods that put something into a container: how many arguments (least, most), which is put in, or its elements."""


def put(call: ast.Call) -> list[tuple[ast.expr, Path]]:
    """What a call puts into the object that it is a method of; `np.append(a, b)` has one argument too many for it."""
    if not isinstance(call.func, ast.Attribute) or call.func.attr not in PUTS:
        return []
    least, most, index, spread = PUTS[call.func.attr]
    found: list[tuple[ast.expr, Path]] = []
    if least <= len(call.args) <= most:
        value = call.args[index]
        if isinstance(value, ast.Starred):
            found.append((value.value, (Step.ELEMENT,)))
        else:
            found.append((value, (Step.ELEMENT,) if spread else ()))
    if call.func.attr == "update" and len(call.args) <= 1:
        found += [(one.value, () if one.arg else (Step.VALUE,)) for one in call.keywords]
    return found


_SAME_ELEMENTS = ("reversed", "sorted", "list", "tuple", "set", "frozenset", "iter")


def narrow(value: ast.expr, path: Path) -> tuple[ast.expr, Path]:
    """The same part, of the smallest expression that surely has it: element 1 of `enumerate(xs)`'s is one of `xs`."""
    while path:
        step, rest = path[0], path[1:]
        smaller: tuple[ast.expr, Path] | None = None
        if isinstance(value, ast.NamedExpr):
            smaller = value.value, path
        elif isinstance(value, (ast.Tuple, ast.List)) and isinstance(step, int):
            items = value.elts[: step + 1] if step >= 0 else value.elts[step:]
            if -len(value.elts) <= step < len(value.elts) and not any(isinstance(one, ast.Starred) for one in items):
                smaller = value.elts[step], rest
        elif isinstance(value, ast.Call) and step is Step.ELEMENT and not value.keywords:
            smaller = _element(value, rest)
        elif isinstance(value, ast.Call) and step is Step.ELEMENT and isinstance(value.func, ast.Name):
            if value.func.id in ("enumerate", "zip", "sorted"):  # start=, strict=, key= change nothing
                smaller = _element(value, rest)
        if smaller is None:
            break
        value, path = smaller
    return value, path


def _element(call: ast.Call, rest: Path) -> tuple[ast.expr, Path] | None:
    """Part `rest` of an element of what `call` gives, as a part of one of its arguments."""
    func, args = call.func, call.args
    if any(isinstance(one, ast.Starred) for one in args):
        return None
    if isinstance(func, ast.Attribute) and not args:
        if func.attr == "values":
            return func.value, (Step.VALUE, *rest)
        if func.attr == "keys":
            return func.value, (Step.KEY, *rest)
        if func.attr == "items" and rest and rest[0] in (0, 1, -1, -2):
            return func.value, (Step.KEY if rest[0] in (0, -2) else Step.VALUE, *rest[1:])
    if not isinstance(func, ast.Name) or not args:
        return None
    if func.id in _SAME_ELEMENTS and len(args) == 1:
        return args[0], (Step.ELEMENT, *rest)
    if not rest or not isinstance(rest[0], int):
        return None
    if func.id == "enumerate" and rest[0] in (1, -1):
        return args[0], (Step.ELEMENT, *rest[1:])
    if func.id == "zip" and -len(args) <= rest[0] < len(args):
        return args[rest[0]], (Step.ELEMENT, *rest[1:])
    return None


class Part(NamedTuple):
    """An expression, and what of its value is meant."""

    value: ast.expr
    path: Path


def select(value: ast.expr, path: Path) -> tuple[Part, ...]:
    """The expressions that may be the part `path` of `value`, with what is left of the path where it leads no further.

    Follows displays, both arms of conditional expressions, every operand of `and` and `or`, walrus, starred items,
    `dict(a=…)` and what narrow() knows. () where there is surely no such part.
    """
    found: list[Part] = []
    work = [Part(value, path)]
    while work:
        part = Part(*narrow(*work.pop()))
        inner = _open(part)
        if inner is None:
            found.append(part)
        else:
            work.extend(reversed(inner))
    return tuple(found)


def _open(part: Part) -> list[Part] | None:
    """One step into an expression; None where there is no way in."""
    value, path = part
    if isinstance(value, ast.IfExp):
        return [Part(value.body, path), Part(value.orelse, path)]
    if isinstance(value, ast.BoolOp):
        return [Part(one, path) for one in value.values]
    if isinstance(value, ast.NamedExpr):
        return [Part(value.value, path)]
    if not path:
        return None
    if isinstance(value, (ast.Tuple, ast.List, ast.Set)):
        return _items(value.elts, path)
    if isinstance(value, ast.Dict):
        return _entries(list(zip(value.keys, value.values)), path)
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id == "dict":
        entries: list[tuple[ast.expr | None, ast.expr]] = [(None, one) for one in value.args]
        entries += [(ast.Constant(one.arg) if one.arg else None, one.value) for one in value.keywords]
        return _entries(entries, path)
    return None


def _items(items: list[ast.expr], path: Path) -> list[Part] | None:
    """The items of a display that a path may mean."""
    step, rest = path[0], path[1:]
    if isinstance(step, Star):
        if not rest or any(isinstance(one, ast.Starred) for one in items):
            return None
        taken = items[step.start : len(items) - step.left]
        return _items(taken, rest) if rest[0] is Step.ELEMENT or isinstance(rest[0], int) else None
    if isinstance(step, int):
        at = next((i for i, one in enumerate(items) if isinstance(one, ast.Starred)), None)
        if at is None:
            return [Part(items[step], rest)] if -len(items) <= step < len(items) else []
        if 0 <= step < at:
            return [Part(items[step], rest)]
        items = items[at:] if step >= 0 else items
    elif step is not Step.ELEMENT:
        return None
    return [
        Part(one.value, (Step.ELEMENT, *rest)) if isinstance(one, ast.Starred) else Part(one, rest) for one in items
    ]


def _entries(entries: list[tuple[ast.expr | None, ast.expr]], path: Path) -> list[Part] | None:
    """The entries of a dictionary that a path may mean; one without a key is another mapping, spread out."""
    step, rest = path[0], path[1:]
    if step is Step.VALUE:
        return [Part(value, path if key is None else rest) for key, value in entries]
    if step is Step.KEY or step is Step.ELEMENT:
        return [Part(value, (Step.KEY, *rest)) if key is None else Part(key, rest) for key, value in entries]
    if not isinstance(step, (int, str)):
        return None
    found: list[Part] = []
    for key, value in reversed(entries):
        if key is None:
            found.append(Part(value, path))
        elif not isinstance(key, ast.Constant):
            found.append(Part(value, rest))
        elif key.value == step:
            found.append(Part(value, rest))
            break
    return found
