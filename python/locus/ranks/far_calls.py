"""What the ranks of other hosts have called. A rank that waits asks for it, by way of the host of rank 0, and tells
what it has called itself: then the calls of all who wait, and of those who have ended, are compared as those of one
host are.
"""

from __future__ import annotations

import contextlib
import os
import time
import zlib

from locus import scratch
from locus.ranks import collector, hosts
from locus.watch.session import Session

_ENDING = ".calls"
_EVERY = 3.0
"""Seconds that a call is under way before anybody asks, and between two questions."""
_SELDOM = 60.0
"""Where nobody answers."""


class FarCalls:
    """One rank's questions."""

    def __init__(self, session: Session, folder: str, job: str, rank: int):
        self._session, self._folder, self._job, self._rank = session, folder, job, rank
        self._since: float | None = None
        self._every = _EVERY

    def look(self, waits: bool) -> None:
        """Twice a second. `waits`: a call is under way."""
        now = time.monotonic()
        if not waits:
            self._since = None
        elif self._since is None:
            self._since = now
        elif now - self._since >= self._every:
            self._since = now
            self.exchange()

    def exchange(self) -> None:
        """Tells, and hears. Nobody may answer: then nothing is known of other hosts."""
        reach = hosts.reach()
        if reach is None or reach.job != self._job:
            return
        self._every = min(2 * self._every, _SELDOM)
        with contextlib.suppress(OSError, ValueError, KeyError, zlib.error):
            own = scratch.read(_path(self._folder, self._job, str(os.getpid())))
            for brought in collector.exchange(reach.address, self._job, self._rank, own, time.monotonic()):
                path = _path(self._folder, self._job, f"host-{brought.rank}")
                self._session.bridge.bring_flight(path, brought.data, brought.ahead)
            self._every = _EVERY


def keep(folder: str, own: str, job: str) -> None:
    """Keeps this process's calls in its own check's folder as well: the one where ranks meet may go before."""
    with contextlib.suppress(OSError):
        number = str(os.getpid())
        os.link(_path(folder, job, number), _path(own, job, number))


def _path(folder: str, job: str, name: str) -> str:
    return os.path.join(folder, f"{job}.{name}{_ENDING}")
