"""What a program prints: what Python writes to standard output is kept on its way there. The program and whoever reads
its output see no difference. What goes there by other ways (C libraries, os.write(), other processes) is not kept.
"""

from __future__ import annotations

import contextlib
import io
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

_MOST = 4 << 20
"""Bytes that are kept. An output that is longer is not compared."""


class Printed:
    """The output of this process, from when it is made on."""

    def __init__(self) -> None:
        self._kept = bytearray()
        self._is_known = False
        old = sys.stdout
        # Only Python's own: what somebody has put in its place is theirs.
        if type(old) is not io.TextIOWrapper or type(old.buffer) not in (io.BufferedWriter, io.FileIO):
            return
        with contextlib.suppress(OSError, ValueError):
            if old.fileno() != 1:
                return
            old.flush()
            raw = _Kept(self._kept)
            buffer = raw if isinstance(old.buffer, io.FileIO) else io.BufferedWriter(raw)
            new = io.TextIOWrapper(
                buffer, old.encoding, old.errors, "\n", old.line_buffering, old.write_through
            )  # fmt: skip
            new.mode = "w"  # type: ignore[misc]  # as Python itself does
            self._old = old  # it stays open
            if sys.__stdout__ is old:
                sys.__stdout__ = new  # type: ignore[misc]
            sys.stdout = new
            self._is_known = True

    def text(self) -> str | None:
        """What was printed up to now; None where nobody can say."""
        if not self._is_known or len(self._kept) > _MOST:
            return None
        return self._kept.decode("utf-8", "replace")


class _Kept(io.FileIO):
    def __init__(self, kept: bytearray):
        super().__init__(1, "w", closefd=False)
        self.name = "<stdout>"
        self._kept = kept

    def write(self, data: ReadableBuffer, /) -> int:
        written = super().write(data)
        if written and len(self._kept) <= _MOST:
            with contextlib.suppress(MemoryError):
                self._kept += memoryview(data).cast("B")[:written]
        return written
