"""Runs a program under a session to its very end: its threads, its exit handlers, and what it has printed."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, NoReturn

from locus.process import children, endings, runner
from locus.process.session import StopAfterSteps
from locus.program.end import End
from locus.ranks import checking
from locus.watch import uncaught

if TYPE_CHECKING:
    from locus.process.session import Session


_CLOSED_PIPE = 120  # what Python itself ends with when its output can't be written


def run_whole(target: runner.Target, session: Session, patience: float | None = None) -> End:
    """Runs the program until its threads and its exit handlers are done, too; these have `patience` seconds, and as
    long as the program took. A child that the program forked, and that comes out here, ends: the first process reports.
    """
    began = time.monotonic()
    end = runner.run_to_end(target, ends_quietly=StopAfterSteps, hear_exit=uncaught.note_exit)
    if children.is_child():
        raise SystemExit(end.exit)
    seconds = None if patience is None else patience + time.monotonic() - began
    try:
        return runner.wind_down(end, seconds)
    except TimeoutError:
        session.incomplete = f"the program's threads and exit handlers had not ended within {seconds:,.0f} s"
        return end


def run_watched(
    session: Session, target: runner.Target, folder: str, patience: float, finish: Callable[[End], NoReturn]
) -> NoReturn:
    """Runs the program under a session, with the processes that it starts, which report into the folder. However the
    program ends, `finish` hears how."""

    def report(end: End) -> NoReturn:
        session.stop()
        flush()
        children.take_in(session, folder)
        checking.judge(session, folder)
        finish(end)

    session.start()
    endings.catch_exit(report)
    with children.gathering(folder):
        children.follow(session)
        report(run_whole(target, session, patience))


def flush() -> int:
    """What the program has printed goes out before the report; Python's own exit code where nobody reads any more."""
    failed = 0
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError, AttributeError):
            failed = _CLOSED_PIPE if stream is sys.stdout else failed
    if failed:  # or Python would try again at its end, and complain
        with contextlib.suppress(OSError):
            nothing = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nothing, 1)
            os.close(nothing)
    return failed
