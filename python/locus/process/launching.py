"""`--nproc N` of run and check: starts N ranks of a program on this machine, as torchrun would, and ends them."""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import socket
import subprocess
import sys
import time

from locus.errors import UsageError
from locus.process import cluster, endings, files, overlay, runner
from locus.program.end import End

_GRACE = 5.0
"""Seconds that the other ranks have, after one has failed, to see it and say so themselves."""

_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None, use_errno=True)  # before any fork: loading is not safe in a child


def launch(shape: cluster.Shape, target: runner.Target, patience: endings.Patience) -> tuple[End, dict[int, int]]:
    """Runs the ranks to their end; (how the first that failed has ended; the codes of those that ended by themselves).
    None of them is left behind. Ctrl-C and SIGTERM end them all, the second one without waiting.
    """
    command = command_of(target)
    ranks: list[subprocess.Popen[bytes]] = []
    port = free_port() if 0 in shape.here else int(os.environ["MASTER_PORT"])
    end, codes = End(), dict[int, int]()
    try:
        with patience.interruptible():
            for number in shape.here:
                ranks.append(start(command, number, shape.environment(number, port)))
            end, codes = _wait(ranks, shape.here)
        if patience.came:
            end, codes = End.by_signal(patience.came[0]), {}
            with patience.interruptible():
                end_all(ranks, signal.SIGINT)  # a rank writes its report then
    finally:
        end_all(ranks, signal.SIGKILL)
    return end, codes


def describe_failures(codes: dict[int, int]) -> str:
    """ "rank 1 ended with exit status 1", for the first rank that failed by itself; "" where none has."""
    for rank, code in sorted(codes.items()):
        if code > 0:
            return f"rank {rank} ended with exit status {code}"
        if code < 0:
            return f"rank {rank} was killed by {End.by_signal(-code).by}"
    return ""


def command_of(target: runner.Target) -> list[str]:
    """What starts a rank; a UsageError where it can't be one."""
    runner.check_program(target)
    if target.kind == "notebook":
        raise UsageError("a notebook is one process; --nproc can't be had with it. Leave it out, or make it a script.")
    if target.kind == "script" and not os.path.exists(target.name):
        raise UsageError(files.cannot_open("script", target.name))
    flag = {"script": [], "module": ["-m"], "code": ["-c"]}[target.kind]
    if target.kind == "script" and overlay.VARIABLE in os.environ:
        flag = ["-m", "locus.process.edited_script"]
    return [sys.executable, *flag, target.name, *target.arguments]


def free_port() -> int:
    """MASTER_PORT where it is given, else a free one."""
    given = os.environ.get("MASTER_PORT", "")
    if given and not (given.isdecimal() and 0 < int(given) < 65536):
        raise UsageError(f"MASTER_PORT={given!r} is not a port. Use a number from 1 to 65535, or unset it.")
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", int(given or 0)))
        except OSError as error:
            raise UsageError(
                f"MASTER_PORT={given} can't be used: {error.strerror}. Choose another port, or unset it."
            ) from None
        port: int = probe.getsockname()[1]
        return port


def start(command: list[str], number: int, environment: dict[str, str]) -> subprocess.Popen[bytes]:
    """A rank, which ends with this process and can be ended with all that it starts."""
    parent = os.getpid()

    def before() -> None:
        os.setpgid(0, 0)  # what a rank starts itself can be ended with it
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:
            os._exit(1)

    try:
        return subprocess.Popen(command, env={**os.environ, **environment}, preexec_fn=before)
    except OSError as error:
        raise UsageError(f"rank {number} can't be started: {error.strerror}: {command[0]}") from None


def _wait(ranks: list[subprocess.Popen[bytes]], numbers: range) -> tuple[End, dict[int, int]]:
    """Until all are done, or one has failed and the others had their time."""
    failed, deadline = End(), None
    codes: dict[int, int] = {}
    running = list(ranks)
    while running:
        for rank in list(running):
            code = rank.poll()
            if code is None:
                continue
            running.remove(rank)
            codes[numbers[ranks.index(rank)]] = code
            if code != 0 and not failed.exit:
                failed = End(code) if code > 0 else End.by_signal(-code)
                deadline = time.monotonic() + _GRACE
        if not running:
            break
        if deadline is not None and time.monotonic() > deadline:
            end_all(running, signal.SIGTERM)
            break
        wait_for_change(running, deadline)
    return failed, codes


def wait_for_change(running: list[subprocess.Popen[bytes]], deadline: float | None) -> None:
    """Sleeps until a rank ends; no polling."""
    watched = {}
    try:
        for rank in running:
            watched[os.pidfd_open(rank.pid)] = rank
        left = None if deadline is None else max(0.0, deadline - time.monotonic()) + 0.01
        select.select(list(watched), [], [], left)
    except (AttributeError, OSError):
        time.sleep(0.05)
    finally:
        for descriptor in watched:
            os.close(descriptor)


def end_all(ranks: list[subprocess.Popen[bytes]], how: signal.Signals) -> None:
    """Ends ranks and whatever they started: asked first, then without asking."""
    alive = [rank for rank in ranks if rank.poll() is None]
    for number in (how, signal.SIGKILL):
        for rank in alive:
            for wake in (number, signal.SIGCONT):  # a stopped process hears only the second
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(rank.pid, wake)
        for rank in alive:
            with contextlib.suppress(subprocess.TimeoutExpired):
                rank.wait(timeout=2.0)
        alive = [rank for rank in alive if rank.poll() is None]
    if how == signal.SIGKILL:
        for rank in ranks:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(rank.pid, signal.SIGKILL)  # workers that a rank has left
