"""Calls of what make_graphed_callables() gave: each saves what its backward() needs where the one before has saved it.
A call whose backward() comes after a later call, with other data, gets that call's gradients.

Nothing of the program's is kept alive: what is noted of a call is an attribute of its context.
"""

from __future__ import annotations

import os
import sys
import types
import weakref
from typing import TYPE_CHECKING, NamedTuple

from locus import faults
from locus.program import places

if TYPE_CHECKING:
    from locus._bridge import Bridge
    from locus.program.shapes import Location

CALLABLES = os.path.join("torch", "cuda", "graphs.py")
"""Where make_graphed_callables() replays: there each call has a tensor of its own over the same memory."""
_NOTE = "_locus_call"
_MOST = 4096
"""Calls of a process that are looked at."""


class _Call(NamedTuple):
    graph: weakref.ref[object]
    number: int
    contents: tuple[int, ...]
    """A number for the values of each input."""
    at: Location


class _Last(NamedTuple):
    number: int
    contents: tuple[int, ...]
    at: Location


_last: weakref.WeakKeyDictionary[object, _Last] = weakref.WeakKeyDictionary()
_looked_at = 0

earlier: Location = places.unknown_location()
"""The call whose backward() was found to be late."""
later: Location = places.unknown_location()
"""The call that came between."""


def is_late(bridge: Bridge, graph: object) -> bool:
    """A replay begins: is it the backward() of a call that a later one, with other data, has written over?"""
    frame = sys._getframe(2)
    if not frame.f_code.co_filename.endswith(CALLABLES) or _looked_at >= _MOST or not bridge.collects():
        return False
    try:
        context = frame.f_locals.get("ctx")
        if frame.f_code.co_name == "forward" and context is not None:
            _note(bridge, graph, frame, context)
        return frame.f_code.co_name == "backward" and _compare(getattr(context, _NOTE, None))
    except Exception as error:
        faults.note("calls of a graphed callable", error)
        return False
    finally:
        places.release_locals([frame])


def _note(bridge: Bridge, graph: object, frame: types.FrameType, context: object) -> None:
    global _looked_at
    _looked_at += 1
    surface = frame.f_locals.get("static_input_surface", ())
    given = [surface[number] for number in range(int(frame.f_locals.get("len_user_args", 0)))]
    before = _last.get(graph)
    user = next((each for each in places.walk(frame) if places.is_user_file(each.f_code.co_filename)), None)
    at = places.frame_location(user) if user is not None else places.unknown_location()
    made = _Last(before.number + 1 if before else 1, tuple(bridge.contents_of(each) for each in given), at)
    _last[graph] = made
    setattr(context, _NOTE, _Call(weakref.ref(graph), made.number, made.contents, at))


def _compare(call: _Call | None) -> bool:
    global earlier, later
    last = _last.get(call.graph()) if call is not None else None
    if call is None or last is None or last.number == call.number or not all(call.contents):
        return False
    earlier, later = call.at, last.at
    return last.contents != call.contents
