"""Names for tensors as a person would say them: `net.pos.pe`, `Adam.state[net.fc.weight]["exp_avg"]`, `batch["mask"]`.

Walks what the live frames can reach, reading only what is simply there (see values.py). Keeps nothing afterwards.
"""

from __future__ import annotations

import collections
import gc
import heapq
import itertools
import json
import types
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from locus import batches, places, values

_MAX_VISITS = 60_000
_MAX_ELEMENTS = 2_000
_MAX_DEPTH = 7
_LIBRARY = 5  # the rank of names in frames that are not the program's

# What a name is worth when a tensor has several: the kinds that explain a placement come first, see _worth().
_OWNED = {"parameter", "buffer", "loss-weight", "optimizer-state", "gradient"}
_ATTACHED = {"plain-attribute", "plain-container", "function-context"}


@dataclass(frozen=True)
class Holder:
    """A module on the way to a tensor, and how it is reached."""

    module: Any
    root: Any
    root_name: str
    path: str


@dataclass(frozen=True)
class Way:
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


@dataclass(frozen=True)
class Match:
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
            if name.startswith("__") or not isinstance(name, str):
                continue
            kind = "closure" if name in code.co_freevars else "variable"
            kind = "batch" if name in bound else kind
            is_method = name == first and any(code.co_name in vars(cls) for cls in type(value).__mro__)
            is_self = name == "self" or is_method
            self.add_root(name, value, kind, number, 0 if mine else _LIBRARY, is_self)
        if mine and not at_module_level:
            for name, value in list(frame.f_globals.items()):
                if not name.startswith("__"):
                    self.add_root(name, value, "global", number, 0.2, False)

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
            self.push(value, replace(way, rank=way.rank + 1.5) if id(value) in parts else way)

    # -- the walk itself

    def push(self, value: Any, way: Way) -> None:
        if value is None or isinstance(value, (str, int, float, bool, bytes)):
            return
        heapq.heappush(self.queue, (way.rank, way.depth, next(self.order), value, way))

    def run(self) -> None:
        while self.queue and self.visits < _MAX_VISITS:
            _, _, _, value, way = heapq.heappop(self.queue)
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
        step = replace(way, depth=way.depth + 1, holder=holder)
        for table, table_kind in (("_parameters", "parameter"), ("_buffers", "buffer")):
            for name, tensor in list((inside.get(table) or {}).items()):
                if tensor is None:
                    continue
                full = _attribute(way.name, name)
                spot = step if way.detached else replace(step, attribute=name)
                self.note(tensor, full, kind or ("loss-weight" if is_loss else table_kind), spot)
                if table == "_parameters":
                    self.parameters.setdefault(id(tensor), full)
                    if tensor.is_leaf and tensor.grad is not None:
                        self.note(tensor.grad, f"{full}.grad", "gradient", spot)
        for name, child in list((inside.get("_modules") or {}).items()):
            if child is not None:
                path = f"{here.path}.{name}".strip(".")
                inner = way.holder if way.detached else replace(here, module=child, path=path)
                self.push(child, replace(step, name=_child(module, way.name, name), holder=inner))
        for name, value in list(attributes.items()):
            if name in MODULE_FIELDS or isinstance(value, (bool, int, float, str, type(None))):
                continue
            spot = replace(step, name=_attribute(way.name, name), rank=way.rank + 0.4, detached=True)
            if not way.detached:
                spot = replace(spot, attribute=name, kind="plain-attribute", container=_container(value))
            if spot.container:
                spot = replace(spot, kind="plain-container")
            self.push(value, spot)
        for cls in type(module).__mro__[:-2]:
            if cls.__module__.startswith("torch."):
                break
            for name, value in list(vars(cls).items()):
                if values.is_tensor(value):
                    spot = replace(step, attribute=name, kind="plain-attribute")
                    self.note(value, _attribute(way.name, name), kind or "plain-attribute", spot)

    def visit_plain(self, value: Any, way: Way) -> None:
        step = replace(way, depth=way.depth + 1)
        if issubclass(type(value), dict) or isinstance(value, collections.UserDict):
            data = values.attributes(value).get("data", {}) if isinstance(value, collections.UserDict) else value
            for key, item in list(itertools.islice(dict.items(data), _MAX_ELEMENTS)) if isinstance(data, dict) else ():
                self.push(item, replace(step, name=f"{way.name}[{_key(key)}]"))
            return
        if isinstance(value, (list, tuple, collections.deque)):
            fields = getattr(type(value), "_fields", None)
            for number, item in enumerate(itertools.islice(value, _MAX_ELEMENTS)):
                part = f".{fields[number]}" if fields else f"[{number}]"
                self.push(item, replace(step, name=f"{way.name}{part}"))
            return
        if isinstance(value, (set, frozenset)):
            for item in list(itertools.islice(value, _MAX_ELEMENTS)):
                self.push(item, replace(step, name=f"{way.name}[…]"))
            return
        if isinstance(value, torch.autograd.function.FunctionCtx):
            for name, item in values.attributes(value).items():
                self.push(item, replace(step, name=_attribute(way.name, name), kind="function-context"))
            return
        if not is_walked(value):
            return
        kind = way.kind if way.kind in ("batch", "plain-attribute", "plain-container") else "object-attribute"
        for name, item in values.attributes(value).items():
            if isinstance(name, str):
                attribute = f"{way.attribute}.{name}" if kind == "plain-attribute" else way.attribute
                self.push(item, replace(step, name=_attribute(way.name, name), kind=kind, attribute=attribute))

    def visit_optimizer(self, optimizer: Any, way: Way) -> None:
        state = values.attributes(optimizer).get("state") or {}
        for parameter, entries in list(state.items()):
            if not isinstance(entries, dict):
                continue
            name = self.parameters.get(id(parameter)) or _group_name(optimizer, parameter)
            for key, tensor in list(entries.items()):
                place = f"state[{name}][{_key(key)}]"
                full = f"{type(optimizer).__name__}.{place}"
                spot = replace(way, holder=Holder(optimizer, optimizer, way.name, ""), attribute=place)
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

_MACHINERY = {
    "torch", "builtins", "threading", "logging", "_io", "io", "re", "numpy", "locus", "weakref", "functools",
    "itertools", "abc", "_abc", "_thread", "queue", "asyncio", "concurrent", "multiprocessing", "subprocess", "socket",
    "ctypes", "_ctypes", "importlib", "_frozen_importlib", "_frozen_importlib_external", "unittest", "pytest",
    "_pytest", "pluggy", "matplotlib", "PIL", "pandas", "zipimport", "random", "_random", "datetime", "decimal",
    "pathlib", "enum", "inspect", "ast", "typing",
}  # fmt: skip


def _attribute(name: str, attribute: str) -> str:
    return f"{name}[{attribute}]" if attribute.isdigit() else f"{name}.{attribute}"


def _key(key: Any) -> str:
    if isinstance(key, str):
        return json.dumps(key, ensure_ascii=False)
    return repr(key) if isinstance(key, (int, float, bool)) else "…"


def _child(module: Any, name: str, child: str) -> str:
    if isinstance(module, torch.nn.ModuleDict):
        return f"{name}[{json.dumps(child)}]"
    return _attribute(name, child)


def _container(value: Any) -> str | None:
    for cls, name in ((dict, "dict"), (tuple, "tuple"), (list, "list"), (set, "set"), (collections.deque, "deque")):
        if isinstance(value, cls):
            return name
    return None


def _group_name(optimizer: Any, parameter: Any) -> str:
    """A parameter that no module has, by its place in the optimizer."""
    for group, entry in enumerate(values.attributes(optimizer).get("param_groups") or []):
        for number, candidate in enumerate(entry.get("params", ())):
            if candidate is parameter:
                return f"param_groups[{group}][{number}]"
    return "…"
