"""The ends that pytest does not see: of an error that a `finally` puts a skip in place of, of a run by os._exit(), and
of the interpreter itself."""

from __future__ import annotations

import atexit
import contextlib
import os
import unittest
from collections.abc import Callable

import pytest

from locus.process import endings, watched
from locus.program.end import End
from locus.watch import uncaught

SKIPS = (pytest.skip.Exception, unittest.SkipTest)
_OUTCOMES = (*SKIPS, pytest.fail.Exception, pytest.exit.Exception)
"""What a test says of itself, and what may stand in a `finally`."""

_listener: Callable[[End], int] | None = None


def listen(listener: Callable[[End], int]) -> None:
    """`listener` hears of os._exit() in this process, and gives the exit status."""
    global _listener
    is_first, _listener = _listener is None, listener
    if is_first:
        endings.catch_exit(_leave)


def _leave(end: End) -> int:
    return end.exit if _listener is None else _listener(end)


def at_exit(is_red: Callable[[], bool]) -> None:
    """Asks `is_red` when the program's threads are done. An exit handler can't change the exit status; so, where the
    answer is yes, the process ends itself, after the other handlers."""
    atexit.register(_end, is_red)


def _end(is_red: Callable[[], bool]) -> None:
    if is_red():
        atexit.unregister(_end)
        with contextlib.suppress(BaseException):
            atexit._run_exitfuncs()
        watched.flush()
        os._exit(1)


def note(error: BaseException) -> None:
    """What a test ended with; a refusal that no rule foresaw is a finding."""
    if isinstance(error, _OUTCOMES):
        note_lost(error)
    else:
        uncaught.note(error)


def note_lost(error: BaseException) -> None:
    """Where a test says something of itself while an error is under way, that is what it ended with."""
    under_way: BaseException | None = error
    while isinstance(under_way, _OUTCOMES):
        under_way = under_way.__context__
    if under_way is not error:
        uncaught.note_exit(under_way)
