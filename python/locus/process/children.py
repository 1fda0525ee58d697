"""A check of a program that starts other processes: each of them is checked too, and writes what it found into a folder
that the first one reads.

The folder's name is in LOCUS_CHECK_DIR. A process that starts with it set checks itself from the moment it imports
PyTorch, and keeps `<pid>.json` there, a report, up to date: after every new finding, and at its end. So nothing is lost
when it is killed. The first process takes all of them into its own report.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import json
import os
import signal
import sys
import time
import types
from collections.abc import Iterator
from typing import TYPE_CHECKING

from locus import faults, scratch
from locus.process import held, progress, replacing, tracing
from locus.process.companion import Companion
from locus.process.session import Session
from locus.program import alone
from locus.ranks import checking, ended_by, hosts, membership
from locus.watch import caught, reporter, uncaught, unwatched

if TYPE_CHECKING:
    from locus import _bridge as bridge

STEPS_VARIABLE = "LOCUS_CHECK_STEPS"

_COUNTERS = ".counters"  # the ending of the files of locus.process.progress

_session: Session | None = None
_page: progress.Page | None = None
_is_child = _is_fork = _has_ended = False
_used_before_fork = False


def is_child() -> bool:
    """Whether this process was started, or forked, by one that is checked."""
    return _is_child


@contextlib.contextmanager
def gathering(given: str | None = None) -> Iterator[str]:
    """The folder for the processes that this one will start: the caller's, or one that is gone at the end."""
    before = scratch.of_check()
    path, owner = given or scratch.make(), os.getpid()
    companion = Companion(path)
    if given is None:
        companion.start()
    scratch.belong_to(path)
    try:
        yield path
    finally:
        scratch.belong_to(before)
        if os.getpid() == owner and given is None:
            scratch.remove(path)
            companion.dismiss()


def start_in_child() -> None:
    """Starts the check of a process whose parent is checked. Called once its devices are simulated."""
    global _is_child
    if _session is not None or not scratch.is_own(scratch.of_check()):
        return
    scratch.belong_to(scratch.of_check())
    _is_child = True
    if "TORCHELASTIC_RUN_ID" in os.environ:
        _end_with_parent()
    limit = os.environ.get(STEPS_VARIABLE, "")
    session = Session(sys.argv[0] if sys.argv else "", sys.argv[1:], int(limit) if limit.isdecimal() else None)
    session.start()
    tracing.begin_in_child()
    _count_in_file(session)
    session.coverage.begin_in_child(scratch.of_check(), forked=False)
    follow(session)
    hosts.expect()
    session.bridge.hear_exit(uncaught.note_exit)
    replacing.catch_exit(_leave)
    replacing.catch_exec(None, setting_aside)
    atexit.register(write_own)
    with contextlib.suppress(Exception):
        _multiprocessing().Finalize(None, write_own, exitpriority=-100)  # processes of multiprocessing know no atexit


def _leave(status: int) -> int:
    write_own()  # it has no other end
    return status


def _multiprocessing() -> types.ModuleType:
    """PyTorch has imported it. Before that it would put an exit handler ahead of the program's own."""
    return sys.modules["multiprocessing.util"]


def _count_in_file(session: Session) -> None:
    """What a child has done is known when it is killed, too."""
    global _page
    _page = progress.Page(os.path.join(scratch.of_check(), f"{os.getpid()}{_COUNTERS}"))
    session.share_counters(_page)


def begin(session: Session, path: str) -> None:
    """This process is the first of a check of its own, whoever started it; its children report into a folder."""
    global _is_child, _is_fork
    _is_child = _is_fork = False
    scratch.belong_to(path)
    follow(session)


def set_watched(path: str, watched: bool) -> None:
    """Whether the processes that are started from here on are checked."""
    if watched:
        scratch.belong_to(path)
    elif scratch.of_check() == path:
        scratch.belong_to("")


def _end_with_parent() -> None:
    """A rank of torchrun's does not outlive a check that is killed."""
    with contextlib.suppress(Exception):
        parent = os.getppid()
        ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)  # PR_SET_PDEATHSIG
        if os.getppid() != parent:
            os._exit(1)


def follow(session: Session) -> None:
    """Keeps up with the check of this process, and with its forks."""
    global _session
    if _session is None:
        os.register_at_fork(after_in_parent=_has_forked, after_in_child=_forked)
    _session = session
    session.is_child = _is_child
    reporter.at_change = note_change


def _has_forked() -> None:
    if _session is not None and scratch.of_check():
        _session.coverage.count_fork()


def _forked() -> None:
    """A forked child starts with the parent's findings, which are not its own."""
    global _is_child, _is_fork, _has_ended, _used_before_fork
    if _session is None or _session.bridge is None or not os.path.isdir(scratch.of_check()):
        return
    _is_child, _is_fork, _has_ended = True, True, False
    _session.is_child = True
    _session.bridge.clear_findings()
    uncaught.forget()
    caught.forget()
    unwatched.forget()
    _session.begin_counting()
    _used_before_fork = _session.uses_device()
    _session.coverage.begin_in_child(scratch.of_check(), forked=True)
    with contextlib.suppress(Exception):
        _multiprocessing().Finalize(None, write_own, exitpriority=-100)
    atexit.register(write_own)


def note_change() -> None:
    """A finding is new: a child's file is written anew, for the child may not live to its end."""
    if _is_child:
        _write_own(final=False)
    elif _session is not None:
        _session.tell_ending()


def write_own() -> None:
    """Writes this child's report at its end."""
    global _has_ended
    if not _has_ended:
        _has_ended = True
        if _is_child and not _is_fork:
            hosts.leave()
        uncaught.keep_unasked()
        _write_own(final=True)


@contextlib.contextmanager
def setting_aside() -> Iterator[None]:
    """A child puts another program in its place, with its number: what it has found gets a name of its own."""
    own = os.path.join(scratch.of_check(), f"{os.getpid()}.json")
    kept = own.removesuffix(".json") + f".{time.monotonic_ns()}.json"
    with contextlib.suppress(OSError):
        _write_own(final=False)
        os.rename(own, kept)
    try:
        yield
    finally:  # nothing came of it
        with contextlib.suppress(OSError):
            os.unlink(kept)


def _write_own(final: bool) -> None:
    """Never raises; a folder that has gone means that nobody reads it."""
    path = scratch.of_check()
    if not _is_child or _session is None or not os.path.isdir(path):
        return
    try:
        if final:
            _session.coverage.leave_word(path)
        uses_device = _session.uses_device() and not _used_before_fork
        if _is_fork and not _session.finding_count() and not membership.world() and not uses_device:
            return  # a worker that did nothing of note
        _session.cluster = checking.own_cluster()
        report = _session.report(finished=False)
        report.sign(membership.world(), membership.rank())
        checking.leave_word(os.path.join(path, f"{os.getpid()}.passes"))
        if _is_fork:  # counted by the parent already, up to the fork
            report.leave_to_parent()
        scratch.write(os.path.join(path, f"{os.getpid()}.json"), report.render("json"))
        if final and membership.rank() is not None:
            held.note(report, membership.rank())
        if final and not _is_fork:  # a fork has what its parent has kept
            checking.leave_calls(os.path.join(path, f"{os.getpid()}{alone.CALLS}"), _session.reached_limit())
            rank = membership.rank()
            number = os.getpid() if rank is None else rank
            tracing.leave(path, number, f"process {number}" if rank is None else f"rank {rank}")
    except Exception as error:
        with contextlib.suppress(Exception):
            faults.note("report of a child process", error)  # in a page that is shared, whoever may write where


def _of_silent(path: str) -> list[str]:
    """Reports, of counts alone, for the children that were ended before they had written one; and of a fault, where
    the check of a child had one and may not have been able to say more."""
    found = []
    for name in sorted(os.listdir(path) if os.path.isdir(path) else []):
        pid = name.removesuffix(_COUNTERS)
        if pid == name:
            continue
        counts = progress.read_file(os.path.join(path, name))
        has_report = os.path.exists(os.path.join(path, f"{pid}.json"))
        if counts.faulty or not has_report:
            program: dict[str, object] = {"incomplete": progress.FAULTY_CHILD} if counts.faulty else {}
            if not has_report:
                program |= {"ops": counts.ops, "steps": counts.steps, "on_device": bool(counts.on_device)}
            found.append(json.dumps({"version": 1, "findings": [], "program": program}))
    return found


def files(path: str, ending: str) -> dict[str, bytes]:
    """What is in the files of a check's folder with that ending, by the number of their process."""
    found = {}
    for name in os.listdir(path) if os.path.isdir(path) else []:
        if name.endswith(ending):
            with contextlib.suppress(OSError):
                found[name.removesuffix(ending)] = scratch.read(os.path.join(path, name))
    return found


class News:
    """What children have found since the last time, where one process reports again and again."""

    def __init__(self, path: str):
        self.path = path
        self._news: bridge.News | None = None

    def take_in(self, session: Session) -> None:
        """Takes it into this process's findings."""
        self._news = self._news or session.bridge.News()
        for name in sorted(os.listdir(self.path) if os.path.isdir(self.path) else []):
            pid, is_report = name.removesuffix(".json"), name.endswith(".json")
            if is_report:
                has_ended = not _is_alive(pid)  # asked first: what it writes after that is not lost
                with contextlib.suppress(OSError, ValueError):
                    self._news.take_in(pid, scratch.read(os.path.join(self.path, name)))
                if has_ended:
                    self._forget(pid)

    def forget_own(self) -> None:
        """This process, a fork, has told its findings itself."""
        if is_child():
            self._forget(str(os.getpid()))

    def _forget(self, pid: str) -> None:
        with contextlib.suppress(OSError):
            os.unlink(os.path.join(self.path, f"{pid}.json"))
        if self._news is not None:
            self._news.forget(pid)


def _is_alive(pid: str) -> bool:
    try:
        os.kill(int(pid), 0)
    except (ProcessLookupError, ValueError):
        return False
    except PermissionError:
        return True
    return True


def join(session: Session, report: bridge.Report, path: str) -> None:
    """Makes a report that was written for another process one with those of its children in a folder."""
    report.hand_over()
    take_in(session, path)
    report.complete()
    session.set_aside(report)


def take_in(session: Session, path: str) -> None:
    """Takes the reports of all children into this process's own."""
    left = {name: ended_by.looked_again(text) for name, text in files(path, ".passes").items()}
    for problem in session.bridge.take_in_processes(files(path, ".json"), left):
        faults.note("the report of a process", ValueError(problem))
    for text in _of_silent(path):
        session.bridge.take_in(text)
