"""locus.place(): moves everything that some objects hold to a device, in one call, and says what it moved.

Parameters, buffers and other tensors that gradients or optimizers know stay the same objects, with new memory; other
tensors are replaced by their copies wherever they are held. Tensors that share memory share it afterwards. All copies
are made before anything changes, so that an error (out of memory) leaves the program as it was.
"""

from __future__ import annotations

import collections
import sys
import threading
from typing import Any, NamedTuple

import torch

from locus.errors import UsageError
from locus.program import cells, exchanging, moments, values
from locus.vocabulary import Kind

_ALIGNMENT = 16  # bytes; the largest element there is
_PLAIN_TENSORS = (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer)
_WORDS: dict[Kind, tuple[str, str]] = {
    "parameter": ("parameter", "parameters"),
    "buffer": ("buffer", "buffers"),
    "gradient": ("gradient", "gradients"),
    "plain-attribute": ("in a plain attribute", "in plain attributes"),
    "plain-container": ("in a plain container", "in plain containers"),
    "object-attribute": ("in an attribute of an object", "in attributes of objects"),
    "loss-weight": ("weight of a loss", "weights of losses"),
    "optimizer-state": ("of optimizer state", "of optimizer state"),
}
_OTHER = ("other", "others")

_last = threading.local()
_said: set[tuple[str, int]] = set()


class Moved(NamedTuple):
    """One tensor that was moved."""

    name: str
    kind: Kind
    """As in findings: parameter, buffer, plain-attribute, optimizer-state and so on."""
    origin: str
    """The device where it was."""
    bytes: int


class Placement:
    """What one call of place() did. Printed, it is a list; summary() is one line."""

    def __init__(self, device: torch.device, moved: list[Moved], stayed: int, left: list[tuple[str, str]]):
        self.device, self.moved, self.stayed, self.left = device, moved, stayed, left

    def summary(self) -> str:
        """One line: how much was moved, of what kinds, and what was left."""
        count = len(self.moved)
        parts = [
            f"{count} tensor{'s' * (count != 1)} ({_size(sum(m.bytes for m in self.moved))}) moved to {self.device}"
        ]
        kinds = collections.Counter(moved.kind for moved in self.moved)
        if kinds:
            words = [f"{number} {_WORDS.get(kind, _OTHER)[number != 1]}" for kind, number in kinds.most_common()]
            parts[0] += ": " + ", ".join(words)
        if self.stayed:
            parts.append(f"{self.stayed} {'were' if self.stayed != 1 else 'was'} there already")
        parts += [f"left {name}: {why}" for name, why in self.left]
        return "; ".join(parts)

    def __repr__(self) -> str:
        return f"<placement: {self.summary()}>"

    def __str__(self) -> str:
        rows = [(m.name, m.kind, f"{m.origin} -> {self.device}", _size(m.bytes)) for m in self.moved]
        widths = [max((len(row[column]) for row in rows), default=0) for column in range(4)]
        lines = ["  ".join(text.ljust(width) for text, width in zip(row, widths)).rstrip() for row in rows]
        return "\n".join([*lines, self.summary()])


def place(*things: object, device: str | int | torch.device | None = None, show: bool | None = None) -> Any:
    """Moves everything that the given objects reach to a device, and returns what it was given.

    Models with plain attributes and lists of layers, optimizers with their state, loss functions, nested batches,
    dataclasses, any object that holds tensors. Ties, views and shared memory are kept; parameters stay the same
    objects, so that optimizers still know them. What can't be changed in place (a tuple, a tensor) comes back new.

    Args:
        things: what to move; without `device=`, the last one is the device.
        device: where to.
        show: True prints every tensor that was moved, False nothing; by default one line goes to standard error, the
            first time that a line of the program moves something. `locus.last_placement()` has it all.

    Returns:
        The object, or a tuple of them where there were several.

    Raises:
        UsageError: there is no such device, or nothing to move.
    """
    things, target = _arguments(things, device)
    labels = _labels(things)
    graph = exchanging.Graph(list(zip(labels, things)))
    move = _Move(graph, target)
    new = move.run()
    result = [new.get(id(thing), thing) for thing in things]
    placement = Placement(target, move.moved, move.stayed, graph.left + move.left)
    _last.placement = placement
    _note_modules(graph, target)
    _say(placement, show)
    return result[0] if len(result) == 1 else tuple(result)


def last_placement() -> Placement | None:
    """What the last place() of this thread did."""
    return getattr(_last, "placement", None)


def _arguments(things: tuple[object, ...], device: object) -> tuple[tuple[object, ...], torch.device]:
    if device is None:
        if not things:
            raise UsageError('place() needs objects and a device, such as place(model, optimizer, "cuda:0").')
        *others, device = things
        things = tuple(others)
    if isinstance(device, bool) or not isinstance(device, (str, int, torch.device)):
        raise UsageError(
            f"place() needs a device as its last argument, not {type(device).__name__}: "
            'place(model, optimizer, "cuda:0"), or device=.'
        )
    if not things:
        raise UsageError(f"place() was given the device {str(device)!r} and nothing to move to it.")
    try:
        target = torch.device("cuda", device) if isinstance(device, int) else torch.device(device)
        if target.type == "cuda" and target.index is None:
            target = torch.device("cuda", torch.cuda.current_device())
        if target.type != "meta":
            torch.empty(0, device=target)
    except (RuntimeError, AssertionError, ValueError) as error:
        first = str(error).partition("\n")[0]
        raise UsageError(
            f"nothing can be placed on {str(device)!r}: {first} "
            "Name a device that this machine has; locus.simulate() gives it CUDA devices."
        ) from None
    return things, target


def _labels(things: tuple[object, ...]) -> list[str]:
    """A name for each argument: its class, with a number where there are several of one."""
    classes = [type(thing).__name__ for thing in things]
    numbers = [classes[:place].count(name) + 1 for place, name in enumerate(classes)]
    return [f"{name}#{number}" if classes.count(name) > 1 else name for name, number in zip(classes, numbers)]


class _Move:
    """The tensors of a graph, to be moved to one device."""

    def __init__(self, graph: exchanging.Graph, device: torch.device):
        self.graph, self.device = graph, device
        self.moved: list[Moved] = []
        self.stayed = 0
        self.left: list[tuple[str, str]] = []
        self.skipped: dict[int, int] = {}
        """By the id() of a tensor: how many bytes of its memory, from the start, were not moved."""

    def run(self) -> dict[int, object]:
        wanted = [held for held in self.graph.tensors if self._is_wanted(held)]
        ids = {id(held.tensor) for held in wanted}
        leaves = [held for held in wanted if held.tensor.is_leaf]
        computed = [held.tensor for held in wanted if not held.tensor.is_leaf]
        views = [t for t in computed if t._is_view() and id(t._base) in ids and type(t._base) in _PLAIN_TENSORS]
        copies = self._copy_leaves([held.tensor for held in leaves], {id(view._base) for view in views})
        seen = {id(view) for view in views}
        # Recorded by autograd: gradients find their way back.
        new = {id(tensor): tensor.to(self.device) for tensor in computed if id(tensor) not in seen}
        # Nothing has changed so far; from here on nothing needs memory.
        for held in leaves:
            tensor, moved = held.tensor, copies[id(held.tensor)]
            if self._keeps_identity(held):
                _give_memory(tensor, moved)
            else:
                new[id(tensor)] = _dressed_like(tensor, moved)
        for view in views:
            base: torch.Tensor = new.get(id(view._base), view._base)  # type: ignore[assignment]  # a view has one
            offset = view.storage_offset() - self.skipped.get(id(view._base), 0) // view.element_size()
            new[id(view)] = base.as_strided(view.shape, view.stride(), offset)
        everything = self.graph.exchange(new)
        for leaf in self.graph.leaves:
            if id(leaf.grad) in new:
                leaf.grad = new[id(leaf.grad)]
        for module in [value for value in self.graph.entered if isinstance(value, torch.nn.RNNBase)]:
            module.flatten_parameters()
        return everything

    def _is_wanted(self, held: exchanging.Held) -> bool:
        tensor = held.tensor
        if id(tensor) in self.graph.host:
            return False
        if tensor.device == self.device:
            self.stayed += 1
            return False
        if tensor.is_meta:
            self.left.append((held.name, "a meta tensor has no data to move"))
            return False
        size = tensor.numel() * tensor.element_size() if tensor.layout == torch.strided else 0
        self.moved.append(Moved(held.name, held.kind, str(tensor.device), size))
        return True

    def _keeps_identity(self, held: exchanging.Held) -> bool:
        """As Module.to() does for parameters: whoever knows the tensor finds it on the new device."""
        tensor = held.tensor
        if isinstance(tensor, torch.nn.Parameter) or tensor.requires_grad:
            return True
        if tensor._is_view():
            return False  # its base would keep the old memory
        return id(tensor) in self.graph.buffers or held.kind in ("gradient", "optimizer-state")

    def _copy_leaves(self, tensors: list[torch.Tensor], bases: set[int]) -> dict[int, torch.Tensor]:
        """A copy of each on the device; those that share memory, and bases of views, keep their layout."""
        groups: dict[int, list[torch.Tensor]] = collections.defaultdict(list)
        alone: list[torch.Tensor] = []
        for tensor in tensors:
            plain = type(tensor) in _PLAIN_TENSORS and tensor.layout == torch.strided and not tensor.is_quantized
            key = values.storage_key(tensor) if plain and self.device.type != "meta" else 0
            (groups[key] if key else alone).append(tensor)
        copies: dict[int, torch.Tensor] = {}
        with torch.no_grad():
            for group in groups.values():
                if len(group) == 1 and id(group[0]) not in bases:
                    alone.append(group[0])
                else:
                    self._copy_together(group, copies)
            for tensor in alone:
                copies[id(tensor)] = tensor.data.to(self.device)
        return copies

    def _copy_together(self, group: list[torch.Tensor], copies: dict[int, torch.Tensor]) -> None:
        """One copy of the memory that all of them cover, no more: a batch may be a small part of a large table."""
        spans = [_span(tensor) for tensor in group]
        start = min(low for low, _ in spans) // _ALIGNMENT * _ALIGNMENT
        length = max(high for _, high in spans) - start
        storage = group[0].untyped_storage()
        window = torch.empty(0, dtype=torch.uint8, device=group[0].device).set_(storage, start, (length,), (1,))
        moved = window.to(self.device).untyped_storage()
        for tensor in group:
            size = tensor.element_size()
            made = torch.empty(0, dtype=tensor.dtype, device=self.device)
            made.set_(moved, tensor.storage_offset() - start // size, tensor.shape, tensor.stride())
            made = made.conj() if tensor.is_conj() else made
            copies[id(tensor)] = torch._neg_view(made) if tensor.is_neg() else made
            self.skipped[id(tensor)] = start


def _span(tensor: torch.Tensor) -> tuple[int, int]:
    """The first and the last byte (not included) of a tensor in its memory."""
    size = tensor.element_size()
    low = int(tensor.storage_offset()) * size
    if tensor.numel() == 0:
        return low, low
    return low, low + (sum((n - 1) * int(step) for n, step in zip(tensor.shape, tensor.stride())) + 1) * size


def _give_memory(tensor: torch.Tensor, moved: torch.Tensor) -> None:
    if torch._has_compatible_shallow_copy_type(tensor.data, moved):
        tensor.data = moved
        return
    # Sparse to dense hardware, meta, subclasses: the objects exchange what they are.
    made = torch.nn.Parameter(moved, tensor.requires_grad) if isinstance(tensor, torch.nn.Parameter) else moved
    torch.utils.swap_tensors(tensor, made)


def _dressed_like(old: torch.Tensor, new: torch.Tensor) -> torch.Tensor:
    """A copy has the attributes that the program has put on the tensor."""
    extra = getattr(old, "__dict__", None)
    if extra:
        new.__dict__.update(extra)
    return new


def _note_modules(graph: exchanging.Graph, device: torch.device) -> None:
    """For the check: these modules were moved here, on purpose."""
    if moments.is_noting:
        place_ = moments.user_place()
        for value in graph.entered:
            if values.is_module(value):
                moments.note_move(value, str(device), place=place_)


def _say(placement: Placement, show: bool | None) -> None:
    if show:
        print(placement)
        return
    frame = sys._getframe(2)
    line = (frame.f_code.co_filename, frame.f_lineno)
    if show is False or not placement.moved or line in _said:
        return
    if len(_said) < 1000:
        _said.add(line)
    at = f"{cells.shown(line[0])}:{line[1]}"
    print(f"locus.place at {at}: {placement.summary()}", file=sys.stderr)


def _size(count: float) -> str:
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024 or unit == "GiB":
            return f"{count:.0f} B" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return ""
