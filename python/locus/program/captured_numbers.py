"""Numbers that the program's own expressions gave to captured operators: `x / self.temperature`, `loss * (1 - weight)`,
a `Dropout`'s `p`. A replay goes on with them; where the program has changed one since, that has no effect.

Only what is certain is kept: fractional numbers that are operands or arguments of the very call, made of attributes and
of names that the program never uses for anything else; of whole numbers those that the program counts up or down
(`self.position += 1`), also as an index, and only where the count goes on from one replay of the one graph that has it
to the next. Nothing of the program's is kept alive.
"""

from __future__ import annotations

import ast
import collections
import operator
import os
import sys
import types
import weakref
from collections.abc import Callable, Iterator
from typing import NamedTuple

from locus.program import places, source, spots, values

_ARITHMETIC: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: operator.pow,
}
_MOST = 4096
_MODULES = os.path.join("torch", "nn", "modules")


class _Leaf(NamedTuple):
    text: str
    where: spots.Attribute | spots.Name
    value: float


class _Number(NamedTuple):
    """An expression, or a module's attribute, whose value went into a captured call."""

    key: tuple[object, ...]
    """The same for all captures of it."""
    value: float
    leaves: tuple[_Leaf, ...]
    is_count: bool = False


_captures: weakref.WeakKeyDictionary[object, dict[tuple[object, ...], _Number]] = weakref.WeakKeyDictionary()
_first_counts: weakref.WeakKeyDictionary[object, dict[str, float]] = weakref.WeakKeyDictionary()
"""What counts were when a graph was replayed for the first time."""
_current: object | None = None


def begin(graph: object) -> None:
    """What is noted from here on goes into the graph."""
    global _current
    _current = graph
    _captures[graph] = {}


def end() -> None:
    """The capture is over: what has changed while it went on is not followed."""
    global _current
    graph, _current = _current, None
    if graph is None or graph not in _captures:
        return
    frames, kept = _frames(), _captures[graph]
    for key, number in list(kept.items()):
        if any(_number(leaf.where.now(frames)) != leaf.value for leaf in number.leaves):
            del kept[key]
    places.release_locals(frames)


def note(numbers: str, frames: list[types.FrameType]) -> None:
    """An operator was captured with these numbers, "0.5 2"; `frames`: those that led to it, innermost first."""
    kept = _captures.get(_current) if _current is not None else None
    if kept is None or len(kept) >= _MOST:
        return
    wanted = {float(number) for number in numbers.split()}
    for number in (*_of_module(wanted, frames), *_of_expression(wanted, frames)):
        known = kept.get(number.key)
        if known is not None and known.value != number.value:
            number = known._replace(leaves=())  # one expression, several values: nothing to follow
        kept[number.key] = number


def changed(graph: object) -> Iterator[tuple[str, object, object]]:
    """(what, its value in the graph, its value now) of what the program has changed since the capture."""
    numbers = _captures.get(graph)
    if not numbers:
        return
    frames, told = _frames(), set()
    for number in numbers.values():
        for leaf in number.leaves:
            now = _number(leaf.where.now(frames))
            if number.is_count and not _goes_on(graph, number, leaf, now):
                continue
            if now is None or now == leaf.value or leaf.text in told or _is_captured_again(graph, number, leaf, now):
                continue
            told.add(leaf.text)
            yield leaf.text, leaf.value, now
    if any(
        isinstance(leaf.where, spots.Name) and leaf.where.code for number in numbers.values() for leaf in number.leaves
    ):
        places.release_locals(frames)


def _goes_on(graph: object, number: _Number, leaf: _Leaf, now: float | None) -> bool:
    """Whether a count has gone on from the number in the graph since the first replay, and no other graph was captured
    with it: a program that has a graph for each place counts them, too, and one that captures for the longest sequence
    begins to count anew."""
    if any(number.key in numbers for other, numbers in list(_captures.items()) if other is not graph):
        return False
    return now is not None and leaf.value == _first_counts.setdefault(graph, {}).setdefault(leaf.text, now)


def _is_captured_again(graph: object, number: _Number, leaf: _Leaf, now: float) -> bool:
    """A program with a graph for each value knows what it does."""
    for other, numbers in list(_captures.items()):
        same = numbers.get(number.key) if other is not graph else None
        if same is not None and any(each.text == leaf.text and each.value == now for each in same.leaves):
            return True
    return False


def _frames() -> list[types.FrameType]:
    """Those that led here, without the one that asks: it would hold itself, and with it every tensor of the program's
    functions that are running, after they have ended."""
    return list(places.walk(sys._getframe(2)))


def _number(value: object) -> float | None:
    return value if type(value) in (int, float) else None  # type: ignore[return-value]


def _of_module(wanted: set[float], frames: list[types.FrameType]) -> Iterator[_Number]:
    """Attributes of a module of PyTorch's own whose forward() runs."""
    for frame in frames:
        if _MODULES not in frame.f_code.co_filename:
            if places.is_user_file(frame.f_code.co_filename):
                return
            continue
        module = frame.f_locals.get("self")
        if not values.is_module(module) or frame.f_code.co_name != "forward":
            continue
        for name, value in values.attributes(module).items():
            if type(value) is float and value in wanted:
                leaf = _Leaf(f"{type(module).__name__}.{name}", spots.Attribute(weakref.ref(module), name), value)
                yield _Number((id(module), name), value, (leaf,))
        return


def _of_expression(wanted: set[float], frames: list[types.FrameType]) -> Iterator[_Number]:
    """Operands and arguments of the program's call whose values are among the numbers."""
    users = places.user_frames(frames)
    frame = users[0] if users else None
    file = source.load(frame.f_code.co_filename) if frame is not None else None
    if frame is None or file is None:
        return
    source.vouch(frame.f_code, frame.f_globals)
    node = file.at(*places.positions(frame.f_code, frame.f_lasti))
    given: list[ast.expr] = []
    if isinstance(node, ast.BinOp):
        given = [node.left, node.right]
    elif isinstance(node, ast.AugAssign):
        given = [node.value]
    elif isinstance(node, ast.Call):
        given = [*node.args, *(keyword.value for keyword in node.keywords)]
    elif isinstance(node, ast.Subscript):
        given = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    for expression in given:
        leaves: list[_Leaf] = []
        value = _evaluate(expression, frame, file, leaves)
        is_count = type(value) is int and all(_last_part(leaf.text) in file.once(_counts) for leaf in leaves)
        if value in wanted and leaves and (type(value) is float or is_count):
            yield _Number((file.file, expression.lineno, expression.col_offset), value, tuple(leaves), is_count)


def _last_part(text: str) -> str:
    return text.rpartition(".")[2]


def _counts(file: source.Source) -> set[str]:
    """Names and attributes that a file counts up or down by a constant, and sets to nothing but constants else."""
    counted: set[str] = set()
    others: set[str] = set()
    for node in ast.walk(file.tree):
        if not isinstance(node, (ast.Name, ast.Attribute)) or not isinstance(node.ctx, ast.Store):
            continue
        name, statement = node.id if isinstance(node, ast.Name) else node.attr, file.parent(node)
        made = getattr(statement, "value", None)
        is_whole = isinstance(made, ast.Constant) and type(made.value) is int
        if is_whole and isinstance(statement, ast.AugAssign) and isinstance(statement.op, (ast.Add, ast.Sub)):
            counted.add(name)
        elif not is_whole or not isinstance(statement, (ast.Assign, ast.AnnAssign)):
            others.add(name)
    return counted - others


def _evaluate(node: ast.expr, frame: types.FrameType, file: source.Source, leaves: list[_Leaf]) -> float | None:
    """The value of simple arithmetic; what it is made of goes to `leaves`. None where it is anything else."""
    if isinstance(node, ast.Constant):
        return _number(node.value)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        value = _evaluate(node.operand, frame, file, leaves)
        return None if value is None else -value
    if isinstance(node, ast.BinOp):
        one, other = (_evaluate(part, frame, file, leaves) for part in (node.left, node.right))
        compute = _ARITHMETIC.get(type(node.op))
        if one is None or other is None or compute is None:
            return None
        try:
            return _number(compute(one, other))
        except ArithmeticError:
            return None
    value = _number(values.evaluate(node, frame))
    where: spots.Attribute | spots.Name | None = None
    if isinstance(node, ast.Attribute):
        try:
            where = spots.Attribute(weakref.ref(values.evaluate(node.value, frame)), node.attr)
        except TypeError:  # nothing can refer to it
            return None
    elif isinstance(node, ast.Name) and _is_one_quantity(file, node.id):
        where = spots.name_in(frame, file.file, node.id)
    if value is None or where is None:
        return None
    leaves.append(_Leaf(file.flat(node), where, value))
    return value


def _is_one_quantity(file: source.Source, name: str) -> bool:
    """Whether a name stands for one thing in the whole file: bound once, and from then on made of itself only."""
    first = file.once(_parameters)[name]
    for node in file.find(file.tree, ("store", name)):
        statement = file.parent(node)
        if isinstance(statement, ast.AugAssign):
            continue
        if not isinstance(statement, (ast.Assign, ast.AnnAssign)) or statement.value is None:
            return False  # of a loop, or one of several
        made_of = {each.id for each in ast.walk(statement.value) if isinstance(each, ast.Name)}
        first += name not in made_of
    return first == 1


def _parameters(file: source.Source) -> collections.Counter[str]:
    """How many functions of a file have a parameter of that name."""
    return collections.Counter(node.arg for node in ast.walk(file.tree) if isinstance(node, ast.arg))
