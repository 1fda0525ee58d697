"""A read of memory that a CUDA graph has written again while the program kept what was there: whether that is a mistake
for certain, which line keeps, and the copy as an edit.

It is one where results of several replays are taken together and are the same memory:

- all entries of a list, deque or dict are read (`torch.stack(outs)`, `for out in outs:`) that one line fills, once for
  each replay, or two of them are compared (`outs[1] - outs[0]`);
- two results of one graphed callable, from two calls, are operands of one expression (`a - b`);
- a second name was given to a result before a replay (`before = out`), and the two are compared (`out - before`), which
  says nothing where both are the same.

Reading a result under a name that the program has given it once is not: the newest value may be what it wants.
"""

from __future__ import annotations

import ast
import collections
import itertools
import types
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from locus._load import load_bridge
from locus.fixing import keeping, rewriting
from locus.program import kept_outputs, links, places, source, values

if TYPE_CHECKING:
    from locus.program.shapes import Edit, Location

_WHOLE = {"list", "tuple", "enumerate", "reversed", "sorted", "iter", "zip", "map", "tqdm"}
"""Functions that give back, or go through, all that they are given."""
_COMPARING = {
    "sub", "subtract", "div", "eq", "ne", "equal", "allclose", "isclose", "dist", "cosine_similarity", "mse_loss",
    "l1_loss", "smooth_l1_loss", "huber_loss", "kl_div", "assert_close",
}  # fmt: skip
_LOOPS = (ast.For, ast.AsyncFor, ast.While)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp)


class Kept(NamedTuple):
    """A mistake."""

    at: Location
    """The line that keeps."""
    name: str
    times: int
    """The entries of a list, a deque or a dict; 0: a name."""
    edit: Edit | None


class _Reading(NamedTuple):
    """The expression that reads."""

    file: source.Source
    node: ast.AST
    frames: list[types.FrameType]
    """Where its names mean something, innermost first: a comprehension has a frame of its own."""
    users: list[types.FrameType]

    def value(self, node: ast.AST) -> object:
        for frame in self.frames:
            found = values.evaluate(node, frame)
            if found is not values.MISSING:
                return found
        return values.MISSING


def judge(frames: list[types.FrameType]) -> Kept | None:
    """What is wrong with the read that is under way, at these frames; None where that is not certain."""
    users = places.user_frames(frames)
    if not users:
        return None
    frame = users[0]
    source.vouch(frame.f_code, frame.f_globals)
    file = source.load(frame.f_code.co_filename)
    line, end_line, column, end_column = places.positions(frame.f_code, frame.f_lasti)
    node = file.at(line, end_line, column, end_column) if file is not None and column >= 0 else None
    if file is None or node is None:
        return None
    inner = frame.f_code.co_name.startswith("<") and frame.f_code.co_name != "<module>"
    reading = _Reading(file, node, users[: 2 if inner else 1], users)
    return _whole_container(reading) or _two_entries(reading) or _two_results(reading) or _two_names(reading)


# -- lists, deques and dicts


def _whole_container(reading: _Reading) -> Kept | None:
    found = (_kept_in(reading, expression) for expression in _taken_whole(reading))
    return next((kept for kept in found if kept is not None), None)


def _two_entries(reading: _Reading) -> Kept | None:
    """Two entries of one container that are compared, and are one and the same."""
    if not _compares(reading.node):
        return None
    entries = [node for node in _operands(reading.node) if isinstance(node, ast.Subscript)]
    for one, other in itertools.combinations(entries, 2):
        first, second = reading.value(one), reading.value(other)
        if not values.is_tensor(first) or values.likeness(first, second) not in (0, 1):
            continue
        if reading.file.flat(one.value) == reading.file.flat(other.value) and _are_two(reading, one, other):
            kept = _kept_in(reading, one.value) if load_bridge().kept_state(first) else None
            if kept is not None:
                return kept
    return None


def _are_two(reading: _Reading, one: ast.Subscript, other: ast.Subscript) -> bool:
    """Whether two keys are of two entries."""
    keys = [reading.value(node.slice) for node in (one, other)]
    container = reading.value(one.value)
    if isinstance(container, dict):
        return keys[0] != keys[1]
    count = len(container) if isinstance(container, (list, collections.deque)) else 0
    return count > 1 and len({key % count for key in keys if type(key) is int}) == 2


def _kept_in(reading: _Reading, expression: ast.AST) -> Kept | None:
    """The mistake of an expression's container, where one line fills that, once for each replay."""
    container = reading.value(expression)
    if not isinstance(container, (list, dict, collections.deque)) or id(container) not in kept_outputs.containers:
        return None
    times = _times(container)
    growth = _growth(reading, expression, container) if times > 1 else None
    if growth is None:
        return None
    result = _result(reading, growth.kept)
    edit = rewriting.append_call(growth.file, result, ".clone()") if result is not None else None
    return Kept(growth.location, growth.name, times, edit)


def _result(reading: _Reading, kept: ast.expr) -> ast.expr | None:
    """The part of what is kept that is the result: `out` of `Step(number, out)`."""
    parts: list[ast.expr] = []
    if isinstance(kept, (ast.Tuple, ast.List)):
        parts = kept.elts
    elif isinstance(kept, ast.Dict):
        parts = kept.values
    elif isinstance(kept, ast.Call) and isinstance(reading.value(kept.func), type):
        parts = [*kept.args, *(keyword.value for keyword in kept.keywords)]
    else:
        return kept
    bridge = load_bridge()
    known = [(part, reading.value(part)) for part in parts]
    found = [part for part, value in known if values.is_tensor(value) and bridge.kept_state(value)]
    return found[0] if len(found) == 1 else None


def _taken_whole(reading: _Reading) -> Iterator[ast.AST]:
    """Expressions for containers of which the expression that reads takes every entry."""
    node = reading.node
    if isinstance(node, ast.Call):
        for argument in (*node.args, *(keyword.value for keyword in node.keywords)):
            yield from _whole(argument)
    for outer in (node, *reading.file.ancestors(node)):
        if isinstance(outer, _FUNCTIONS):
            return
        loops: list[tuple[ast.AST, ast.AST]] = []
        if isinstance(outer, (ast.For, ast.AsyncFor)):
            loops = [(outer.target, outer.iter)]
        elif isinstance(outer, _COMPREHENSIONS):
            loops = [(generator.target, generator.iter) for generator in outer.generators]
        for target, iterated in loops:
            if _names(target, ast.Store) & _names(node, ast.Load):
                yield from _whole(iterated)


def _whole(node: ast.AST) -> Iterator[ast.AST]:
    if isinstance(node, (ast.Name, ast.Attribute, ast.Subscript)):
        if not (isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice)):
            yield node
    elif isinstance(node, ast.Starred):
        yield from _whole(node.value)
    elif isinstance(node, ast.Call):
        if isinstance(node.func, ast.Name) and node.func.id in _WHOLE:
            for argument in node.args:
                yield from _whole(argument)
        elif isinstance(node.func, ast.Attribute) and node.func.attr in ("values", "items") and not node.args:
            yield node.func.value


def _names(node: ast.AST, context: type[ast.expr_context]) -> set[str]:
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name) and isinstance(each.ctx, context)}


def _times(container: object) -> int:
    """How many entries of a container are one and the same result that a replay has replaced."""
    found = collections.Counter[kept_outputs.Place]()
    for each in kept_outputs.results_in(load_bridge(), container):
        found.update(each)
    return max((found[place] for place in kept_outputs.containers[id(container)]), default=0)


def _growth(reading: _Reading, expression: ast.AST, container: object) -> keeping.Growth | None:
    """The one line that fills the container, where that happens once for each replay."""
    called = {_last_name(expression)}
    for frame in reading.users:
        called |= {name for name, value in values.at_rest(frame.f_locals).items() if value is container}
    found = {id(each.statement): each for name in called if name for each in _fillings(name, reading.users)}
    (growth,) = found.values() if len(found) == 1 else (None,)
    return growth if growth is not None and _follows_replays(growth) else None


def _last_name(node: ast.AST) -> str:
    while isinstance(node, ast.Subscript):
        node = node.value
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def _fillings(name: str, users: list[types.FrameType]) -> Iterator[keeping.Growth]:
    growth = keeping.find(name, users)
    if growth is not None:
        yield growth
    for path in dict.fromkeys(frame.f_code.co_filename for frame in users):
        file = source.load(path)
        for node in ast.walk(file.tree) if file is not None else ():
            made = node.value if isinstance(node, ast.Assign) else None
            if file is None or not isinstance(node, ast.Assign) or not isinstance(made, (ast.ListComp, ast.DictComp)):
                continue
            if any(_last_name(target) == name for target in node.targets):
                yield keeping.Growth(file, node, made.elt if isinstance(made, ast.ListComp) else made.value, name)


def _follows_replays(growth: keeping.Growth) -> bool:
    """Whether the innermost loop or function around the line replays as well, and does not begin with an empty one."""
    if isinstance(growth.statement, ast.Assign) and isinstance(growth.statement.value, (ast.ListComp, ast.DictComp)):
        return _replays(growth.file, growth.statement.value)
    for outer in growth.file.ancestors(growth.kept):
        if isinstance(outer, (*_LOOPS, *_FUNCTIONS)):
            return _replays(growth.file, outer) and not any(
                isinstance(node, (ast.Name, ast.Attribute))
                and isinstance(node.ctx, ast.Store)
                and _last_name(node) == growth.name
                for node in ast.walk(outer)
            )
    return False


def _replays(file: source.Source, node: ast.AST) -> bool:
    first, last = getattr(node, "lineno", 0), getattr(node, "end_lineno", 0) or 0
    return any(path == file.file and first <= line <= last for path, line in kept_outputs.replay_lines)


# -- two results of a graphed callable


def _two_results(reading: _Reading) -> Kept | None:
    bridge = load_bridge()
    operands = [(node, reading.value(node)) for node in _operands(reading.node) if isinstance(node, ast.Name)]
    found = [(node, value) for node, value in operands if values.is_tensor(value)]
    for earlier, one in found:
        for later, other in found:
            if values.likeness(one, other) != 1 or bridge.kept_state(one) != 2 or bridge.kept_state(other) == 2:
                continue
            first, second = (_only_call(reading, node.id) for node in (earlier, later))
            if first is None or second is None or first.lineno >= second.lineno:
                continue
            if reading.file.flat(first.value.func) != reading.file.flat(second.value.func):  # type: ignore[attr-defined]
                continue
            at = keeping.Growth(reading.file, first, first.value, earlier.id).location
            return Kept(at, earlier.id, 0, rewriting.append_call(reading.file, first.value, ".clone()"))
    return None


# -- two names of one result


def _two_names(reading: _Reading) -> Kept | None:
    bridge = load_bridge()
    names = [node for node in _operands(reading.node) if isinstance(node, ast.Name)] if _compares(reading.node) else []
    for earlier in names:
        value = reading.value(earlier)
        if not values.is_tensor(value) or not bridge.kept_state(value):
            continue
        bound = _alias(reading, earlier)
        others = [node for node in names if node.id != earlier.id and reading.value(node) is value]
        if bound is None or not others or not _replays_between(reading, bound):
            continue
        at = keeping.Growth(reading.file, bound, bound.value, earlier.id).location
        return Kept(at, earlier.id, 0, rewriting.append_call(reading.file, bound.value, ".clone()"))
    return None


def _compares(node: ast.AST) -> bool:
    if isinstance(node, ast.BinOp):
        return isinstance(node.op, (ast.Sub, ast.Div))
    if isinstance(node, ast.Call):
        return _last_name(node.func) in _COMPARING
    return isinstance(node, ast.Compare)


def _alias(reading: _Reading, name: ast.Name) -> ast.Assign | None:
    """The one statement that may have given a name its tensor, where it is another name's: `before = out`."""
    flow = links.flow_of(reading.file, reading.file.scope(reading.node))
    found = [
        definition.node
        for definition in (flow.reaching(name) if flow is not None else ())
        if not (isinstance(definition.value, ast.Constant) and definition.value.value is None)
    ]
    (bound,) = found if len(found) == 1 else (None,)
    if isinstance(bound, ast.Assign) and len(bound.targets) == 1 and isinstance(bound.value, (ast.Name, ast.Attribute)):
        return bound
    return None


def _replays_between(reading: _Reading, bound: ast.Assign) -> bool:
    """Whether a replay comes on every way from the line that binds to the one that reads."""
    file, use = reading.file, getattr(reading.node, "lineno", 0)
    lines = [line for path, line in kept_outputs.replay_lines if path == file.file]
    loops = [outer for outer in file.ancestors(bound) if isinstance(outer, _LOOPS)]
    around = next((loop for loop in loops if loop in file.ancestors(reading.node)), None)
    first, last = (around.lineno, around.end_lineno or 0) if around is not None else (0, 0)
    if bound.lineno < use:
        return any(bound.lineno < line < use for line in lines)
    return any(bound.lineno < line <= last or first < line < use for line in lines)


def _operands(node: ast.AST) -> Iterator[ast.AST]:
    if isinstance(node, ast.BinOp):
        yield from (node.left, node.right)
    elif isinstance(node, ast.Compare):
        yield from (node.left, *node.comparators)
    elif isinstance(node, ast.Call):
        for argument in (*node.args, *(keyword.value for keyword in node.keywords)):
            yield from argument.elts if isinstance(argument, (ast.List, ast.Tuple)) else (argument,)


def _only_call(reading: _Reading, name: str) -> ast.Assign | None:
    """The one statement that binds a name in the scope of the expression, where that is a call."""
    scope, bound = reading.file.scope(reading.node), []
    for node in ast.walk(scope):
        if isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, (ast.Store, ast.Del)):
            bound.append(reading.file.statement(node))
        elif isinstance(node, ast.arg) and node.arg == name:
            return None
    statement = bound[0] if len(bound) == 1 else None
    if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Call) and len(statement.targets) == 1:
        return statement if isinstance(statement.targets[0], ast.Name) else None
    return None
