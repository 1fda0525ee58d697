"""Tells the program's own exceptions from Locus's faults, where Locus does something small on the program's thread.

A handler of a signal may raise between any two instructions, and another thread may raise an exception in this one:
then it is the program's, wherever it came. Longer work is done on a thread of its own, where neither can come
(locus/bridge/python/aside.h).
"""

from __future__ import annotations

import functools
import signal
import types

from locus.program import places


def pass_on(error: BaseException) -> None:
    """Raises an exception again that is not Locus's: called where a fault of its own would be noted."""
    if not isinstance(error, Exception) or _is_of_handler(error) or _came_from_outside(error):
        raise error


def _is_of_handler(error: BaseException) -> bool:
    """Whether it was raised in a signal handler of the program: DataLoader's, which says that a worker died, too."""
    handlers = {code for number in signal.valid_signals() if (code := _code_of(signal.getsignal(number))) is not None}
    return any(frame.f_code in handlers for frame in _frames(error))


def _came_from_outside(error: BaseException) -> bool:
    """Whether another thread raised it here: an exception of the program's own class, in nobody's code but Locus's."""
    cls = type(error)
    files = [frame.f_code.co_filename for frame in _frames(error)]
    return _is_programs(cls) and all(places.kind_of_file(file) == "locus" for file in files)


def _is_programs(cls: type) -> bool:
    home = (cls.__module__ or "").partition(".")[0]
    return home not in ("builtins", "locus", "torch", "json", "ast", "re", "struct", "pickle", "zipfile", "queue")


def _frames(error: BaseException) -> list[types.FrameType]:
    found, traceback = [], error.__traceback__
    while traceback is not None:
        found.append(traceback.tb_frame)
        traceback = traceback.tb_next
    return found


def _code_of(handler: object) -> types.CodeType | None:
    """The code that runs when a handler is called; None for what is not written in Python."""
    while isinstance(handler, functools.partial):
        handler = handler.func
    if not isinstance(handler, (types.FunctionType, types.MethodType)):
        handler = getattr(type(handler), "__call__", None)  # noqa: B004  (not whether it can be called, but its code)
    return getattr(getattr(handler, "__func__", handler), "__code__", None)
