"""A process that is forked before the program starts, and runs the program again when asked to: with edited texts, in
silence, to a given step. Each run is a fork of its own, with PyTorch loaded and nothing else done.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import sys
import tempfile
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

from locus import overlay


class Rerun(NamedTuple):
    """What a run with edits left behind."""

    report: dict[str, Any] | None
    """The report as JSON; None where the run did not come to its end."""
    exit: int
    offers: list[dict[str, Any]]
    """Every edit that could be made, see Session.offers."""
    error: str
    """The last line that the program wrote to standard error, where it failed."""


class Spare:
    """The parent's side. Must be made before CUDA is used: a card can't be used after a fork, simulated or not."""

    def __init__(self, run: Callable[[int | None], dict[str, Any]]):
        """run(limit) runs and checks the program in a child; what it returns must be fit for JSON."""
        self.folder = tempfile.TemporaryDirectory(prefix="locus-fix-")
        self.runs = 0
        self._input = _Input()
        requests, self._requests = os.pipe()
        self._answers, answers = os.pipe()
        _flush()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # libraries have threads that wait; none of them holds a lock now
            self.pid = os.fork()
        if self.pid == 0:
            os.close(self._requests)
            os.close(self._answers)
            try:
                _serve(requests, answers, run, self._input)
            finally:
                os._exit(0)
        os.close(requests)
        os.close(answers)

    def rerun(self, texts: dict[str, bytes], limit: int | None, seconds: float) -> Rerun:
        """Runs the program with these texts; it is ended after `limit` optimizer steps, and after `seconds`."""
        self.runs += 1
        folder = os.path.join(self.folder.name, str(self.runs))
        os.mkdir(folder)
        overlay.save(texts, os.path.join(folder, "texts"))
        request = json.dumps({"folder": folder, "limit": limit, "seconds": seconds})
        os.write(self._requests, request.encode() + b"\n")
        answer = _read_line(self._answers)
        code = int(answer) if answer else -1
        report: dict[str, Any] = {}
        with contextlib.suppress(OSError, ValueError), open(os.path.join(folder, "result")) as file:
            report = json.load(file)
        if not report:
            return Rerun(None, code or 1, [], _last_line(os.path.join(folder, "stderr")))
        error = _last_line(os.path.join(folder, "stderr")) if report["exit"] else ""
        return Rerun(report["report"], report["exit"], report["offers"], error)

    def close(self) -> None:
        """Ends the process."""
        for descriptor in (self._requests, self._answers):
            with contextlib.suppress(OSError):
                os.close(descriptor)
        with contextlib.suppress(OSError):
            os.waitpid(self.pid, 0)
        self.folder.cleanup()


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


def _serve(requests: int, answers: int, run: Callable[[int | None], dict[str, Any]], given: _Input) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which then closes the pipe
    while True:
        line = _read_line(requests)
        if not line:
            return
        request = json.loads(line)
        child = os.fork()
        if child == 0:
            os.close(requests)
            os.close(answers)
            try:
                _run_child(request, run, given)
            finally:
                os._exit(1)
        os.write(answers, b"%d\n" % _wait(child, requests, request["seconds"]))


def _run_child(request: dict[str, Any], run: Callable[[int | None], dict[str, Any]], given: _Input) -> None:
    with contextlib.suppress(OSError):
        os.setpgid(0, 0)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    folder = request["folder"]
    errors = os.open(os.path.join(folder, "stderr"), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    silence = os.open(os.devnull, os.O_WRONLY)
    for old, new in ((given.open(), 0), (silence, 1), (errors, 2)):
        os.dup2(old, new)
    texts = os.path.join(folder, "texts")
    overlay.install_saved(texts)
    os.environ[overlay.VARIABLE] = texts
    result = run(request["limit"])
    _flush()
    with open(os.path.join(folder, "result.part"), "w") as file:
        json.dump(result, file)
    os.replace(os.path.join(folder, "result.part"), os.path.join(folder, "result"))
    os._exit(0)


def _wait(child: int, requests: int, seconds: float) -> int:
    """The child's exit code; ends it with all that it has started when it takes too long or the parent has gone."""
    descriptor = os.pidfd_open(child)
    select.select([descriptor, requests], [], [], seconds)
    os.close(descriptor)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child, signal.SIGKILL)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status)


def _read_line(descriptor: int) -> bytes:
    line = b""
    while not line.endswith(b"\n"):
        piece = os.read(descriptor, 65536)
        if not piece:
            return b""
        line += piece
    return line


def _last_line(file: str) -> str:
    with contextlib.suppress(OSError), open(file, errors="replace") as opened:
        lines = [line.strip() for line in opened.read()[-4000:].splitlines() if line.strip()]
        return lines[-1] if lines else ""
    return ""


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError, AttributeError):
            stream.flush()
