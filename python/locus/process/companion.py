"""A small process beside a checked program: shows how far it is, speaks for it when it is killed, and takes its
temporary folder away.

It is no child of the program (os.wait() does not see it), no thread of it, and keeps none of its files open but
standard error. It ends when the program does. Where it can't be started, there is no progress line, and a killed
program leaves its folder behind; that is all.
"""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import time
import warnings
from collections.abc import Callable, Mapping
from typing import NoReturn

from locus import scratch
from locus.process import progress

_QUIET = 1.0  # seconds before the line shows
_EVERY = 0.5
_QUIETLY, _LEAVE = b"!", b"."


class Companion:
    """The program's side."""

    def __init__(self, folder: str, show: bool = False, last_words: Callable[[], None] | None = None):
        """`folder` is gone when the program is; `last_words` is called there when the program was killed."""
        self._folder, self._last_words, self._show = folder, last_words, show
        self.page = progress.Page()
        self._tell = self._told = -1
        self._has_ended = False
        self._pipes: list[tuple[int, int]] = []

    def start(self) -> None:
        """Starts the process, before the program runs."""
        with contextlib.suppress(OSError, AttributeError):  # no fork, no pidfd: no companion
            program = os.pidfd_open(os.getpid())
            hear, self._tell = os.pipe()
            self._told, answer = os.pipe()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # threads of libraries; what is done here needs none of their locks
                child = os.fork()
            if child == 0:
                self._become(program, hear, answer)
            for descriptor in (program, hear, answer):
                os.close(descriptor)
            os.waitpid(child, 0)
            self._pipes = _identities(self._tell, self._told)
            os.register_at_fork(after_in_child=self._close_in_child)

    def end(self) -> None:
        """The program is about to say its last words itself; returns when the line has gone."""
        if self._is_open() and not self._has_ended:
            self._has_ended = True
            with contextlib.suppress(OSError):
                os.write(self._tell, _QUIETLY)
                select.select([self._told], [], [], 2.0)

    def dismiss(self) -> None:
        """The folder has gone, too: there is nothing left to do."""
        if self._is_open():
            with contextlib.suppress(OSError):
                os.write(self._tell, _LEAVE)
            self._close()

    def _is_open(self) -> bool:
        """Whether the pipes are what they were: a program may close what it finds open, and open something else."""
        return self._tell >= 0 and self._pipes == _identities(self._tell, self._told)

    def _close_in_child(self) -> None:
        if self._is_open():
            self._close()

    def _close(self) -> None:
        for descriptor in (self._tell, self._told):
            with contextlib.suppress(OSError):
                if descriptor >= 0:
                    os.close(descriptor)
        self._tell = self._told = -1

    # --- The companion's side ---

    def _become(self, program: int, hear: int, answer: int) -> NoReturn:
        try:
            if os.fork() == 0:
                os.setsid()
                for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE):
                    signal.signal(number, signal.SIG_IGN)
                _keep_only(2, program, hear, answer)
                self._tell = self._told = -1
                if not self._show and self._last_words is None:
                    os.dup2(0, 2)  # it has nothing to say
                self._watch(program, hear, answer)
        except BaseException:
            os._exit(1)
        os._exit(0)

    def _watch(self, program: int, hear: int, answer: int) -> None:
        line = Line() if self._show else None
        began = time.monotonic()
        while True:
            ready, _, _ = select.select([program, hear], [], [], _EVERY if line is not None else None)
            if ready:
                break
            if line is not None and time.monotonic() - began >= _QUIET:
                line.draw(_words(self.page.read(), time.monotonic() - began))
        if line is not None:
            line.erase()
        word = _next_word(program, hear)
        if not word and self._last_words is not None:
            self._last_words()
        if word == _QUIETLY:
            os.close(answer)
            os.dup2(0, 2)  # whoever waits for the end of standard error does not wait for this process
            word = _next_word(program, hear)
        if word != _LEAVE:
            scratch.remove(self._folder)


def _identities(*descriptors: int) -> list[tuple[int, int]]:
    try:
        return [(found.st_dev, found.st_ino) for found in map(os.fstat, descriptors)]
    except OSError:
        return []


def _next_word(program: int, hear: int) -> bytes:
    """What the program says; nothing when it has gone."""
    ready, _, _ = select.select([program, hear], [], [])
    word = os.read(hear, 1) if hear in ready else b""
    if not word:
        select.select([program], [], [])  # the pipe alone says little: a program may close what it finds open
    return word


def _words(now: progress.Counters, seconds: float) -> str:
    steps, ops, findings = now.steps, now.ops, now.findings
    found = f"{findings:,} finding{'' if findings == 1 else 's'}"
    return f"locus: {steps:,} step{'' if steps == 1 else 's'}, {ops:,} ops, {found}, {seconds:.0f} s"


def _keep_only(*kept: int) -> None:
    """Closes what was inherited; nobody who waits for the program's output is to wait for this process."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1):
        os.dup2(nothing, descriptor)
    first = 0
    for last in [*sorted({0, 1, *kept}), 1 << 16]:
        if first < last:  # an empty range is every descriptor, to some systems
            os.closerange(first, last)
        first = last + 1


class Line:
    """The last row of the terminal, kept out of the program's way: its output scrolls in the rows above.

    What the program writes is never touched, and every change is one write, so that nothing comes in between.
    """

    def __init__(self, descriptor: int = 2):
        self._descriptor = descriptor
        self._rows = 0

    def draw(self, words: str) -> None:
        columns, rows = _size(self._descriptor)
        if rows < 4 or columns < 20:
            return self.erase()
        text = ""
        if rows != self._rows:
            # One row down and up again: the program's row must not be the last one.
            text += f"\x1bD\x1b7\x1b[1;{rows - 1}r\x1b8\x1b[1A"
            self._rows = rows
        self._write(f"{text}\x1b7\x1b[{rows};1H\x1b[2K{words[: columns - 1]}\x1b8")

    def erase(self) -> None:
        """Gives the row back."""
        if self._rows:
            self._write(f"\x1b7\x1b[r\x1b[{self._rows};1H\x1b[2K\x1b8")
            self._rows = 0

    def _write(self, text: str) -> None:
        with contextlib.suppress(OSError):
            os.write(self._descriptor, text.encode())


def _size(descriptor: int) -> tuple[int, int]:
    try:
        columns, lines = os.get_terminal_size(descriptor)
        return columns, lines
    except OSError:
        return 0, 0


def wants_line(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether a person looks on: standard error is a terminal that can do more than print."""
    try:
        terminal = os.isatty(2)
    except OSError:
        return False
    return terminal and environment.get("TERM", "dumb") not in ("", "dumb") and shutil.get_terminal_size().lines >= 4
