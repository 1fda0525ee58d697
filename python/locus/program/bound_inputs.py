"""Names and attributes of the tensors that a CUDA graph reads, as they were when it was captured. A program that binds
new data to such a name, instead of copying it into the tensor, replays with the old data. What is made of it is in
locus/blame/bound_inputs.py.

Keeps nothing of the program's alive.
"""

from __future__ import annotations

import sys
import types
import weakref
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import torch

from locus import faults
from locus.program import places, spots, values

if TYPE_CHECKING:
    from locus._bridge import Bridge, Graph

_MOST = 256
"""Names of one graph that are followed."""


class Input(NamedTuple):
    """What a tensor that the graph reads is called."""

    text: str
    spot: spots.Name | spots.Attribute
    tensor: weakref.ref[torch.Tensor]
    likeness: tuple[object, ...]
    contents: int
    """A number for the values that it was captured with; 0: they are not known."""
    site: int
    """The line of the capture that reads it."""
    file: str
    line: int
    """Where the program was when it was bound to that name."""


class Rebound(NamedTuple):
    """A name that stands for another tensor now."""

    input: Input
    is_gone: bool
    """Nothing stands for the tensor that the graph reads."""


_inputs: weakref.WeakKeyDictionary[object, dict[tuple[object, ...], Input]] = weakref.WeakKeyDictionary()
_replayed: weakref.WeakSet[object] = weakref.WeakSet()

rebound: list[Rebound] = []
"""Of the graph that is replayed at this moment."""


def begin(bridge: Bridge, graph: object, native: Graph) -> None:
    """A capture has ended: whatever was captured before is forgotten."""
    _inputs.pop(graph, None)
    _replayed.discard(graph)
    if bridge.collects():
        _note(bridge, graph, native)


def _note(bridge: Bridge, graph: object, native: Graph) -> None:
    """What the program calls the tensors that the graph reads, by the frames that run."""
    frames = list(places.walk(sys._getframe(1)))
    try:
        known = _inputs.setdefault(graph, {})
        for frame in places.user_frames(frames):
            for found in _names(bridge, native, frame):
                if len(known) < _MOST:
                    known.setdefault((found.text, found.spot), found)
    except Exception as error:
        faults.note("inputs of a graph", error)
    finally:
        places.release_locals(frames)


def before(bridge: Bridge, graph: object, native: Graph) -> Iterator[Rebound]:
    """A replay begins: names that stand for another tensor than in the capture, while the graph's was left as it is."""
    rebound.clear()
    if not bridge.collects():
        return
    if graph not in _replayed:
        _replayed.add(graph)
        _note(bridge, graph, native)
    known = _inputs.get(graph)
    if not known:
        return
    frames = list(places.walk(sys._getframe(1)))
    try:
        for key, each in list(known.items()):
            tensor, now = each.tensor(), each.spot.now(frames)
            if now is tensor or not values.is_tensor(now) or _likeness(now) != each.likeness:
                continue
            if tensor is not None and (not each.contents or bridge.contents_of(tensor) != each.contents):
                del known[key]  # new data is put into it
            else:
                rebound.append(Rebound(each, tensor is None))
    except Exception as error:
        faults.note("inputs of a graph", error)
    finally:
        places.release_locals(frames)
    yield from rebound


def _names(bridge: Bridge, native: Graph, frame: types.FrameType) -> Iterator[Input]:
    file, line, here = frame.f_code.co_filename, frame.f_lineno, frame.f_locals

    def found(text: str, value: torch.Tensor, site: int, spot: spots.Name | spots.Attribute) -> Input:
        return Input(text, spot, weakref.ref(value), _likeness(value), bridge.contents_of(value), site, file, line)

    for name, value in values.at_rest(here).items():
        if type(value) is torch.Tensor and (site := native.read_at(value)) is not None:
            yield found(name, value, site, spots.name_in(frame, file, name))
    owner = here.get("self")
    for name, value in list(values.attributes(owner).items()) if owner is not None else ():
        if type(value) is torch.Tensor and (site := native.read_at(value)) is not None:
            try:
                yield found(f"self.{name}", value, site, spots.Attribute(weakref.ref(owner), name))
            except TypeError:  # nothing can refer to it
                return


def _likeness(tensor: torch.Tensor) -> tuple[object, ...]:
    return tuple(tensor.shape), tensor.dtype, tensor.device
