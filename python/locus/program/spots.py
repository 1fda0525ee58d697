"""Where a value of the program is kept, so that it can be looked at again later: a name or an attribute. Keeps nothing
of the program's alive.
"""

from __future__ import annotations

import types
import weakref
from typing import NamedTuple

from locus.program import values

_OPTIMIZED = 0x1  # CO_OPTIMIZED: a function's code, not a module's


class Attribute(NamedTuple):
    """`self.temperature`"""

    owner: weakref.ref[object]
    name: str

    def now(self, frames: list[types.FrameType]) -> object:
        """What it is at this moment; MISSING where that can't be said."""
        owner = self.owner()
        inside = getattr(owner, "__dict__", None)
        if type(inside) is dict and self.name in inside:
            return inside[self.name]
        return values.MISSING if owner is None else values.get_attribute(owner, self.name)


class Name(NamedTuple):
    """A name of a module, or of a function that still runs."""

    code: types.CodeType | None
    """The function's; None: a module's."""
    frame: int
    file: str
    name: str

    def now(self, frames: list[types.FrameType]) -> object:
        """What it is at this moment, by the frames that run; MISSING where that can't be said."""
        for frame in frames:
            if self.code is None and frame.f_code.co_filename == self.file:
                return frame.f_globals.get(self.name, values.MISSING)
            if self.code is not None and frame.f_code is self.code and id(frame) == self.frame:
                return frame.f_locals.get(self.name, values.MISSING)
        return values.MISSING


def name_in(frame: types.FrameType, file: str, name: str) -> Name:
    """The spot of a name that is read in a frame."""
    inside = frame.f_code.co_flags & _OPTIMIZED and name in frame.f_locals
    return Name(frame.f_code if inside else None, id(frame), file, name)
