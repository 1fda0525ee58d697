"""Results of CUDA graphs that a program keeps over the next replay, which writes to the same memory: which lists,
deques and dicts have them, and whether the replay has changed what they hold.

Looks around at some of a graph's replays; keeps none of the program's objects. What is made of it when such memory is
read is in locus/blame/kept_outputs.py.
"""

from __future__ import annotations

import collections
import gc
import sys
import types
import weakref
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

import torch

from locus import faults
from locus.program import places, values
from locus.program.graphed_calls import CALLABLES

if TYPE_CHECKING:
    from locus._bridge import Bridge, Graph

Place = tuple[int, int, tuple[int, ...], tuple[int, ...]]
"""The memory of a tensor: storage, address, sizes, strides."""

containers: dict[int, set[Place]] = {}
"""By identity: lists, deques and dicts that had results when a replay changed them, and where those are."""

replay_lines: set[tuple[str, int]] = set()
"""Where replays were called from: file and line of each of the program's frames."""

_EACH = 4
"""The first replays of a graph at which to look around; then those with a power of two."""
_MOST_OBJECTS = 16_000_000
"""That are looked at in all: some seconds."""
_MOST_LINES = 4096

_replays: weakref.WeakKeyDictionary[object, int] = weakref.WeakKeyDictionary()
_looked_at = 0


class Look(NamedTuple):
    """What there was before a replay."""

    containers: list[object]
    tensors: list[torch.Tensor]
    contents: dict[Place, int]
    is_callable: bool


def before(bridge: Bridge, graph: object, native: Graph) -> Look | None:
    """A replay begins. None where nobody looks at this one, or nothing was kept."""
    global _looked_at
    number = _replays[graph] = _replays.get(graph, 0) + 1
    if number == 1 or (number > _EACH and number & (number - 1)) or _looked_at >= _MOST_OBJECTS:
        return None
    try:
        if not bridge.collects():
            return None
        objects, caller = gc.get_objects(), sys._getframe(2)
        _looked_at += len(objects)
        is_callable = caller.f_code.co_filename.endswith(CALLABLES)
        found, tensors = bridge.kept_results(native, objects)
        if not tensors and not is_callable:
            return None
        _note_lines(places.user_frames(list(places.walk(caller))))
        with torch._C.DisableTorchFunctionSubclass():
            contents = {place_of(tensor): bridge.contents_of(tensor) for tensor in tensors}
        return Look(found, tensors, contents, is_callable)
    except Exception as error:
        faults.note("results of a graph", error)
        return None


def after(bridge: Bridge, look: Look | None) -> None:
    """The replay is done."""
    if look is None:
        return
    try:
        with torch._C.DisableTorchFunctionSubclass():
            changed: set[Place] = set()
            for tensor in look.tensors:
                place = place_of(tensor)
                if place in changed or look.contents[place] != bridge.contents_of(tensor):
                    changed.add(place)
                    bridge.mark_kept(tensor, look.is_callable)
            for container in look.containers:
                held = {place for places_in in results_in(bridge, container) for place in places_in}
                if held & changed:
                    containers.setdefault(id(container), set()).update(held & changed)
    except Exception as error:
        faults.note("results of a graph", error)


def results_in(bridge: Bridge, container: object) -> Iterator[set[Place]]:
    """For each entry of a list, a deque or a dict, where the results are that it has and that a replay has replaced."""
    for entry in _entries(container):
        parts: Iterable[object] = (entry,)
        if not values.is_tensor(entry):
            parts = _entries(entry) if isinstance(entry, (dict, list, tuple)) else values.attributes(entry).values()
        yield {place_of(part) for part in parts if values.is_tensor(part) and bridge.kept_state(part)}


def _entries(container: object) -> list[object]:
    """What is in it, without a question to code of the program's."""
    if isinstance(container, dict):
        return list(dict.values(container))
    if isinstance(container, list):
        return list(list.__iter__(container))
    if isinstance(container, tuple):
        return list(tuple.__iter__(container))
    return list(collections.deque.__iter__(container)) if isinstance(container, collections.deque) else []


def place_of(tensor: torch.Tensor) -> Place:
    """Where a tensor's values are."""
    return values.storage_key(tensor), tensor.data_ptr(), tuple(tensor.shape), tensor.stride()


def _note_lines(frames: list[types.FrameType]) -> None:
    for frame in frames:
        if len(replay_lines) < _MOST_LINES:
            replay_lines.add((frame.f_code.co_filename, frame.f_lineno))
