"""One report, however the program ends: by itself, Ctrl-C, SIGTERM, os._exit(), or killed without a word.

The program sees none of it: its signals, exit codes and children stay what they are under Python.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
import types
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NoReturn

from locus import scratch
from locus.process import children, progress, replacing, reports
from locus.process.companion import Companion, wants_line
from locus.program.end import End

if TYPE_CHECKING:
    from locus._bridge import Report

_Handler = Callable[[int, "types.FrameType | None"], object] | int | signal.Handlers | None
_ALWAYS_NOTED = 10  # findings: without the first ones, a program that is killed would look as if it had none
_SHARE = 10  # of the time, one part at most goes into notes for the case that the program is killed


class Interrupted(BaseException):
    """Somebody wants the end of what can be left out."""


class Patience:
    """While a report is made, Ctrl-C and SIGTERM wait: a second one must not cost the report. What can be left out
    (trying the fixes) is left out then."""

    def __init__(self) -> None:
        self.came: list[int] = []
        self._before: dict[int, _Handler] = {}
        self._interruptible = False

    def __enter__(self) -> Patience:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is signal.SIG_IGN:
                continue  # somebody wants it so: nohup, a shell's background job
            with contextlib.suppress(ValueError, OSError):  # not the main thread
                self._before[number] = signal.signal(number, self._hear)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            with contextlib.suppress(ValueError, OSError, TypeError):
                # The report is out and only the end is left: another Ctrl-C must not change the exit status.
                signal.signal(number, signal.SIG_IGN if number == signal.SIGINT else handler)

    @contextlib.contextmanager
    def interruptible(self) -> Iterator[None]:
        """A signal ends what is done in here, and only that."""
        self._interruptible = True
        try:
            yield
        except Interrupted:
            pass
        finally:
            self._interruptible = False

    def _hear(self, number: int, frame: types.FrameType | None) -> None:
        self.came.append(number)
        if self._interruptible:
            self._interruptible = False
            raise Interrupted


def _keep_out_of_children(handler: Callable[[int, types.FrameType | None], None]) -> None:
    """A forked child dies of SIGTERM at once, as it would have. Python drops a signal that is handled in Python and
    comes while a process forks; so it is held back until the child has its own way to take it."""
    masks = threading.local()

    def hold() -> None:
        masks.before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])

    def release() -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, masks.before)

    def release_in_child() -> None:
        if signal.getsignal(signal.SIGTERM) == handler:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
        release()

    os.register_at_fork(before=hold, after_in_parent=release, after_in_child=release_in_child)


def catch_exit(finish: Callable[[End], int]) -> None:
    """os._exit() in this process, and the end of a program that it has put in its place, call `finish`, which gives the
    exit status; a forked child reports first."""
    original, process = os._exit, os.getpid()

    def leave(status: int) -> int:
        if os.getpid() == process:
            return finish(End(status & 0xFF))
        children.write_own()  # it has no other end
        return status

    def leave_after(end: End) -> NoReturn:
        original(finish(end))

    replacing.catch_exit(leave)
    replacing.catch_exec(leave_after, children.setting_aside)


def end_within(seconds: float, exit_code: int) -> None:
    """Ends this process when it has not ended by then: a program may have threads without end, or exit handlers that
    hang. What has not been reported by then is, see catch_exit."""

    def wait() -> None:
        time.sleep(seconds)
        say(f"the program's threads and exit handlers have not ended within {seconds:,.0f} s; ended without them")
        os._exit(exit_code)

    threading.Thread(target=wait, name="locus-end", daemon=True).start()


def say(words: str) -> None:
    """A line of Locus's own."""
    to_stderr(f"locus: {words}\n".encode("utf-8", "replace"))


def to_stderr(data: bytes) -> None:
    """Writes to standard error, whatever the program has made of sys.stderr."""
    with contextlib.suppress(OSError):  # nobody reads it
        reports.show_all(2, data)


class Ending:
    """Sees to it that the report of a session is made exactly once. `make` gives it for an end of the program, whole
    (with who hears of signals meanwhile) or so far; `publish` writes it and gives the exit code of the check; `revive`
    makes a report so far a whole one, in another process. `folder` is of locus.scratch, and goes with it."""

    def __init__(
        self,
        make: Callable[[End, Patience | None], Report],
        publish: Callable[[Report, Patience], int],
        revive: Callable[[Report], None],
        folder: str,
    ):
        self._make, self._publish, self._revive, self._folder = make, publish, revive, folder
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._done = False
        self._began = time.monotonic()
        self._noted = self._note_took = 0.0
        self._notes = os.path.join(folder, "so-far")
        self.companion = Companion(folder, wants_line(), self._speak_for_the_dead)

    def prepare(self) -> None:
        """Before the program runs, and before PyTorch is there."""
        self.companion.start()
        if threading.current_thread() is threading.main_thread():
            with contextlib.suppress(ValueError, OSError):
                if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
                    signal.signal(signal.SIGTERM, self._terminated)
                    _keep_out_of_children(self._terminated)
        catch_exit(self.finish)

    def note(self, findings: int) -> None:
        """Something was found: writes down what is known so far."""
        if not self._is_mine() or self._done:
            return
        self.companion.page.count_findings(findings)
        now = time.monotonic()
        if findings > _ALWAYS_NOTED and now - self._noted < _SHARE * self._note_took:
            return
        with contextlib.suppress(OSError):
            scratch.write(self._notes, self._make(End(), None).render("json"))
        self._noted = time.monotonic()
        self._note_took = self._noted - now

    def finish(self, end: End) -> int:
        """Reports, the first time; the check's exit code. A child that the program forked leaves that to it."""
        if not self._is_mine():
            return end.exit
        with self._lock:
            if self._done:
                return end.exit
            self._done = True
        with Patience() as patience:
            try:
                self.companion.end()
                return self._publish(self._make(end, patience), patience)
            finally:
                self.discard()

    def discard(self) -> None:
        """There is nothing to report any more."""
        self._done = True
        self.companion.end()
        scratch.remove(self._folder)
        self.companion.dismiss()

    def _is_mine(self) -> bool:
        return os.getpid() == self._process

    def _terminated(self, number: int, frame: types.FrameType | None) -> None:
        if self._is_mine():
            self.finish(End.by_signal(number))
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)  # ends as it would have: by the signal

    def _speak_for_the_dead(self) -> None:
        """In the companion: the program was ended, and could not report any more."""
        try:
            written = scratch.read(self._notes)
            if not written:
                return
            report = reports.load(written)
            last = self.companion.page.read()
            end = End.by_signal(last.signal or signal.SIGKILL)
            took = round(time.monotonic() - self._began, 3)
            report.end(end.exit, end.by, took, last.steps, last.ops, bool(last.on_device))
            if last.faulty:
                report.set_incomplete(progress.FAULTY)
            missing = last.findings - report.finding_count - report.ignored_count
            if missing > 0:
                report.add_note(f"{missing} more had been found; the program was ended before they were written")
                if not report.finding_count:
                    report.set_incomplete("what was found could not be written before the program was ended")
            self._revive(report)
            with Patience() as patience:
                self._publish(report, patience)
        finally:
            self.discard()
