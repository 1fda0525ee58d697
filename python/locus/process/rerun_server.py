"""A process that is forked before the program starts, and runs the program again when asked to: with other texts, in
silence, to a given step. Each run is a fork of its own, with PyTorch loaded and nothing else done.

It always ends: with the process that asks, whoever else holds its pipes, and it takes everything with it that a run has
started, in whatever group or session that is by then. The program does not see it: it is no child of the program's.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import re
import select
import signal
import sys
import time
import warnings
from collections.abc import Callable
from typing import NoReturn, TypedDict

from locus import scratch
from locus.errors import LocusError
from locus.fixing.rerun import Rerun, Words
from locus.process import overlay

_GRACE = 30.0
"""Seconds, at most, for what is done around a run."""
_TAIL = 4000
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_LIBC = ctypes.CDLL(None, use_errno=True)  # before any fork: loading is not safe in a child
_NOT_STARTED = (
    "the process that runs the program again can't be started: {why}. `locus check` without --verify needs none; "
    "TMPDIR names another folder for temporary files."
)
_CLEANERS = b"multiprocessing.resource_tracker", b"torch_shm_manager"
"""Processes that take a dead process's shared memory away, and end then."""
_exit = os._exit  # the system's: a check puts its own in its place

_TRACEBACK_LINE = re.compile(r'^ *File "(.+)", line (\d+)', re.MULTILINE)


class Request(TypedDict):
    """A run that is asked for."""

    folder: str
    """Where its texts are, and where its result goes."""
    limit: int | None
    """It is ended after so many optimizer steps."""
    seconds: float
    shared_rng: bool
    """CPU and devices draw from one generator."""


class Result(TypedDict):
    """What a run that came to its end gives."""

    report: Words
    exit: int
    printed: str | None


class _Answer(TypedDict):
    exit: int
    ended: bool
    error: str
    """The last line on standard error."""
    traceback: list[tuple[str, int]]


Run = Callable[[Request, Callable[[Result], NoReturn]], None]
"""run(request, give): runs and checks the program, then gives what it found; does not come back."""


class RerunServer:
    """The asking side. Must be made before CUDA is used: a card can't be used after a fork, simulated or not.

    Keeps no file open while the program runs: a child of the program's could keep it open for ever, and the program may
    close what it finds open.
    """

    def __init__(self, folder: str, run: Run):
        """`folder` is of locus.scratch; its owner takes it away."""
        self.folder, self.runs = folder, 0
        self._requests, self._answers = os.path.join(folder, "requests"), os.path.join(folder, "answers")
        self._owner = os.getpid()
        try:
            for path in (self._requests, self._answers):
                os.mkfifo(path, 0o600)
            hear, tell = os.pipe()
            server = _Server(self._requests, self._answers, os.pidfd_open(self._owner), run)
            _flush()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # libraries have threads that wait; none of them holds a lock now
                child = os.fork()
            if child == 0:
                server.become(tell)
            os.close(tell)
            os.waitpid(child, 0)
            self.pid = int(_read_line(hear, _GRACE) or 0)
            self._born = scratch.birth(self.pid)
            for descriptor in (hear, server.asker):
                os.close(descriptor)
        except (OSError, AttributeError) as error:
            raise LocusError(_NOT_STARTED.format(why=error)) from None
        if not self._born:
            raise LocusError(_NOT_STARTED.format(why="it has gone"))

    def rerun(self, texts: dict[str, bytes], limit: int | None, seconds: float, shared_rng: bool = False) -> Rerun:
        """Runs the program with these texts; it is ended after `limit` optimizer steps, and after `seconds`."""
        self.runs += 1
        folder = scratch.make_inside(self.folder, f"run-{self.runs}")
        overlay.save(texts, os.path.join(folder, "texts"))
        request = Request(folder=folder, limit=limit, seconds=seconds, shared_rng=shared_rng)
        line = self._ask(json.dumps(request), seconds + _GRACE)
        if not line:
            return Rerun(None, 1, "the process that runs it again has gone")
        answer: _Answer = json.loads(line)
        result: Result | None = None
        with contextlib.suppress(OSError, ValueError):
            result = json.loads(scratch.read(os.path.join(folder, "result")))
        scratch.remove(folder)
        traceback = tuple((file, number) for file, number in answer["traceback"])
        if result is None:
            late = 0.0 if answer["ended"] else seconds
            return Rerun(None, answer["exit"] or 1, answer["error"], late, traceback=traceback)
        error = answer["error"] if result["exit"] else ""
        return Rerun(result["report"], result["exit"], error, 0.0, result["printed"], traceback if error else ())

    def close(self) -> None:
        """Ends the process, and a run that is under way. Waits for that, but not for ever."""
        if os.getpid() == self._owner:
            self._ask("", _GRACE)

    def _ask(self, request: str, seconds: float) -> bytes:
        """Sends a line; the answer, or nothing when the process has gone. One that gives neither in time is killed."""
        with contextlib.ExitStack() as stack:
            opened = []
            try:
                for path, flags in ((self._requests, os.O_WRONLY), (self._answers, os.O_RDONLY)):
                    opened.append(os.open(path, flags | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC))
                    stack.callback(os.close, opened[-1])
                process = os.pidfd_open(self.pid)
                stack.callback(os.close, process)
                if scratch.birth(self.pid) != self._born:
                    return b""  # somebody else has its number
                os.write(opened[0], f"{request}\n".encode())
            except OSError:
                return b""  # nobody reads there
            ready = _poll([opened[1], process], seconds)
            if opened[1] in ready:
                return _read_line(opened[1], _GRACE)
            if not ready:
                signal.pidfd_send_signal(process, signal.SIGKILL)
            return b""


class _Server:
    """The side that runs the program."""

    def __init__(self, requests: str, answers: str, asker: int, run: Run):
        self.paths, self.asker, self.run = (requests, answers), asker, run
        self.requests = self.answers = -1
        self.leads = os.getpgrp() == os.getpid()  # whoever leads its group can't begin a session
        self.input = _Input()

    def become(self, tell: int) -> NoReturn:
        """In a fork: forks once more, so that the asking process has no child that it does not know of."""
        try:
            os.setsid()  # no terminal: Ctrl-C is for the asking process, and a run asks nobody for a password
            if os.fork():
                _exit(0)
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                signal.signal(number, signal.SIG_IGN)
            _LIBC.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)  # what a run starts and leaves comes here
            self.requests, self.answers = (os.open(path, os.O_RDWR | os.O_CLOEXEC) for path in self.paths)
            os.write(tell, b"%d\n" % os.getpid())
            os.close(tell)
            while (request := self._next()) is not None:
                os.write(self.answers, json.dumps(self._serve(request)).encode() + b"\n")
        except OSError:
            pass  # the folder has gone, or there is no process to be had
        finally:
            _end_descendants()
            _exit(0)

    def _next(self) -> Request | None:
        """What is asked for; None when nothing will be."""
        if self.requests not in _poll([self.requests, self.asker]):
            return None
        line = _read_line(self.requests).strip()
        request: Request | None = json.loads(line) if line else None
        return request

    def _serve(self, request: Request) -> _Answer:
        errors, end = os.pipe()
        me = os.getpid()
        child = os.fork()
        if child == 0:
            try:
                os.close(errors)
                self._run_program(request, end, me)
            except Exception as error:  # of Locus's own; the program's are told by the run
                with contextlib.suppress(OSError):
                    os.write(2, f"{type(error).__name__}: {error}".encode())
            finally:
                _exit(1)
        os.close(end)
        process = os.pidfd_open(child)
        tail, ended, until = b"", False, time.monotonic() + request["seconds"]
        while not ended:
            ready = _poll([process, self.requests, self.asker, errors], max(0.0, until - time.monotonic()))
            ended = process in ready
            if errors in ready:
                piece = os.read(errors, 65536)
                tail = (tail + piece)[-_TAIL:]
                if not piece:  # closed by the program
                    os.close(errors)
                    errors = -1
            if not ready or self.requests in ready or self.asker in ready:
                break
        os.close(process)
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        _end_descendants()
        while errors >= 0 and _poll([errors], 0.0) and (piece := os.read(errors, 65536)):
            tail = (tail + piece)[-_TAIL:]
        if errors >= 0:
            os.close(errors)
        text = tail.decode("utf-8", "replace")
        return {
            "exit": os.waitstatus_to_exitcode(status), "ended": ended, "error": last_line(text),
            "traceback": list(traceback_lines(text)),
        }  # fmt: skip

    def _run_program(self, request: Request, errors: int, server: int) -> None:
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != server:
            return
        for descriptor in (self.requests, self.answers, self.asker):
            os.close(descriptor)
        if self.leads:
            os.setpgid(0, 0)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        silence = os.open(os.devnull, os.O_WRONLY)
        for old, new in ((self.input.open(), 0), (silence, 1), (errors, 2)):
            os.dup2(old, new)
            os.close(old)
        folder = request["folder"]
        texts = os.path.join(folder, "texts")
        overlay.install_saved(texts)
        os.environ[overlay.VARIABLE] = texts

        def give(result: Result) -> NoReturn:
            _flush()
            scratch.write(os.path.join(folder, "result"), json.dumps(result))
            _exit(0)

        self.run(request, give)


class _Input:
    """Standard input as it was: a file is read again from where it stood, a pipe or a terminal can't be."""

    def __init__(self) -> None:
        self.offset = -1
        with contextlib.suppress(OSError, ValueError):
            self.offset = os.lseek(0, 0, os.SEEK_CUR)

    def open(self) -> int:
        if self.offset >= 0:
            with contextlib.suppress(OSError):
                descriptor = os.open("/proc/self/fd/0", os.O_RDONLY)
                os.lseek(descriptor, self.offset, os.SEEK_SET)
                return descriptor
        return os.open(os.devnull, os.O_RDONLY)


def _end_descendants() -> None:
    """Ends every process that a run has started and left, and what these have started since."""
    began = time.monotonic()
    while (waited := time.monotonic() - began) < _GRACE / 2:
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        for pid in _descendants():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                if waited > _GRACE / 10 or not _is_cleaner(pid):
                    os.kill(pid, signal.SIGKILL)
        time.sleep(0.01)


def _is_cleaner(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            words = file.read()
    except OSError:
        return False
    return any(word in words for word in _CLEANERS)


def _descendants() -> set[int]:
    parents: dict[int, int] = {}
    for name in os.listdir("/proc"):
        if name.isdecimal():
            with contextlib.suppress(OSError, ValueError, IndexError), open(f"/proc/{name}/stat", "rb") as file:
                parents[int(name)] = int(file.read().rpartition(b")")[2].split()[1])
    found = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return found - {os.getpid()}


def _poll(descriptors: list[int], seconds: float | None = None) -> set[int]:
    """Those that something has happened to."""
    poll = select.poll()
    for descriptor in descriptors:
        if descriptor >= 0:
            poll.register(descriptor, select.POLLIN)
    milliseconds = None if seconds is None else min(int(seconds * 1000), 1 << 30)
    return {descriptor for descriptor, _ in poll.poll(milliseconds)}


def _read_line(descriptor: int, seconds: float | None = None) -> bytes:
    """A whole line; nothing where none comes any more, or in time."""
    line = b""
    until = None if seconds is None else time.monotonic() + seconds
    while not line.endswith(b"\n"):
        if not _poll([descriptor], None if until is None else max(0.0, until - time.monotonic())):
            return b""
        piece = os.read(descriptor, 65536)
        if not piece:
            return b""
        line += piece
    return line


def traceback_lines(text: str) -> tuple[tuple[str, int], ...]:
    """The lines that the tracebacks in a text name."""
    return tuple((file, int(line)) for file, line in _TRACEBACK_LINE.findall(text))


def last_line(text: str) -> str:
    """The last line of a text that is not empty."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else ""


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError, AttributeError):
            stream.flush()
