"""Names for tensors as a person would say them: `net.pos.pe`, `Adam.state[net.fc.weight]["exp_avg"]`, `batch["mask"]`.

Walks what the live frames reach (see objects.py). Keeps nothing afterwards.
"""

from __future__ import annotations

import ast
import collections
import gc
import inspect
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import torch

from locus.program import batches, expressions, objects, places, values
from locus.vocabulary import Kind

_MAX_ELEMENTS = 2_000
_MAX_DEPTH = 7
_LIBRARY = 5  # the rank of names in frames that are not the program's
_LONG = 40  # an expression with more characters is no name
_PASSED_ON = 3  # what comes on top for `args` and `kwargs` of a wrapper: whoever passed it on has a name for it
_PART = 1.5  # what a module that is part of another one comes after it
_COLLECTED = 9  # the rank of what no frame reaches
_WRAPPED = (("_modules", "module"), ("_modules", "_orig_mod"))
_OWNERS = (torch.nn.Module, torch.optim.Optimizer)


class Match(NamedTuple):
    """One name of a tensor."""

    name: str
    kind: Kind
    likeness: int
    way: objects.Way
    frame: int
    rank: float


@dataclass
class Names:
    """Every name that the walk found, by the number of the target."""

    matches: dict[int, list[Match]] = field(default_factory=dict)
    batches: list[dict[str, batches.Binding]] = field(default_factory=list)
    roots: dict[int, str] = field(default_factory=dict)
    """The names of optimizers by id(), for edits. Ids are good while the case is being made, no longer."""

    def best(self, target: int, expression: str | None = None) -> Match | None:
        """The name that says most about why the tensor is where it is."""
        found = self.matches.get(target, [])
        return min(found, key=lambda match: _worth(match, expression), default=None)


def _worth(match: Match, expression: str | None) -> tuple[float, ...]:
    standing = objects.standing(match.kind, match.name, match.likeness == 0)
    used = match.name == expression
    steps = match.name.count(".") + match.name.count("[")
    # What a bare name means is said by the innermost frame; a module is best named from where its tree begins.
    near = match.frame if match.kind in ("variable", "global", "closure") else 0
    return (standing, match.likeness, not used, near, match.rank, match.frame, steps, len(match.name))


class _Root(NamedTuple):
    """Something that a frame has a name for."""

    value: object
    name: str
    kind: Kind
    rank: float
    frame: int


def find(targets: list[object], frames: list[types.FrameType], everywhere: list[int] | None = None) -> Names:
    """Looks for the targets (tensors, generators) among everything that the frames reach.

    Those whose numbers are in `everywhere` (None: all) are then looked for among all modules there are, which takes
    a fraction of a second.
    """
    sought = _Sought(targets)
    walk = objects.Walk(wants=sought.has, max_depth=_MAX_DEPTH, max_elements=_MAX_ELEMENTS)
    names = Names()
    roots: list[_Root] = []
    mine = {id(frame) for frame in places.user_frames(frames)}
    for number, frame in enumerate(frames):
        bound = batches.batch_names(frame) if id(frame) in mine else {}
        names.batches.append(bound)
        roots += _roots(frame, number, id(frame) in mine, bound)
        if id(frame) in mine and number > 0 and id(frames[number - 1]) not in mine:
            roots += _called(frame, frames[number - 1], number)
    _walk_from(roots, walk)
    names.matches = sought.matches(walk.tensors)
    wanted = range(len(targets)) if everywhere is None else everywhere
    if any(number not in names.matches for number in wanted):
        unseen = [thing for thing in outermost(*_OWNERS) if id(thing) not in walk.seen]
        _walk_from([_Root(thing, type(thing).__name__, "global", _COLLECTED, 99) for thing in unseen], walk)
        names.matches = sought.matches(walk.tensors)
    names.roots = {id(node.value): node.name for node in walk.entered if objects.is_optimizer(node.value)}
    return names


class _Sought:
    """What is looked for, and whatever shares its memory."""

    def __init__(self, targets: list[object]):
        self.targets = targets
        self.by_id: dict[int, list[int]] = collections.defaultdict(list)
        self.by_storage: dict[int, list[int]] = collections.defaultdict(list)
        for number, target in enumerate(targets):
            self.by_id[id(target)].append(number)
            key = values.storage_key(target)
            if key:
                self.by_storage[key].append(number)

    def has(self, value: object) -> bool:
        return id(value) in self.by_id or (bool(self.by_storage) and values.storage_key(value) in self.by_storage)

    def matches(self, nodes: list[objects.Node]) -> dict[int, list[Match]]:
        found: dict[int, list[Match]] = {}
        for node in nodes:
            key = values.storage_key(node.value)
            for number in {*self.by_id.get(id(node.value), ()), *(self.by_storage.get(key, ()) if key else ())}:
                likeness = values.likeness(node.value, self.targets[number])
                if likeness is not None:
                    match = Match(node.name, node.kind, likeness, node.way, node.frame, node.rank)
                    found.setdefault(number, []).append(match)
        return found


def _roots(frame: types.FrameType, number: int, mine: bool, bound: dict[str, batches.Binding]) -> Iterator[_Root]:
    code = frame.f_code
    first = code.co_varnames[0] if code.co_argcount and code.co_varnames else ""
    named = code.co_argcount + code.co_kwonlyargcount
    stars = bool(code.co_flags & inspect.CO_VARARGS) + bool(code.co_flags & inspect.CO_VARKEYWORDS)
    passed_on = code.co_varnames[named : named + stars]
    for name, value in values.at_rest(frame.f_locals).items():
        if type(value) in objects.BARREN or not isinstance(name, str) or name.startswith(("__", "@")):
            continue  # most of what a program has names for; with an @, what pytest has made of an assert
        kind: Kind = "batch" if name in bound else "closure" if name in code.co_freevars else "variable"
        is_self = name == "self" or (name == first and _has_method(value, code.co_name))
        rank = (0 if mine else _LIBRARY) + _PASSED_ON * (name in passed_on)
        yield from _root(name, value, kind, number, rank, is_self)
    if mine and frame.f_locals is not frame.f_globals:
        for name, value in values.at_rest(frame.f_globals).items():
            if type(value) not in objects.BARREN and isinstance(name, str) and not name.startswith("__"):
                yield from _root(name, value, "global", number, 0.2)


def _root(name: str, value: object, kind: Kind, frame: int, rank: float, is_self: bool = False) -> Iterator[_Root]:
    if isinstance(value, types.ModuleType):
        if kind == "global" and places.is_user_file(getattr(value, "__file__", None) or "<frozen module>"):
            for inner, thing in list(vars(value).items()):
                if not inner.startswith("__") and not isinstance(thing, types.ModuleType):
                    yield from _root(f"{name}.{inner}", thing, kind, frame, rank + 1.5)
        return
    is_module = values.is_module(value)
    if rank >= _LIBRARY and not isinstance(value, _OWNERS):
        return  # what a library calls its variables means nothing to the program's author
    # Nobody says `self` for a module that has no other name: its class says more.
    called = type(value).__name__ if is_self and is_module else name
    yield _Root(value, called, kind, rank + (not is_module) + 2 * is_self, frame)


def _called(frame: types.FrameType, inner: types.FrameType, number: int) -> Iterator[_Root]:
    """`nn.Linear(4, 2)` of `nn.Linear(4, 2)(x)`: a module that has no name but the expression that gave it."""
    is_call = inner.f_code.co_name in ("_wrapped_call_impl", "_call_impl", "__call__")
    module = inner.f_locals.get("self") if is_call else None
    use = expressions.Use(frame, inner) if values.is_module(module) else None
    made = use.node.func if use is not None and isinstance(use.node, ast.Call) else None
    if use is None or use.file is None or not isinstance(made, ast.Call):
        return
    text = use.file.flat(made)
    name = text if len(text) <= _LONG else f"{use.file.flat(made.func)}(…)"
    yield _Root(module, name, "variable", _LIBRARY - 1, number)


def _has_method(value: object, name: str) -> bool:
    return any(name in vars(cls) for cls in type.mro(type(value)))


def _walk_from(roots: list[_Root], walk: objects.Walk) -> None:
    """Modules that are part of another one come behind it: `layer` is better named `net.layers[2]`."""
    finder = objects.Walk(tensors=False, edges=True, enters=_has_modules, max_elements=_MAX_ELEMENTS)
    modules = {id(root.value): root for root in roots if values.is_module(root.value)}
    for root in modules.values():
        finder.add(root.value, root.name)
    finder.run()
    held = [edge for edge in finder.edges if id(edge[2]) in modules]
    held = [edge for edge in held if not (isinstance(edge[1], tuple) and edge[1] in _WRAPPED)]
    parts = {id(value) for holder, _, value in held if all(node.value is not value for node in holder.chain)}
    for root in roots:
        walk.add(*root._replace(rank=root.rank + _PART) if id(root.value) in parts else root)
    walk.run()


def _has_modules(value: object) -> bool:
    return values.is_module(value) or type(value) in (list, tuple, dict)


def outermost(*kinds: type) -> list[object]:
    """All modules (or others of these classes) there are that are not part of another module."""
    known, stack = set(kinds), list(kinds)
    while stack:  # a look-up for each object is quicker than issubclass()
        new: set[type] = set(type.__subclasses__(stack.pop())) - known
        known |= new
        stack += new
    things = [thing for thing in gc.get_objects() if type(thing) in known]
    below = [values.attributes(thing).get("_modules") or {} for thing in things if values.is_module(thing)]
    children = {id(child) for table in below for child in table.values()}
    return [thing for thing in things if id(thing) not in children]


def reach(frames: list[types.FrameType], wants: Callable[[object], bool]) -> objects.Walk:
    """A walk over everything that the program's own frames have names for, and the wanted tensors in it."""
    walk = objects.Walk(wants=wants, gradients=False, max_depth=_MAX_DEPTH)
    roots = [root for number, frame in enumerate(frames) for root in _roots(frame, number, True, {})]
    _walk_from(roots, walk)
    return walk
