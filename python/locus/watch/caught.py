"""Errors about devices that the program itself catches. They are no findings, for they may be meant; but the report
names them: an `except Exception` that logs and goes on may hide what nobody means to have. No torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from locus.watch import made_up

if TYPE_CHECKING:
    import types
    from collections.abc import Callable

    from locus.program.shapes import Location

_MAX = 1000
_caught: dict[tuple[str, int, str, int], None] = {}
"""The line of the call and that of the handler."""


def note(frame: types.FrameType, handler: Location) -> None:
    """A call of this frame's is refused, and the handler gets the error."""
    if len(_caught) < _MAX:
        _caught[frame.f_code.co_filename, frame.f_lineno or 0, handler["file"], handler["line"]] = None


def told(is_found: Callable[[str, int], bool]) -> list[str]:
    """What the report says of them, but for lines with a finding: there the handler gave the error on, perhaps as
    another."""
    by_handler: dict[tuple[str, int], list[str]] = {}
    for file, line, handler, handler_line in sorted(_caught):
        if not is_found(file, line):
            by_handler.setdefault((handler, handler_line), []).append(made_up.shown(file, line))
    return [
        f"a call with operands on several devices is refused at {made_up.listed(lines)}, and the program itself "
        f"catches the error at {made_up.shown(*handler)}: that is no finding"
        for handler, lines in by_handler.items()
    ]


def forget() -> None:
    """Another program begins, or another part of it."""
    _caught.clear()
