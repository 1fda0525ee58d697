"""Results of CUDA graphs that a program keeps over the next replay, which writes to the same memory: which lists and
dicts have them, and whether the replay has changed what they hold.

Looks around at some of a graph's replays; keeps none of the program's objects. What is made of it when such memory is
read is in locus/blame/kept_outputs.py.
"""

from __future__ import annotations

import gc
import sys
import types
import weakref
from typing import TYPE_CHECKING, NamedTuple

from locus import faults
from locus.program import places, values

if TYPE_CHECKING:
    import torch

    from locus._bridge import Bridge, Graph

containers: set[int] = set()
"""By identity: lists and dicts that had a result when a replay changed it."""

replay_lines: set[tuple[str, int]] = set()
"""Where replays were called from: file and line of each of the program's frames."""

_EACH = 4
"""The first replays of a graph at which to look around; then those with a power of two."""
_MOST_LOOKS = 64
_MOST_LINES = 4096
_CALLABLES = ("cuda/graphs.py", "cuda\\graphs.py")
"""Where make_graphed_callables() replays: there each call has a tensor of its own over the same memory."""

_replays: weakref.WeakKeyDictionary[object, int] = weakref.WeakKeyDictionary()
_looks = 0


class Look(NamedTuple):
    """What there was before a replay."""

    containers: list[object]
    tensors: list[torch.Tensor]
    contents: dict[int, int]
    """By memory."""
    is_callable: bool


def before(bridge: Bridge, graph: object, native: Graph) -> Look | None:
    """A replay begins. None where nobody looks at this one, or nothing was kept."""
    global _looks
    number = _replays[graph] = _replays.get(graph, 0) + 1
    if number == 1 or (number > _EACH and number & (number - 1)) or _looks >= _MOST_LOOKS or not bridge.collects():
        return None
    try:
        _looks += 1
        caller = sys._getframe(2)
        is_callable = caller.f_code.co_filename.endswith(_CALLABLES)
        found, tensors = bridge.kept_results(native, gc.get_objects())
        if not found and not is_callable:
            return None
        _note_lines(places.user_frames(list(places.walk(caller))))
        contents = {values.storage_key(tensor): bridge.contents_of(tensor) for tensor in tensors}
        return Look(found, tensors, contents, is_callable)
    except Exception as error:
        faults.note("results of a graph", error)
        return None


def after(bridge: Bridge, look: Look | None) -> None:
    """The replay is done."""
    if look is None:
        return
    try:
        changed = False
        for tensor in look.tensors:
            if look.contents.get(values.storage_key(tensor)) != bridge.contents_of(tensor):
                changed = True
                bridge.mark_kept(tensor, look.is_callable)
        if changed:
            containers.update(map(id, look.containers))
    except Exception as error:
        faults.note("results of a graph", error)


def results_in(container: object, memory: int) -> int:
    """How many entries of a list or dict are in this memory, or have a part that is."""
    entries = container.values() if isinstance(container, dict) else container
    count = 0
    for entry in entries if isinstance(entries, list) else list(entries):  # type: ignore[call-overload]
        parts = entry.values() if type(entry) is dict else entry if isinstance(entry, (tuple, list)) else (entry,)
        count += any(values.is_tensor(part) and values.storage_key(part) == memory for part in parts)
    return count


def _note_lines(frames: list[types.FrameType]) -> None:
    for frame in frames:
        if len(replay_lines) < _MOST_LINES:
            replay_lines.add((frame.f_code.co_filename, frame.f_lineno))
