"""What a program keeps of a device's memory that it may not mean to keep: lists, dicts and sums that grow by a tensor a
step, and the graphs behind those tensors.

Only looks: runs none of the program's code and keeps nothing alive.
"""

from __future__ import annotations

import collections
import types
from typing import NamedTuple

import torch

from locus.program import histories, names, objects, values

_GROWS = ("list", "dict", "set", "deque")
_MAX_NODES = 64
_MAX_ADDED = 100_000
_ADDITION = "AddBackward0"

uses_hooks = False
"""Whether the program has ever asked for a say in what autograd saves. Then nothing of that is read: its own code would
run."""


class Holder(NamedTuple):
    """Something of the program's that keeps tensors of a device."""

    name: str
    """As the program would write it: `history`, `self.losses`."""
    container: str
    """list, dict, set, deque; "" for a tensor that sums others up."""
    frame: int
    """In which of the frames it was found."""
    tensors: int
    size: int
    """Their bytes, without what is behind them."""
    graphs: int
    """How many of them have a graph behind them."""
    spent: int
    """Of how many it is certain that no backward() can use the graph any more."""
    made: tuple[str, int] | None
    """The line that made the last of them."""


class KeptErrors(NamedTuple):
    """A container of exceptions, whose tracebacks keep the variables of the functions that they came through."""

    name: str
    made: set[tuple[str, int]]
    """The lines that made the tensors among those variables."""


def find(frames: list[types.FrameType], device: int) -> list[Holder]:
    """The containers and sums with tensors of a device, those with the most graphs first."""

    walk = names.reach(frames, lambda value: _is_on(value, device))
    held: dict[int, list[objects.Node]] = collections.defaultdict(list)
    holders: dict[int, objects.Node] = {}
    found: list[Holder] = []
    for tensor in walk.tensors:
        if tensor.kind in ("parameter", "buffer", "optimizer-state", "gradient"):
            continue
        for node in tensor.chain[:-1]:
            if objects.container(node.value) in _GROWS:
                held[id(node.value)].append(tensor)
                holders.setdefault(id(node.value), node)
        added = _additions(tensor.value)
        if added > 1:
            spent = added if is_spent(tensor.value) else 0
            found.append(Holder(tensor.name, "", tensor.frame, 1, _bytes([tensor]), added, spent, _made(tensor.value)))
    for number, tensors in held.items():
        node = holders[number]
        graphs = [tensor for tensor in tensors if _has_graph(tensor.value)]
        spent = sum(is_spent(tensor.value) for tensor in graphs)
        kind = objects.container(node.value) or ""
        made = _made((graphs[-1] if graphs else tensors[-1]).value)
        found.append(Holder(node.name, kind, node.frame, len(tensors), _bytes(tensors), len(graphs), spent, made))
    found.sort(key=lambda holder: (-holder.graphs, -holder.size, -len(holder.name)))
    return [each for n, each in enumerate(found) if not any(_is_same(other, each) for other in found[:n])]


def _is_same(inner: Holder, outer: Holder) -> bool:
    """`logs["loss"]`, where `logs` has no other tensors: the name that says more."""
    return inner.name.startswith(outer.name) and (inner.graphs, inner.size) == (outer.graphs, outer.size)


def _is_on(value: object, device: int) -> bool:
    return (
        isinstance(value, torch.Tensor)
        and value.device.type == "cuda"
        and value.device.index == device
        and not isinstance(value, torch.nn.Parameter)
    )


def find_errors(frames: list[types.FrameType], device: int) -> list[KeptErrors]:
    """The containers of exceptions that keep tensors of a device."""
    found: dict[int, KeptErrors] = {}
    for node in names.reach(frames, lambda value: False).entered:
        error, holder = node.value, node.parent
        if not isinstance(error, BaseException) or holder is None or objects.container(holder.value) not in _GROWS:
            continue
        kept = found.get(id(holder.value), KeptErrors(holder.name, set()))
        variables = [value for frame in _frames_of(error, frames) for value in values.at_rest(frame.f_locals).values()]
        made = (_made(value) for value in variables if _is_on(value, device))
        found[id(holder.value)] = KeptErrors(kept.name, kept.made.union(filter(None, made)))
    return [each for each in found.values() if each.made]


def _frames_of(error: BaseException, running: list[types.FrameType]) -> list[types.FrameType]:
    """The frames that an exception keeps and nobody else does."""
    kept, step = [], error.__traceback__
    while step is not None:
        if step.tb_frame not in running:
            kept.append(step.tb_frame)
        step = step.tb_next
    return kept


def _has_graph(value: object) -> bool:
    return isinstance(value, torch.Tensor) and value.grad_fn is not None


def _bytes(tensors: list[objects.Node]) -> int:
    sizes = {}
    for tensor in tensors:
        if isinstance(tensor.value, torch.Tensor) and tensor.value.layout == torch.strided:
            sizes[values.storage_key(tensor.value)] = tensor.value.untyped_storage().nbytes()
    return sum(sizes.values())


def _made(tensor: object) -> tuple[str, int] | None:
    steps = [step for step in histories.history(tensor) if step.facts["at"]["line"]]
    return (steps[-1].facts["at"]["file"], steps[-1].facts["at"]["line"]) if steps else None


def _additions(value: object) -> int:
    """How many graphs a number has added up one after the other: `total += loss`. What a layer adds to its input is no
    such sum, and no number."""
    node = value.grad_fn if isinstance(value, torch.Tensor) and value.numel() == 1 else None
    added = 0
    while node is not None and node.name() == _ADDITION and added < _MAX_ADDED:
        added += 1
        node = next(
            (inner for inner, _ in node.next_functions if inner is not None and inner.name() == _ADDITION), None
        )
    return added


def is_spent(value: object) -> bool:
    """Whether it is certain that a tensor's graph can't be used any more: what it saved is freed, or was changed."""
    first = value.grad_fn if isinstance(value, torch.Tensor) else None
    if first is None or uses_hooks:
        return False
    nodes, seen = [first], {first}
    for node in nodes:
        for name in dir(type(node)):
            if name.startswith("_saved_"):
                try:
                    getattr(node, name)
                except RuntimeError:
                    return True
        for inner, _ in node.next_functions:
            if inner is not None and inner not in seen and len(nodes) < _MAX_NODES:
                seen.add(inner)
                nodes.append(inner)
    return False


def watch_hooks() -> None:
    """Notes from here on whether the program has hooks on what autograd saves. Once a process."""
    cls = torch.autograd.graph.saved_tensors_hooks
    original = cls.__enter__

    def enter(self: torch.autograd.graph.saved_tensors_hooks) -> None:
        global uses_hooks
        uses_hooks = True
        original(self)

    cls.__enter__ = enter
