"""What objects hold, what that is called and what it is to the program: the one walk behind the names of findings,
locus.where(), locus.place() and the models of a report, so that all of them say the same.

Reads only what is simply there (see values.py), follows cycles, never recurses, is bounded. Changes nothing.
"""

from __future__ import annotations

import collections
import contextlib
import functools
import heapq
import itertools
import json
import types
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeGuard

import torch

from locus.program import places, values
from locus.vocabulary import Kind

_MAX_VISITS = 60_000
_LAST = 1_000.0  # the rank of optimizers: what they hold is called after the parameters of modules
_PLAIN_STEP = 0.4  # a plain attribute comes after what the module knows of

# What a name is worth when a tensor has several: the kinds that explain a placement come first, see standing().
_OWNED: set[Kind] = {"parameter", "buffer", "loss-weight", "optimizer-state", "gradient"}
_ATTACHED: set[Kind] = {"plain-attribute", "plain-container", "function-context"}
_TABLES: dict[str, Kind] = {"_parameters": "parameter", "_buffers": "buffer", "_modules": "variable"}
_SEQUENCES: tuple[Any, ...] = (list, tuple, collections.deque, set, frozenset)
_LOSS = torch.nn.modules.loss._Loss
_order = itertools.count()
_CONTAINERS = ((dict, "dict"), (tuple, "tuple"), (list, "list"), (set, "set"), (collections.deque, "deque"))


class Holder(NamedTuple):
    """The module (or optimizer) that holds a tensor, and how it is reached."""

    module: Any
    root: Any
    root_name: str
    path: str


class Way(NamedTuple):
    """By which holder a tensor was reached, and where in it."""

    holder: Holder | None
    attribute: str = ""
    container: str | None = None


class Node:
    """Something that was reached, and the way to it."""

    __slots__ = ("depth", "detached", "frame", "key", "kind", "label", "order", "parent", "rank", "value")

    def __init__(
        self, value: object, label: str, kind: Kind, parent: Node | None, key: object, rank: float, frame: int,
        detached: bool,
    ):  # fmt: skip
        self.value, self.label, self.kind, self.parent, self.key, self.rank = value, label, kind, parent, key, rank
        self.detached = detached
        """Below something that the module's .to() does not reach."""
        self.depth: int = parent.depth + 1 if parent is not None else 0
        self.frame: int = parent.frame if parent is not None else frame
        self.order = next(_order)

    @property
    def chain(self) -> list[Node]:
        """The way to it, from the root."""
        found = []
        node: Node | None = self
        while node is not None:
            found.append(node)
            node = node.parent
        return found[::-1]

    @property
    def name(self) -> str:
        """The way to it, as a person would write it; what an optimizer holds is called by the optimizer's class."""
        labels: list[str] = []
        for node in self.chain:
            if node is not self and is_optimizer(node.value):
                labels = [type(node.value).__name__]
            else:
                labels.append(node.label)
        return "".join(labels)

    @property
    def short_name(self) -> str:
        """The last step of the way, for a tree."""
        above = self.parent.label if self.kind == "gradient" and self.parent is not None else ""
        return (above + self.label).removeprefix(".")

    @property
    def way(self) -> Way:
        """The outermost module on the way to it (or the optimizer), and the place in that."""
        chain = self.chain
        for optimizer in chain[::-1]:
            if is_optimizer(optimizer.value):
                place = "".join(node.label for node in chain[optimizer.depth + 1 :]).removeprefix(".")
                return Way(Holder(optimizer.value, optimizer.value, optimizer.name, ""), place)
        rest = list(itertools.dropwhile(lambda node: not values.is_module(node.value), chain))
        if not rest:
            return Way(None)
        first = rest.pop(0)
        module, path = first.value, []
        while rest and isinstance(rest[0].key, tuple) and rest[0].key[0] == "_modules":
            module = rest[0].value
            path.append(rest.pop(0).key[1])  # type: ignore[index]
        holder = Holder(module, first.value, first.name, ".".join(path))
        if not rest:
            return Way(holder)
        spot = rest[0]
        if isinstance(spot.key, tuple):
            return Way(holder, spot.key[1])
        within = [node.label for node in rest[1:] if spot.kind == "plain-attribute" and node.label == f".{node.key}"]
        return Way(holder, "".join([str(spot.key), *within]), container(spot.value))


def standing(kind: Kind, name: str, exact: bool = True) -> float:
    """How much a name says about why the tensor is where it is; less is more. `exact`: of the tensor, not of a view."""
    if kind in _OWNED:
        return 0 if exact else 3
    if kind == "batch":
        return 1 if exact else 3
    if kind in _ATTACHED:
        return 2 if exact else 3
    if kind == "object-attribute":
        # A view of what an object holds says more about its device than the variable that holds the view.
        return (4 if exact else 4.5) if "[" not in name else 6 if exact else 7
    return (5 if name.isidentifier() else 6) if exact else 7


class Walk:
    """One walk over what some objects reach: `add` them, `run`, and read `tensors` and `entered`."""

    def __init__(
        self, *, wants: Callable[[object], bool] | None = None, enters: Callable[[object], bool] | None = None,
        tensors: bool = True, gradients: bool = True, deep: bool = False, edges: bool = False, bounded: bool = True,
        max_depth: int = 1 << 30, max_elements: int | None = None, seen: set[int] | None = None,
    ):  # fmt: skip
        """`wants`: which tensors; `enters`: which other objects; `deep`: also what is behind functions, hooks and
        objects of PyTorch's own, and what an optimizer holds beside its state. Ids in `seen` are not entered again.
        """
        self.tensors: list[Node] = []
        """The tensors and generators, once for each way to them."""
        self.entered: list[Node] = []
        """All other objects, by the first way to them. Keeps them alive, so that no id is used twice."""
        self.edges: list[tuple[Node, object, object]] = []
        """(holder, key, value) of all that is held, where it was asked for."""
        self.seen = seen if seen is not None else set()
        self._wants, self._enters, self._with_tensors, self._with_edges = wants, enters, tensors, edges
        self._with_gradients, self._deep, self._max_depth, self._max_elements = gradients, deep, max_depth, max_elements
        self._max_visits = _MAX_VISITS if bounded else 1 << 60
        self._fields = _NEVER if deep else _MODULE_FIELDS
        self._barren = BARREN - {types.FunctionType, types.MethodType} if deep else BARREN
        self._queue: list[tuple[float, int, int, Node]] = []
        self._roots: list[tuple[object, str, Kind, float, int]] = []
        self._parameters: dict[int, tuple[Node, str]] = {}

    def add(self, value: object, label: str, kind: Kind = "variable", rank: float = 0.0, frame: int = 0) -> None:
        """Where to begin."""
        self._roots.append((value, label, kind, rank, frame))

    def run(self) -> None:
        """Walks until everything is reached. What comes first by rank, and then by depth, gives an object its name."""
        with torch._C.DisableTorchFunctionSubclass():
            for value, label, kind, rank, frame in self._roots:
                self._reach(None, None, label, value, kind, rank, frame=frame)
            self._roots.clear()
            while self._queue:
                rank, _, _, node = heapq.heappop(self._queue)
                if id(node.value) in self.seen or (len(self.entered) >= self._max_visits and rank < _LAST):
                    continue
                self.seen.add(id(node.value))
                self.entered.append(node)
                try:
                    if self._enters is None or self._enters(node.value):
                        self._enter(node)
                except KeyboardInterrupt:
                    raise
                except BaseException:  # what refuses to be looked at costs no other its name
                    continue

    def tree(self) -> list[Node]:
        """The tensors and what holds them, each before what is in it; without what holds no tensor."""
        children: dict[int, list[Node]] = collections.defaultdict(list)
        live: set[int] = set()
        roots: list[Node] = []
        for tensor in self.tensors:
            node: Node | None = tensor
            while node is not None and id(node) not in live:
                live.add(id(node))
                (roots if node.parent is None else children[id(node.parent)]).append(node)
                node = node.parent
        found, stack = [], sorted(roots, key=lambda root: -root.order)
        while stack:
            node = stack.pop()
            found.append(node)
            stack += sorted(children[id(node)], key=lambda child: -child.order)
        return found

    def _reach(
        self, holder: Node | None, key: object, label: str, value: object, kind: Kind, step: float = 0.0,
        detached: bool = False, frame: int = 0,
    ) -> None:  # fmt: skip
        cls = type(value)
        if cls in self._barren:
            return
        if holder is not None:
            step += holder.rank
            detached = detached or holder.detached
            if self._with_edges:
                self.edges.append((holder, key, value))
        if issubclass(cls, (torch.Tensor, torch.Generator)):
            if not self._with_tensors:
                return
            # A finding explains the gradient of any other leaf by how the leaf was made.
            gradient = gradient_of(value) if self._with_gradients and (self._deep or isinstance(key, tuple)) else None
            node: Node | None = None
            if self._wants is None or self._wants(value):
                node = Node(value, label, kind, holder, key, step, frame, detached)
                self.tensors.append(node)
            if gradient is not None and (self._wants is None or self._wants(gradient)):
                node = node or Node(value, label, kind, holder, key, step, frame, detached)
                self.tensors.append(Node(gradient, ".grad", "gradient", node, "grad", step, frame, detached))
                self.tensors[-1].depth = node.depth
        elif id(value) not in self.seen and not issubclass(cls, (str, int, float, bytes)):
            step += _LAST if is_optimizer(value) else 0
            node = Node(value, label, kind, holder, key, step, frame, detached)
            heapq.heappush(self._queue, (step, node.depth, node.order, node))

    def _enter(self, node: Node) -> None:
        value, cls = node.value, type(node.value)
        if issubclass(cls, torch.nn.Module):
            self._enter_module(node)
        elif issubclass(cls, torch.optim.Optimizer):
            self._enter_optimizer(node)
        elif node.depth >= self._max_depth:
            return
        elif issubclass(cls, (dict, collections.UserDict)):
            for key, item in list(itertools.islice(dict.items(mapping(value)), self._max_elements)):
                self._reach(node, key, f"[{written(key)}]", item, node.kind)
        elif base := next((base for base in _SEQUENCES if issubclass(cls, base)), None):
            fields = getattr(cls, "_fields", ()) if base is tuple else ()
            ordered = base not in (set, frozenset)
            for number, item in enumerate(list(itertools.islice(base.__iter__(value), self._max_elements))):
                label = f".{fields[number]}" if number < len(fields) else f"[{number}]" if ordered else "[…]"
                self._reach(node, number if ordered else item, label, item, node.kind)
        elif issubclass(cls, torch.autograd.function.FunctionCtx):
            self._enter_attributes(node, "function-context")
        elif _is_walked(value) or (self._deep and f"{cls.__module__}.".startswith(_TORCH_OBJECTS)):
            kept = ("batch", "plain-attribute", "plain-container", "optimizer-state")
            self._enter_attributes(node, node.kind if node.kind in kept else "object-attribute")
        elif self._deep:
            for key, label, item in _behind(value):
                self._reach(node, key, label, item, node.kind)

    def _enter_attributes(self, node: Node, kind: Kind) -> None:
        for name, item in values.attributes(node.value).items():
            if isinstance(name, str):
                self._reach(node, name, _part(name), item, kind, places.is_internal(node.value, name))

    def _enter_module(self, node: Node) -> None:
        module = node.value
        inside, keyed = values.attributes(module), isinstance(module, (torch.nn.ModuleDict, torch.nn.ParameterDict))
        for table, kind in _TABLES.items():
            for name, item in list((inside.get(table) or {}).items()):
                if item is None:
                    continue
                label = f"[{json.dumps(name)}]" if keyed else _part(name)
                if table == "_modules":
                    kind = node.kind
                elif node.detached or isinstance(module, _LOSS):
                    kind = "plain-container" if node.detached else "loss-weight"
                self._reach(node, (table, name), label, item, kind)
                if table == "_parameters":
                    self._parameters.setdefault(id(item), (node, label))
        for name in [name for name in inside if name not in self._fields]:
            item = inside[name]
            if type(item) not in self._barren:
                kind = node.kind if node.detached else "plain-container" if container(item) else "plain-attribute"
                self._reach(node, name, _part(name), item, kind, _PLAIN_STEP, True)
        for cls in type(module).__mro__:
            if cls.__module__.startswith("torch."):
                break
            for name, item in vars(cls).items():
                if issubclass(type(item), torch.Tensor):
                    kind = "plain-container" if node.detached else "plain-attribute"
                    self._reach(node, name, _part(name), item, kind, detached=True)

    def _enter_optimizer(self, node: Node) -> None:
        inside = values.attributes(node.value)
        kind: Kind = "optimizer-state"
        spots: dict[int, str] = {}
        for number, group in enumerate(inside.get("param_groups") or ()):
            for place, item in enumerate(group.get("params", ())):
                spots[id(item)] = spot = f"param_groups[{number}][{place}]"
                if self._deep:
                    self._reach(node, ("param_groups", number, "params", place), f".{spot}", item, "parameter")
            for name, item in group.items() if self._deep else ():
                if name != "params":
                    label = f".param_groups[{number}][{written(name)}]"
                    self._reach(node, ("param_groups", number, name), label, item, kind)
        for parameter, entries in list((inside.get("state") or {}).items()):
            known = self._parameters.get(id(parameter))
            name = f"{known[0].name}{known[1]}" if known else spots.get(id(parameter)) or written(parameter)
            if not isinstance(entries, dict):
                self._reach(node, ("state", parameter), f".state[{name}]", entries, kind)
                continue
            for key, item in list(entries.items()):
                self._reach(node, ("state", parameter, key), f".state[{name}][{written(key)}]", item, kind)
        for name, item in inside.items() if self._deep else ():
            if name not in ("state", "param_groups"):
                self._reach(node, name, f".{name}", item, kind)


# -- how parts are written, and what is looked into


def _part(name: str) -> str:
    return f"[{name}]" if name.isdigit() else f".{name}"


def written(key: object) -> str:
    """The key of an element, where it can be written down."""
    if isinstance(key, str):
        return json.dumps(key, ensure_ascii=False)
    return repr(key) if isinstance(key, (int, float, bool)) else "…"


def container(value: object) -> str | None:
    """The kind of a plain container, None for what is none."""
    return next((name for cls, name in _CONTAINERS if issubclass(type(value), cls)), None)


def mapping(value: object) -> dict[object, object]:
    """A dict, or the one that a UserDict has inside."""
    data = values.attributes(value).get("data") if issubclass(type(value), collections.UserDict) else value
    return data if isinstance(data, dict) else {}


def is_optimizer(value: object) -> TypeGuard[torch.optim.Optimizer]:
    return issubclass(type(value), torch.optim.Optimizer)


def gradient_of(value: object) -> torch.Tensor | None:
    """The gradient of a leaf; None where there is none, or where it can't be asked."""
    try:
        return value.grad if value.is_leaf else None  # type: ignore[attr-defined]  # else caught
    except Exception:  # a generator, or a tensor that is not made yet
        return None


def _behind(value: object) -> Iterator[tuple[object, str, object]]:
    """What functions of the program, methods and partial calls carry along."""
    if isinstance(value, types.FunctionType) and places.is_user_file(value.__code__.co_filename):
        for number, (name, cell) in enumerate(zip(value.__code__.co_freevars, value.__closure__ or ())):
            with contextlib.suppress(ValueError):  # not bound yet
                yield number, f".{name}", cell.cell_contents
        yield "__defaults__", ".__defaults__", value.__defaults__
        yield "__kwdefaults__", ".__kwdefaults__", value.__kwdefaults__
    elif isinstance(value, (types.MethodType, functools.partial)):
        for name in ("__self__",) if isinstance(value, types.MethodType) else ("func", "args", "keywords"):
            yield name, f".{name}", getattr(value, name)


def _is_walked(value: object) -> bool:
    """Objects of the program's and of libraries' own classes; not the machinery of Python and PyTorch."""
    if isinstance(value, _NOT_WALKED):
        return False
    home = (getattr(type(value), "__module__", "") or "").partition(".")[0]
    return home == "types" or home not in _MACHINERY


_NEVER = {"_parameters", "_buffers", "_modules", "_flat_weights"}
_MODULE_FIELDS = set(vars(torch.nn.Module())) | _NEVER | {"_is_full_backward_hook", "_hf_hook", "_old_forward"}
_NOT_WALKED = (
    type, types.FunctionType, types.MethodType, types.BuiltinFunctionType, types.ModuleType, types.FrameType,
    types.GeneratorType, types.CoroutineType, types.AsyncGeneratorType,
)  # fmt: skip
BARREN: set[type] = {
    str, bytes, bytearray, int, float, complex, bool, type(None), type, torch.device, torch.dtype, torch.Size, range,
    slice, types.FunctionType, types.MethodType, types.BuiltinFunctionType, types.CodeType, property,
}  # fmt: skip
"""What most names of a program stand for, and no tensor is in."""
# The classes of PyTorch whose objects hold tensors of the program; the rest of it is machinery.
_TORCH_OBJECTS = ("torch.distributions.", "torch.optim.", "torch.amp.", "torch.cuda.amp.")
_MACHINERY = {
    "torch", "builtins", "threading", "logging", "_io", "io", "re", "numpy", "locus", "weakref", "functools",
    "itertools", "abc", "_abc", "_thread", "queue", "asyncio", "concurrent", "multiprocessing", "subprocess", "socket",
    "ctypes", "_ctypes", "importlib", "_frozen_importlib", "_frozen_importlib_external", "unittest", "pytest",
    "_pytest", "pluggy", "matplotlib", "PIL", "pandas", "zipimport", "random", "_random", "datetime", "decimal",
    "pathlib", "enum", "inspect", "ast", "typing",
}  # fmt: skip
