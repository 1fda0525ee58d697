"""Puts new objects where some objects hold old ones: in place where that can be, else in a new object around them.

All that is held comes from one walk (see objects.py).
"""

from __future__ import annotations

import collections
import copy
import functools
import types
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import torch

from locus.program import objects, values
from locus.vocabulary import Kind


class Held(NamedTuple):
    """A tensor, and the name that says most about it."""

    tensor: torch.Tensor
    name: str
    kind: Kind


class Graph:
    """What some objects reach, with what is needed to move it."""

    def __init__(self, roots: list[tuple[str, object]]):
        walk = objects.Walk(deep=True, edges=True, bounded=False, enters=lambda value: not _why_left(value))
        for name, value in roots:
            walk.add(value, name)
        walk.run()
        self.entered = [node.value for node in walk.entered]
        self._held: dict[int, list[tuple[object, object]]] = collections.defaultdict(list)
        for holder, key, value in walk.edges:
            self._held[id(holder.value)].append((key, value))
        ways: dict[int, list[objects.Node]] = collections.defaultdict(list)
        for node in [*walk.tensors, *walk.entered]:
            ways[id(node.value)].append(node)
        best = [nodes[0] if len(nodes) == 1 else min(nodes, key=_worth) for nodes in ways.values()]
        self.tensors = [Held(n.value, n.name, n.kind) for n in best if isinstance(n.value, torch.Tensor)]
        self.left = [(node.name, why) for node in best if (why := _why_left(node.value))]
        """What is not moved, and why."""
        with_gradients = [n.parent for n in walk.tensors if n.kind == "gradient" and n.parent is not None]
        self.leaves = [node.value for node in with_gradients if isinstance(node.value, torch.Tensor)]
        """The tensors that have a gradient."""
        self.buffers = {id(node.value) for node in walk.tensors if _table(node) == "_buffers"}
        self.host = {id(tensor) for value in self.entered for tensor in _host_tensors(value)}
        """Tensors that belong on the CPU, such as the count of an optimizer's steps; by id()."""

    def exchange(self, replaced: Mapping[int, object]) -> dict[int, object]:
        """Puts new ones (by the id() of the old) where the old is held; all that had to be made anew, by old id()."""
        new = dict(replaced)
        for value in self._fixed_inside_out():
            changed = {key: new[id(inner)] for key, inner in self._held[id(value)] if id(inner) in new}
            if changed:
                new[id(value)] = _rebuilt(value, changed)
        for value in self.entered:
            if not _is_fixed(value):
                for key, inner in self._held[id(value)]:
                    if id(inner) in new:
                        _put(value, key, new[id(inner)])
        return new

    def _fixed_inside_out(self) -> Iterator[object]:
        """What can't be changed in place, inner ones before those that hold them (there are no cycles among them)."""
        done: set[int] = set()
        for start in self.entered:
            stack = [start] if _is_fixed(start) else []
            while stack:
                value = stack[-1]
                inner = [each for _, each in self._held[id(value)] if id(each) not in done and _is_fixed(each)]
                if inner and id(value) not in done:
                    stack += inner
                    continue
                stack.pop()
                if id(value) not in done:
                    done.add(id(value))
                    yield value


def _table(node: objects.Node) -> str:
    """The table of a module or an optimizer that something is in."""
    owned = node.parent is not None and isinstance(node.parent.value, (torch.nn.Module, torch.optim.Optimizer))
    return str(node.key[0]) if owned and isinstance(node.key, tuple) else ""


def _worth(node: objects.Node) -> tuple[float, ...]:
    """The least is the best of several ways to one tensor. An optimizer's groups say only who changes it."""
    return _table(node) == "param_groups", objects.standing(node.kind, node.name), node.rank, node.depth, len(node.name)


def _why_left(value: object) -> str:
    if isinstance(value, torch.Generator):
        return "a generator can't be moved: make one with device="
    if isinstance(value, (torch.utils.data.DataLoader, torch.utils.data.Dataset)):
        return "it gives CPU tensors to its workers: place each batch"
    return ""


def _host_tensors(value: object) -> Iterator[torch.Tensor]:
    """PyTorch counts steps and keeps learning rates on the CPU, unless the optimizer is capturable or fused."""
    if isinstance(value, torch.nn.utils.rnn.PackedSequence):
        yield value.batch_sizes
    if not isinstance(value, torch.optim.Optimizer):
        return
    for group in value.param_groups:
        if group.get("capturable") or group.get("fused"):
            continue
        yield from (v for k, v in group.items() if k != "params" and values.is_tensor(v) and v.dim() == 0)
        steps = [value.state.get(parameter, {}).get("step") for parameter in group["params"]]
        yield from (step for step in steps if values.is_tensor(step))


def _is_fixed(value: object) -> bool:
    """Whether an object can't be changed in place."""
    if isinstance(value, (tuple, frozenset, types.MethodType)):
        return True
    made_by = getattr(type(value), "__dataclass_params__", None)
    return made_by is not None and bool(made_by.frozen)


def _rebuilt(value: object, new: dict[object, object]) -> object:
    """A new object with these parts exchanged, for what can't be changed."""
    if isinstance(value, tuple):
        items = [new.get(number, item) for number, item in enumerate(tuple.__iter__(value))]
        return getattr(type(value), "_make", type(value))(items)
    if isinstance(value, frozenset):
        return type(value)(new.get(item, item) for item in value)
    if isinstance(value, types.MethodType):
        return types.MethodType(value.__func__, new["__self__"])
    made = copy.copy(value)
    for name, item in new.items():
        object.__setattr__(made, str(name), item)
    return made


def _put(value: Any, key: Any, new: object) -> None:
    """Exchanges one part in place."""
    if isinstance(value, collections.UserDict):
        value = objects.mapping(value)
    if isinstance(value, (dict, list, collections.deque)):
        value[key] = new
    elif isinstance(value, set):
        value.discard(key)
        value.add(new)
    elif isinstance(value, types.FunctionType) and isinstance(key, int):
        value.__closure__[key].cell_contents = new  # type: ignore[index]
    elif isinstance(value, functools.partial):
        state = {"func": value.func, "args": value.args, "keywords": value.keywords, key: new}
        value.__setstate__((*state.values(), vars(value) or None))  # type: ignore[attr-defined]
    elif isinstance(key, tuple):  # in a table of a module or an optimizer
        table = getattr(value, key[0])
        for step in key[1:-1]:
            table = table[step]
        table[key[-1]] = new
    else:
        object.__setattr__(value, key, new)
