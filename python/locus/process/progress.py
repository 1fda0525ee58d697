"""How far a program is, in a page of memory that another process can read: also when the program has been killed."""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import os
import struct
from typing import NamedTuple

from locus import scratch

_SIZE = 4096
_FIELDS = struct.Struct("=QQQQQQ")  # as in locus/bridge/python/shared_counters.h; findings are written here
_FINDINGS = 16

FAULTY = "a fault inside Locus kept it from looking at everything"
FAULTY_CHILD = f"{FAULTY} in a process that the program started"
"""What is incomplete about a report where one was noted in the page."""


class Counters(NamedTuple):
    """What stands in the page."""

    steps: int = 0
    ops: int = 0
    findings: int = 0
    signal: int = 0
    """What ended the program; 0: nothing, or nothing that a process hears of before it ends (SIGKILL)."""
    on_device: int = 0
    faulty: int = 0
    """Whether the check itself had a fault in this process."""


class Page:
    """The page of this process: shared with those that it forks, or in a file."""

    def __init__(self, file: str | None = None):
        self._memory: mmap.mmap | None = None
        with contextlib.suppress(OSError):
            self._memory = mmap.mmap(-1, _SIZE) if file is None else _in_file(file)

    def address(self) -> int:
        """Where the bridge may write; 0: nowhere."""
        return ctypes.addressof(ctypes.c_char.from_buffer(self._memory)) if self._memory is not None else 0

    def count_findings(self, count: int) -> None:
        """Says how many have been found."""
        if self._memory is not None:
            struct.pack_into("=Q", self._memory, _FINDINGS, count)

    def read(self) -> Counters:
        """The counters as they stand."""
        return Counters(*_FIELDS.unpack_from(self._memory)) if self._memory is not None else Counters()


def _in_file(path: str) -> mmap.mmap:
    descriptor = scratch.create(path, os.O_RDWR)
    try:
        os.ftruncate(descriptor, _SIZE)
        return mmap.mmap(descriptor, _SIZE)
    finally:
        os.close(descriptor)


def read_file(path: str) -> Counters:
    """The counters of another process's file; none where there is no such file."""
    data = b""
    with contextlib.suppress(OSError):
        data = scratch.read(path)
    return Counters(*_FIELDS.unpack_from(data)) if len(data) >= _FIELDS.size else Counters()
