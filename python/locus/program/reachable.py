"""Everything that an object reaches, as a graph: what holds what, and how one part is exchanged for another.

Reads only what is simply there (see values.py), follows cycles, never recurses. Moves nothing itself.
"""

from __future__ import annotations

import collections
import copy
import dataclasses
import functools
import types
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch

from locus.program import names, places, values

_PLAIN = (str, bytes, bytearray, int, float, complex, bool, type(None), type, torch.dtype, torch.Size)
# The classes of PyTorch whose objects hold tensors of the program; the rest of it is machinery.
_TORCH_OBJECTS = ("torch.distributions.", "torch.optim.", "torch.amp.", "torch.cuda.amp.")

Part = tuple[Any, str, Any]
"""(key, label, value) of something that an object holds."""


class Holder(NamedTuple):
    """How to look into a kind of object, and how to exchange what is in it."""

    parts: Callable[[Any], Iterator[Part]]
    put: Callable[[Any, Any, Any], None] | None = None
    """Exchanges one part in place; None for what can't be changed."""
    rebuild: Callable[[Any, dict[Any, Any]], Any] | None = None
    """A new object with these parts exchanged, for what can't be changed."""


class Node:
    """One object that was reached, and by which way first."""

    __slots__ = ("edges", "holder", "kind", "label", "parent", "value")

    def __init__(self, value: Any, parent: Node | None, label: str, kind: str, holder: Holder | None):
        self.value, self.parent, self.label, self.kind, self.holder = value, parent, label, kind, holder
        self.edges: list[tuple[Any, Node]] = []

    @property
    def name(self) -> str:
        """The way to it, as a person would write it."""
        labels = []
        node: Node | None = self
        while node is not None:
            labels.append(node.label)
            node = node.parent
        return "".join(reversed(labels))


class Graph:
    """What some objects reach. `nodes` are in the order in which they were reached, the nearest first."""

    def __init__(self, roots: list[tuple[str, Any]]):
        self.nodes: list[Node] = []
        self.left: list[Node] = []
        """What was not entered on purpose; `kind` says why."""
        self.host: set[int] = set()
        """Tensors that belong on the CPU, such as the count of an optimizer's steps; by id()."""
        self.buffers: set[int] = set()
        self._by_id: dict[int, Node] = {}
        self.roots = [self._reach(value, None, name, "tensor") for name, value in roots]
        place = 0
        while place < len(self.nodes):
            node = self.nodes[place]
            place += 1
            if node.holder is not None:
                self._enter(node)

    def _enter(self, node: Node) -> None:
        value = node.value
        if isinstance(value, torch.optim.Optimizer):
            self.host |= {id(tensor) for tensor in _host_state(value)}
        elif values.is_module(value):
            self.buffers |= {id(tensor) for tensor in value._buffers.values() if tensor is not None}
        for key, label, part in node.holder.parts(value):
            reached = self._reach(part, node, label, _kind(node, key, part))
            if reached is not None:
                node.edges.append((key, reached))

    def _reach(self, value: Any, parent: Node | None, label: str, kind: str) -> Node | None:
        if isinstance(value, _PLAIN):
            return None
        known = self._by_id.get(id(value))
        if known is not None:
            return known
        why = _why_left(value)
        holder = None if why or values.is_tensor(value) else holder_of(value)
        if holder is None and not why and not values.is_tensor(value):
            return None
        node = Node(value, parent, label, why or kind, holder)
        self._by_id[id(value)] = node
        (self.left if why else self.nodes).append(node)
        if values.is_tensor(value) and value.is_leaf and value.grad is not None:
            node.edges.append(("grad", self._reach(value.grad, node, ".grad", "gradient")))
        return node

    def tensors(self) -> list[Node]:
        """The nodes that are tensors."""
        return [node for node in self.nodes if node.holder is None]

    def exchange(self, new: dict[int, Any]) -> dict[int, Any]:
        """Puts `new` (by the id() of the old) wherever the old is held; all that had to be made anew, by old id()."""
        new = dict(new)
        for node in self._fixed_inside_out():
            changed = {key: new[id(inner.value)] for key, inner in node.edges if id(inner.value) in new}
            if changed:
                new[id(node.value)] = node.holder.rebuild(node.value, changed)
        for node in self.nodes:
            if node.holder is None or node.holder.put is None:
                continue
            for key, inner in node.edges:
                if id(inner.value) in new:
                    node.holder.put(node.value, key, new[id(inner.value)])
        return new

    def _fixed_inside_out(self) -> Iterator[Node]:
        """What can't be changed in place, inner ones before those that hold them (there are no cycles among them)."""
        done: set[int] = set()
        for start in self.nodes:
            stack = [start] if start.holder is not None and start.holder.rebuild is not None else []
            while stack:
                node = stack[-1]
                inner = [n for _, n in node.edges if n.holder is not None and n.holder.rebuild is not None]
                waiting = [n for n in inner if id(n) not in done] if id(node) not in done else []
                if waiting:
                    stack += waiting
                    continue
                stack.pop()
                if id(node) not in done:
                    done.add(id(node))
                    yield node


def holder_of(value: Any) -> Holder | None:
    """How to look into an object; None for what holds nothing of the program's."""
    if isinstance(value, torch.nn.utils.rnn.PackedSequence):
        return _PACKED
    for cls, holder in _HOLDERS:
        if isinstance(value, cls):
            return holder
    if isinstance(value, types.FunctionType):
        return _FUNCTION if places.is_user_file(value.__code__.co_filename) else None
    cls = type(value)
    home = f"{getattr(cls, '__module__', '') or ''}."
    if not names.is_walked(value) and not home.startswith(_TORCH_OBJECTS):
        return None
    frozen = dataclasses.is_dataclass(value) and cls.__dataclass_params__.frozen
    return _FROZEN if frozen else _OBJECT


def _why_left(value: Any) -> str:
    if isinstance(value, torch.Generator):
        return "a generator can't be moved: make one with device="
    if isinstance(value, (torch.utils.data.DataLoader, torch.utils.data.Dataset)):
        return "it gives CPU tensors to its workers: place each batch"
    return ""


def _kind(node: Node, key: Any, part: Any) -> str:
    if isinstance(part, torch.nn.Parameter):
        return "parameter"
    if values.is_module(node.value):
        table = key[0] if isinstance(key, tuple) else ""
        return {"_buffers": "buffer", "_modules": node.kind}.get(table, "plain attribute")
    if isinstance(node.value, torch.optim.Optimizer):
        return "optimizer state"
    return node.kind


def _host_state(optimizer: torch.optim.Optimizer) -> Iterator[torch.Tensor]:
    """PyTorch counts steps and keeps learning rates on the CPU, unless the optimizer is capturable or fused."""
    for group in optimizer.param_groups:
        if group.get("capturable") or group.get("fused"):
            continue
        yield from (v for k, v in group.items() if k != "params" and values.is_tensor(v) and v.dim() == 0)
        for parameter in group["params"]:
            step = optimizer.state.get(parameter, {}).get("step")
            if values.is_tensor(step):
                yield step


# -- the kinds of objects


def _dict_parts(value: Any) -> Iterator[Part]:
    for key, item in list(value.items()):
        if not isinstance(item, _PLAIN):
            yield key, f"[{key!r}]" if isinstance(key, (str, int, float, bool)) else "[…]", item


def _list_parts(value: Any) -> Iterator[Part]:
    for number, item in enumerate(value):
        if not isinstance(item, _PLAIN):
            yield number, f"[{number}]", item


def _tuple_parts(value: Any) -> Iterator[Part]:
    fields = getattr(type(value), "_fields", ())
    for number, item in enumerate(tuple.__iter__(value)):
        if not isinstance(item, _PLAIN):
            yield number, f".{fields[number]}" if number < len(fields) else f"[{number}]", item


def _rebuild_tuple(value: Any, new: dict[int, Any]) -> Any:
    items = [new.get(number, item) for number, item in enumerate(tuple.__iter__(value))]
    make = getattr(type(value), "_make", None)
    return make(items) if make is not None else type(value)(items)


def _set_parts(value: Any) -> Iterator[Part]:
    for item in list(value):
        yield item, "[…]", item


def _put_in_set(value: Any, key: Any, new: Any) -> None:
    value.discard(key)
    value.add(new)


def _module_parts(value: Any) -> Iterator[Part]:
    for table in ("_parameters", "_buffers", "_modules"):
        for name, item in list(getattr(value, table).items()):
            if item is not None:
                yield (table, name), f"[{name}]" if name.isdigit() else f".{name}", item
    for name, item in values.attributes(value).items():
        if name not in ("_parameters", "_buffers", "_modules") and not isinstance(item, _PLAIN):
            yield name, f".{name}", item


def _put_in_module(value: Any, key: Any, new: Any) -> None:
    if isinstance(key, tuple):
        getattr(value, key[0])[key[1]] = new
    else:
        object.__setattr__(value, key, new)


def _optimizer_parts(value: Any) -> Iterator[Part]:
    spots = {}
    for number, group in enumerate(value.param_groups):
        spots.update((id(p), f"param_groups[{number}][{place}]") for place, p in enumerate(group["params"]))
    for parameter, state in list(value.state.items()):
        yield ("state", parameter), f".state[{spots.get(id(parameter), '…')}]", state
    for name, item in values.attributes(value).items():
        if name != "state" and not isinstance(item, _PLAIN):
            yield name, f".{name}", item


def _put_in_optimizer(value: Any, key: Any, new: Any) -> None:
    if isinstance(key, tuple):
        value.state[key[1]] = new
    else:
        object.__setattr__(value, key, new)


def _object_parts(value: Any) -> Iterator[Part]:
    for name, item in values.attributes(value).items():
        if not isinstance(item, _PLAIN):
            yield name, f".{name}", item


def _rebuild_object(value: Any, new: dict[str, Any]) -> Any:
    made = copy.copy(value)
    for name, item in new.items():
        object.__setattr__(made, name, item)
    return made


def _function_parts(value: Any) -> Iterator[Part]:
    for number, (name, cell) in enumerate(zip(value.__code__.co_freevars, value.__closure__ or ())):
        try:
            yield number, f".{name}", cell.cell_contents
        except ValueError:  # not bound yet
            continue
    if value.__defaults__:
        yield "__defaults__", ".__defaults__", value.__defaults__
    if value.__kwdefaults__:
        yield "__kwdefaults__", ".__kwdefaults__", value.__kwdefaults__


def _put_in_function(value: Any, key: Any, new: Any) -> None:
    if isinstance(key, int):
        value.__closure__[key].cell_contents = new
    else:
        setattr(value, key, new)


def _partial_parts(value: Any) -> Iterator[Part]:
    yield "func", ".func", value.func
    yield "args", ".args", value.args
    yield "keywords", ".keywords", value.keywords


def _put_in_partial(value: Any, key: str, new: Any) -> None:
    state = {"func": value.func, "args": value.args, "keywords": value.keywords, key: new}
    value.__setstate__((state["func"], state["args"], state["keywords"], vars(value) or None))


def _method_parts(value: Any) -> Iterator[Part]:
    yield "__self__", ".__self__", value.__self__


def _rebuild_method(value: Any, new: dict[str, Any]) -> Any:
    return types.MethodType(value.__func__, new["__self__"])


def _packed_parts(value: Any) -> Iterator[Part]:
    for name in ("data", "sorted_indices", "unsorted_indices"):  # its batch_sizes must stay on the CPU
        if getattr(value, name) is not None:
            yield name, f".{name}", getattr(value, name)


def _set_item(value: Any, key: Any, new: Any) -> None:
    value[key] = new


_TUPLE = Holder(_tuple_parts, rebuild=_rebuild_tuple)
_OBJECT = Holder(_object_parts, put=lambda value, key, new: object.__setattr__(value, key, new))
_FROZEN = Holder(_object_parts, rebuild=_rebuild_object)
_FUNCTION = Holder(_function_parts, put=_put_in_function)
_PACKED = Holder(_packed_parts, rebuild=lambda value, new: value._replace(**new))

_HOLDERS: tuple[tuple[Any, Holder], ...] = (
    (torch.nn.Module, Holder(_module_parts, put=_put_in_module)),
    (torch.optim.Optimizer, Holder(_optimizer_parts, put=_put_in_optimizer)),
    (dict, Holder(_dict_parts, put=_set_item)),
    (tuple, _TUPLE),
    ((list, collections.deque), Holder(_list_parts, put=_set_item)),
    (set, Holder(_set_parts, put=_put_in_set)),
    (
        frozenset,
        Holder(_set_parts, rebuild=lambda value, new: type(value)(new.get(item, item) for item in value)),
    ),
    (types.MethodType, Holder(_method_parts, rebuild=_rebuild_method)),
    (functools.partial, Holder(_partial_parts, put=_put_in_partial)),
    (collections.UserDict, _OBJECT),
    (collections.UserList, _OBJECT),
)
