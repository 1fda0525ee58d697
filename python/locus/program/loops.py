"""Whether a loop goes round and round for a value that does not come: asked now and then, by whoever counts what a line
reads.

A `for` loop ends by itself. A `while` loop has not ended where the very call of its function is still under way: such a
frame gets a mark, and the mark goes with it. Nothing is kept alive.
"""

from __future__ import annotations

import ast
import sys
from types import FrameType

from locus import faults
from locus.program import source

_ENDLESS = ("count", "cycle", "repeat")


def _mark(frame: FrameType, event: str, what: object) -> None:
    """Stands where a debugger puts its own function, and does what is done without one."""


def is_stuck(again: bool) -> bool:
    """Marks the loops that this thread is in. Asked `again`: whether one of them was marked before."""
    if sys.gettrace() is not None:  # the place of the mark is taken
        return False
    found = False
    frame: FrameType | None = sys._getframe(1)
    try:
        while frame is not None:
            if _waits(frame):
                found = found or frame.f_trace is _mark
                frame.f_trace = _mark
            frame = frame.f_back
    except Exception as error:
        faults.note("looking at loops", error)
        return False
    return again and found


def _waits(frame: FrameType) -> bool:
    """Whether the frame is in a loop that does not end by itself."""
    code = frame.f_code
    source.vouch(code, frame.f_globals)
    text = source.load(code.co_filename)
    if text is None:
        return False
    function = text.function_at(code.co_firstlineno, code.co_name)
    around = text.statements_at(frame.f_lineno)
    return any(_is_endless(each) and text.scope(each) is function for each in around)


def _is_endless(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.While):
        return True
    if not isinstance(statement, ast.For) or not isinstance(statement.iter, ast.Call):
        return False
    called = statement.iter.func
    name = called.attr if isinstance(called, ast.Attribute) else called.id if isinstance(called, ast.Name) else ""
    return name in _ENDLESS or (name == "iter" and len(statement.iter.args) == 2)
