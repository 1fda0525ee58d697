"""Names for tensors as a person would say them: `net.pos.pe`, `Adam.state[net.fc.weight]["exp_avg"]`, `batch["mask"]`.

Walks what the live frames can reach, reading only what is simply there (see values.py). Keeps nothing afterwards.
"""

from __future__ import annotations

import collections
import contextlib
import gc
import heapq
import itertools
import types
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch

from locus.program import batches, places, values, written

_MAX_VISITS = 60_000
_MAX_ELEMENTS = 2_000
_MAX_DEPTH = 7
_LIBRARY = 5  # the rank of names in frames that are not the program's

# What a name is worth when a tensor has several: the kinds that explain a placement come first, see _worth().
_OWNED = {"parameter", "buffer", "loss-weight", "optimizer-state", "gradient"}
_ATTACHED = {"plain-attribute", "plain-container", "function-context"}


class Holder(NamedTuple):
    """A module on the way to a tensor, and how it is reached."""

    module: Any
    root: Any
    root_name: str
    path: str


class Way(NamedTuple):
    """How the walk came to a value: the name so far and what it passed."""

    name: str
    rank: float
    kind: str
    frame: int = 0
    depth: int = 0
    holder: Holder | None = None
    attribute: str = ""
    container: str | None = None
    detached: bool = False
    """Below something that the module's .to() does not reach."""


class Match(NamedTuple):
    """One name of a tensor."""

    name: str
    kind: str
    likeness: int
    way: Way
    frame: int


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
    exact = match.likeness == 0
    plain_name = match.name.isidentifier()
    if match.kind in _OWNED:
        rank = 0 if exact else 3
    elif match.kind == "batch":
        rank = 1 if exact else 3
    elif match.kind in _ATTACHED:
        rank = 2 if exact else 3
    elif match.kind == "object-attribute":
        # A view of what an object holds says more about its device than the variable that holds the view.
        rank = (4 if "[" not in match.name else 6) if exact else 4.5 if "[" not in match.name else 7
    else:
        rank = (5 if plain_name else 6) if exact else 7
    used = match.name == expression
    steps = match.name.count(".") + match.name.count("[")
    # What a bare name means is said by the innermost frame; a module is best named from where its tree begins.
    near = match.frame if match.kind in ("variable", "global", "closure") else 0
    return (rank, match.likeness, not used, near, match.way.rank, match.frame, steps, len(match.name))


def find(targets: list[Any], frames: list[types.FrameType], everywhere: list[int] | None = None) -> Names:
    """Looks for the targets (tensors, generators) among everything that the frames reach.

    Those whose numbers are in `everywhere` (None: all) are then looked for among all modules there are, which takes
    a fraction of a second.
    """
    walk = _Walk(targets)
    mine = {id(frame) for frame in places.user_frames(frames)}
    for number, frame in enumerate(frames):
        walk.add_frame(frame, number, id(frame) in mine)
    walk.lower_parts()
    walk.run()
    wanted = range(len(targets)) if everywhere is None else everywhere
    if any(number not in walk.names.matches for number in wanted):
        walk.add_collected()
        walk.run()
    return walk.names


class _Walk:
    def __init__(self, targets: list[Any]):
        self.names = Names()
        self.by_id = collections.defaultdict(list)
        self.by_storage = collections.defaultdict(list)
        self.targets = targets
        for number, target in enumerate(targets):
            self.by_id[id(target)].append(number)
            key = values.storage_key(target)
            if key:
                self.by_storage[key].append(number)
        self.queue: list[tuple[float, int, int, Any, Way]] = []
        self.order = itertools.count()
        self.seen: set[int] = set()
        self.parameters: dict[int, str] = {}
        self.optimizers: list[tuple[Any, Way]] = []
        self.visits = 0
        self.kept: list[Any] = []  # objects made on the way; alive until the end, so that no id is used twice

    # -- where to begin

    def add_frame(self, frame: types.FrameType, number: int, mine: bool) -> None:
        code = frame.f_code
        bound = batches.batch_names(frame) if mine else {}
        self.names.batches.append(bound)
        at_module_level = frame.f_locals is frame.f_globals
        first = code.co_varnames[0] if code.co_argcount and code.co_varnames else ""
        for name, value in list(frame.f_locals.items()):
            if type(value) in _BARREN or self.is_other(value) or not isinstance(name, str) or name.startswith("__"):
                continue
            kind = "closure" if name in code.co_freevars else "variable"
            kind = "batch" if name in bound else kind
            is_self = name == "self" or (name == first and _has_method(value, code.co_name))
            self.add_root(name, value, kind, number, 0 if mine else _LIBRARY, is_self)
        if mine and not at_module_level:
            for name, value in list(frame.f_globals.items()):
                if type(value) in _BARREN or self.is_other(value):  # most of what a program has names for
                    continue
                if isinstance(name, str) and not name.startswith("__"):
                    self.add_root(name, value, "global", number, 0.2, False)

    def is_other(self, value: Any) -> bool:
        """Whether a value is a tensor, and none of the targets."""
        if not issubclass(type(value), torch.Tensor) or id(value) in self.by_id:
            return False
        return not self.by_storage or values.storage_key(value) not in self.by_storage

    def add_root(self, name: str, value: Any, kind: str, frame: int, rank: float, is_self: bool) -> None:
        if isinstance(value, (str, int, float, bool, type(None), type)):
            return
        if isinstance(value, types.ModuleType):
            if kind == "global" and places.is_user_file(getattr(value, "__file__", None) or "<frozen module>"):
                for inner, thing in list(vars(value).items()):
                    if not inner.startswith("__") and not isinstance(thing, types.ModuleType):
                        self.add_root(f"{name}.{inner}", thing, kind, frame, rank + 1.5, False)
            return
        if rank >= _LIBRARY and not isinstance(value, (torch.nn.Module, torch.optim.Optimizer)):
            return  # what a library calls its variables means nothing to the program's author
        if not values.is_module(value):
            rank += 1
        if is_self:
            rank += 2
            if values.is_module(value):
                # Nobody says `self` for a module that has no other name: its class says more.
                name = type(value).__name__
        self.push(value, Way(name=name, rank=rank, kind=kind, frame=frame))

    def add_collected(self) -> None:
        """Modules and optimizers that no frame reaches."""
        wanted = (torch.nn.Module, torch.optim.Optimizer)
        objects = [thing for thing in gc.get_objects() if issubclass(type(thing), wanted)]
        modules = [thing for thing in objects if values.is_module(thing)]
        below = [values.attributes(module).get("_modules") or {} for module in modules]
        children = {id(child) for table in below for child in table.values()}
        for module in modules:
            if id(module) not in children and id(module) not in self.seen:
                self.push(module, Way(name=type(module).__name__, rank=9, kind="global", frame=99))
        for thing in objects:
            if issubclass(type(thing), torch.optim.Optimizer) and id(thing) not in self.seen:
                self.push(thing, Way(name=type(thing).__name__, rank=9, kind="global", frame=99))
        del objects, modules

    def lower_parts(self) -> None:
        """Puts modules that are part of another one behind it: `layer` is better named `net.layers[2]`."""
        roots = [value for _, _, _, value, _ in self.queue if values.is_module(value)]
        parts: set[int] = set()
        for root in {id(root): root for root in roots}.values():
            wrapped = [(values.attributes(root).get("_modules") or {}).get(name) for name in ("module", "_orig_mod")]
            parts |= {id(part) for part in _parts(root) if part is not root and not any(part is w for w in wrapped)}
        queue = [(value, way) for _, _, _, value, way in sorted(self.queue, key=lambda entry: entry[2])]
        self.queue.clear()
        for value, way in queue:
            self.push(value, way._replace(rank=way.rank + 1.5) if id(value) in parts else way)

    # -- the walk itself

    def push(self, value: Any, way: Way) -> None:
        if type(value) in _BARREN or isinstance(value, (str, int, float, bytes)):
            return
        heapq.heappush(self.queue, (way.rank, way.depth, next(self.order), value, way))

    def run(self) -> None:
        while self.queue and self.visits < _MAX_VISITS:
            _, _, _, value, way = heapq.heappop(self.queue)
            with contextlib.suppress(BaseException):  # what refuses to be looked at costs no other its name
                self.visit(value, way)
        self.queue.clear()
        for optimizer, way in self.optimizers:
            self.visit_optimizer(optimizer, way)
        self.optimizers.clear()

    def visit(self, value: Any, way: Way) -> None:
        if values.is_tensor(value) or isinstance(value, torch.Generator):
            self.note(value, way.name, way.kind, way)
            return
        if id(value) in self.seen:
            return
        self.visits += 1
        self.seen.add(id(value))
        self.kept.append(value)
        if values.is_module(value):
            self.visit_module(value, way)
        elif isinstance(value, torch.optim.Optimizer):
            self.names.roots[id(value)] = way.name
            self.optimizers.append((value, way))
        elif way.depth < _MAX_DEPTH:
            self.visit_plain(value, way)

    def visit_module(self, module: Any, way: Way) -> None:
        inside = attributes = values.attributes(module)
        if way.holder is None or way.detached:
            here = Holder(module, module, way.name, "")
        else:
            here = way.holder
        if way.detached and way.holder is not None:
            holder, kind = way.holder, "plain-container"
        else:
            holder, kind = here, ""
        is_loss = isinstance(module, torch.nn.modules.loss._Loss)
        step = way._replace(depth=way.depth + 1, holder=holder)
        for table, table_kind in (("_parameters", "parameter"), ("_buffers", "buffer")):
            for name, tensor in list((inside.get(table) or {}).items()):
                if tensor is None:
                    continue
                full = written.attribute(way.name, name)
                spot = step if way.detached else step._replace(attribute=name)
                self.note(tensor, full, kind or ("loss-weight" if is_loss else table_kind), spot)
                if table == "_parameters":
                    self.parameters.setdefault(id(tensor), full)
                    if tensor.is_leaf and tensor.grad is not None:
                        self.note(tensor.grad, f"{full}.grad", "gradient", spot)
        for name, child in list((inside.get("_modules") or {}).items()):
            if child is not None:
                path = f"{here.path}.{name}".strip(".")
                inner = way.holder if way.detached else here._replace(module=child, path=path)
                self.push(child, step._replace(name=written.child(module, way.name, name), holder=inner))
        for name, value in list(attributes.items()):
            if name in MODULE_FIELDS or isinstance(value, (bool, int, float, str, type(None))):
                continue
            spot = step._replace(name=written.attribute(way.name, name), rank=way.rank + 0.4, detached=True)
            if not way.detached:
                spot = spot._replace(attribute=name, kind="plain-attribute", container=written.container(value))
            if spot.container:
                spot = spot._replace(kind="plain-container")
            self.push(value, spot)
        for cls in type(module).__mro__[:-2]:
            if cls.__module__.startswith("torch."):
                break
            for name, value in list(vars(cls).items()):
                if values.is_tensor(value):
                    spot = step._replace(attribute=name, kind="plain-attribute")
                    self.note(value, written.attribute(way.name, name), kind or "plain-attribute", spot)

    def visit_plain(self, value: Any, way: Way) -> None:
        step = way._replace(depth=way.depth + 1)
        if issubclass(type(value), dict) or isinstance(value, collections.UserDict):
            data = values.attributes(value).get("data", {}) if isinstance(value, collections.UserDict) else value
            for key, item in list(itertools.islice(dict.items(data), _MAX_ELEMENTS)) if isinstance(data, dict) else ():
                if type(item) not in _BARREN and not self.is_other(item):
                    self.push(item, step._replace(name=f"{way.name}[{written.key(key)}]"))
            return
        if isinstance(value, (list, tuple, collections.deque)):
            fields = getattr(type(value), "_fields", None)
            for number, item in enumerate(itertools.islice(value, _MAX_ELEMENTS)):
                if type(item) not in _BARREN and not self.is_other(item):
                    part = f".{fields[number]}" if fields else f"[{number}]"
                    self.push(item, step._replace(name=f"{way.name}{part}"))
            return
        if isinstance(value, (set, frozenset)):
            for item in list(itertools.islice(value, _MAX_ELEMENTS)):
                self.push(item, step._replace(name=f"{way.name}[…]"))
            return
        if isinstance(value, torch.autograd.function.FunctionCtx):
            for name, item in values.attributes(value).items():
                self.push(item, step._replace(name=written.attribute(way.name, name), kind="function-context"))
            return
        if not is_walked(value):
            return
        kind = way.kind if way.kind in ("batch", "plain-attribute", "plain-container") else "object-attribute"
        for name, item in values.attributes(value).items():
            if isinstance(name, str):
                attribute = f"{way.attribute}.{name}" if kind == "plain-attribute" else way.attribute
                self.push(item, step._replace(name=written.attribute(way.name, name), kind=kind, attribute=attribute))

    def visit_optimizer(self, optimizer: Any, way: Way) -> None:
        state = values.attributes(optimizer).get("state") or {}
        for parameter, entries in list(state.items()):
            if not isinstance(entries, dict):
                continue
            name = self.parameters.get(id(parameter)) or written.place_in_groups(optimizer, parameter)
            for key, tensor in list(entries.items()):
                place = f"state[{name}][{written.key(key)}]"
                full = f"{type(optimizer).__name__}.{place}"
                spot = way._replace(holder=Holder(optimizer, optimizer, way.name, ""), attribute=place)
                if values.is_tensor(tensor):
                    self.note(tensor, full, "optimizer-state", spot)
                elif isinstance(tensor, (list, tuple)):
                    for number, item in enumerate(tensor[:_MAX_ELEMENTS]):
                        if values.is_tensor(item):
                            self.note(item, f"{full}[{number}]", "optimizer-state", spot)

    def note(self, value: Any, name: str, kind: str, way: Way) -> None:
        numbers = set(self.by_id.get(id(value), ()))
        if values.is_tensor(value) and self.by_storage:
            numbers.update(self.by_storage.get(values.storage_key(value), ()))
        for number in numbers:
            likeness = values.likeness(value, self.targets[number])
            if likeness is not None:
                self.names.matches.setdefault(number, []).append(Match(name, kind, likeness, way, way.frame))


def _has_method(value: Any, name: str) -> bool:
    return any(name in vars(cls) for cls in type.mro(type(value)))


def _parts(root: Any) -> list[Any]:
    """The modules of a tree, those in plain lists, tuples and dicts too."""
    found, stack, seen = [], [root], {id(root)}
    while stack and len(found) < _MAX_VISITS:
        item = stack.pop()
        if values.is_module(item):
            found.append(item)
            inner = values.attributes(item)
            new = list((inner.get("_modules") or {}).values())
            new += [value for name, value in inner.items() if name not in MODULE_FIELDS]
        else:
            new = list(itertools.islice(item.values() if isinstance(item, dict) else item, _MAX_ELEMENTS))
        for value in new:
            if id(value) not in seen and (values.is_module(value) or type(value) in (list, tuple, dict)):
                seen.add(id(value))
                stack.append(value)
    return found


MODULE_FIELDS = set(vars(torch.nn.Module())) | {"_is_full_backward_hook", "_hf_hook", "_old_forward"}


def is_walked(value: Any) -> bool:
    """Objects of the program's and of libraries' own classes; not the machinery of Python and PyTorch."""
    cls = type(value)
    if isinstance(value, _NOT_WALKED):
        return False
    home = (getattr(cls, "__module__", "") or "").partition(".")[0]
    return home == "types" or home not in _MACHINERY


_NOT_WALKED = (
    type, types.FunctionType, types.MethodType, types.BuiltinFunctionType, types.ModuleType, types.FrameType,
    types.GeneratorType, types.CoroutineType, types.AsyncGeneratorType,
)  # fmt: skip

_BARREN = {
    str, bytes, int, float, complex, bool, type(None), type, torch.device, torch.dtype, torch.Size, range, slice,
    types.FunctionType, types.MethodType, types.BuiltinFunctionType, types.CodeType, property,
}  # fmt: skip
"""What most names of a program stand for, and no tensor is in."""

_MACHINERY = {
    "torch", "builtins", "threading", "logging", "_io", "io", "re", "numpy", "locus", "weakref", "functools",
    "itertools", "abc", "_abc", "_thread", "queue", "asyncio", "concurrent", "multiprocessing", "subprocess", "socket",
    "ctypes", "_ctypes", "importlib", "_frozen_importlib", "_frozen_importlib_external", "unittest", "pytest",
    "_pytest", "pluggy", "matplotlib", "PIL", "pandas", "zipimport", "random", "_random", "datetime", "decimal",
    "pathlib", "enum", "inspect", "ast", "typing",
}  # fmt: skip
