"""Takes a table: hands the cases out to processes, goes on behind one that died or hangs, and keeps a journal, so that
what was taken is not lost when this process dies or its time is up. Imports no PyTorch.
"""

from __future__ import annotations

import collections
import datetime
import difflib
import fnmatch
import json
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from locus.errors import UsageError
from locus.ground_truth import cases, table, worker

Answer = dict[str, Any]
"""A line of the process that takes the table, read as JSON."""

if TYPE_CHECKING:
    from typing import TextIO


WORKER = (sys.executable, "-m", "locus.ground_truth.worker")
CASE_SECONDS = 60.0
"""A case that takes longer hangs."""
_START_SECONDS = 300.0
_MOST_RESTARTS = 200  # a machine where nothing works must not keep us for ever


class Wanted(NamedTuple):
    """What is to be taken."""

    simulated: bool
    dtypes: tuple[str, ...] = cases.DTYPES
    only: tuple[str, ...] = ()
    """Names of entries, with * and ? as in file names; all where there are none."""
    seconds: float = 0.0
    """When to stop; 0: when all is taken."""
    processes: int = 1
    known: str | None = None
    """The file of a table: only the cases that it has."""
    entries: frozenset[tuple[str, str, str]] | None = None
    """Only these (kind, name, variant)."""


class Taken(NamedTuple):
    """A table, and what is missing in it."""

    table: table.Table
    missing: list[str]
    """Entries that were not reached."""
    died: list[table.Row]
    """Cases that ended their process, or that were stopped."""


class _Process:
    """One worker, and what it is doing."""

    def __init__(self, wanted: Wanted, listing: bool):
        environment = dict(os.environ, PYTHONWARNINGS="ignore")
        environment.pop("LOCUS_SIMULATE", None)
        if wanted.simulated:
            environment["CUDA_VISIBLE_DEVICES"] = ""
        given = {"simulated": wanted.simulated, "dtypes": wanted.dtypes, "known": wanted.known, "list": listing}
        self.process = subprocess.Popen(
            [*WORKER, json.dumps(given)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment,
        )  # fmt: skip
        assert self.process.stdin is not None and self.process.stdout is not None  # both are pipes
        self.input, self.output = self.process.stdin, self.process.stdout
        self.entry: int | None = None
        self.case = -1
        self.key: table.Key | None = None
        self.shapes = ""
        self.since = time.monotonic()
        self.begun = False
        self.unread = b""

    def ask(self, entry: int, behind: int) -> None:
        self.entry, self.case, self.since = entry, behind - 1, time.monotonic()
        self.key = None
        try:
            self.input.write(json.dumps({"entry": entry, "behind": behind}).encode() + b"\n")
            self.input.flush()
        except BrokenPipeError:
            pass  # it is gone; its end is read next

    def answers(self) -> list[Answer] | None:
        """What it has said since; None at its end."""
        data = os.read(self.output.fileno(), 1 << 16)
        if not data:
            return None
        self.since = time.monotonic()
        *lines, self.unread = (self.unread + data).split(b"\n")
        return [json.loads(line) for line in lines]

    def hangs(self) -> bool:
        return time.monotonic() - self.since > (CASE_SECONDS if self.begun else _START_SECONDS)

    def end(self) -> int:
        if self.process.poll() is None and (self.entry is not None or not self.begun):
            self.process.kill()
        self.input.close()  # the end of its work
        self.output.close()
        return self.process.wait()


class Journal:
    """What was taken so far, line by line in a file next to the table; removed when the table is written."""

    def __init__(self, path: str | None, wanted: Wanted, fresh: bool):
        self.path = f"{path}.journal" if path is not None else None
        self.rows: dict[table.Key, table.Row] = {}
        self.done: set[tuple[str, ...]] = set()
        self._settings = {"simulated": wanted.simulated, "dtypes": list(wanted.dtypes), "only": list(wanted.only)}
        self._file: TextIO | None = None
        self._fresh = fresh

    def begin(self, about: Answer) -> int:
        """Opens the journal for this machine; how many rows it has already."""
        if self.path is None:
            return 0
        settings = {**self._settings, **about}
        if not self._fresh and os.path.exists(self.path):
            self._read(self.path, settings)
        self._file = open(self.path, "a" if self.done or self.rows else "w", buffering=1)  # noqa: SIM115
        if not self.done and not self.rows:
            self._file.write(json.dumps({"settings": settings}) + "\n")
        return len(self.rows)

    def _read(self, path: str, settings: Answer) -> None:
        known = None
        with open(path, encoding="utf-8", errors="replace") as lines:
            for line in lines:
                try:
                    one = json.loads(line)
                    known = one.get("settings", known)
                    if "row" in one:
                        self._keep(row_of(one["row"]))
                    elif "done" in one:
                        self.done.add(tuple(one["done"]))
                except (ValueError, TypeError, AttributeError):
                    continue  # the last line of a run that was killed
        if known != settings:
            raise UsageError(
                f"{path}: an earlier run was not finished, and it had other settings or another machine. "
                "Use --fresh to begin anew, or another file."
            )

    def _keep(self, row: table.Row) -> None:
        self.rows[row.key] = row

    def _write(self, **what: object) -> None:
        if self._file is not None:
            self._file.write(json.dumps(what) + "\n")

    def add(self, row: table.Row) -> None:
        self._keep(row)
        self._write(row=row)

    def finish_entry(self, entry: tuple[str, ...]) -> None:
        self.done.add(entry)
        self._write(done=entry)

    def close(self, remove: bool) -> None:
        if self._file is not None:
            self._file.close()
            if remove:
                os.remove(self._file.name)


def _how(code: int) -> str:
    try:
        return f"by {signal.Signals(-code).name}" if code < 0 else f"with code {code}"
    except ValueError:
        return f"by signal {-code}"


def row_of(parts: Sequence[str]) -> table.Row:
    """A row that was JSON."""
    key, shapes, said = parts
    return table.Row(table.Key(*key), shapes, table.Said(*said))


def take(wanted: Wanted, journal: Journal, progress: Callable[[int, int, int], None]) -> Taken:
    """Runs every case that is wanted; `progress` is told (entries done, of how many, cases) from time to time.

    Raises:
        UsageError: there is no device, no such entry, or the journal is of another run.
    """
    return _Taking(wanted, journal, progress).run()


class _Taking:
    def __init__(self, wanted: Wanted, journal: Journal, progress: Callable[[int, int, int], None]):
        self.wanted, self.journal, self.progress = wanted, journal, progress
        self.entries: list[tuple[str, str, str]] = []
        self.todo: collections.deque[tuple[int, int]] = collections.deque()
        self.selected = 0
        self.unmade: list[str] = []
        self.restarts = 0
        self.running = selectors.DefaultSelector()

    def run(self) -> Taken:
        deadline = time.monotonic() + self.wanted.seconds if self.wanted.seconds else float("inf")
        about: Answer = {}
        try:
            self._start(listing=True)
            while self.running.get_map() and time.monotonic() < deadline:
                for key, _ in self.running.select(timeout=0.5):
                    one = key.data
                    answers = one.answers()
                    for answer in answers or ():
                        if "about" in answer and not about:
                            about = self._begin(answer)
                        self._take_in(one, answer)
                    if answers is None:
                        self._behind(one, stopped=False)
                for one in [key.data for key in self.running.get_map().values()]:
                    if one.hangs():
                        self._behind(one, stopped=True)
                self.progress(self._done(), self.selected, len(self.journal.rows))
        finally:
            for one in [key.data for key in self.running.get_map().values()]:
                self._drop(one)
        if not about:
            raise UsageError(f"no process could be started within {self.wanted.seconds:.0f} s. Use a longer --limit.")
        missing = [self._title(number) for number in self._selection() if self.entries[number] not in self.journal.done]
        about["taken"] = datetime.date.today().isoformat()
        about["dtypes"], about["only"] = list(self.wanted.dtypes), list(self.wanted.only)
        about["missing"], about["unmade"] = missing, self.unmade
        died = [row for row in self.journal.rows.values() if row.said.outcome in table.NEVER_CAME_BACK]
        return Taken(table.Table(about, dict(self.journal.rows)), missing, died)

    def _start(self, listing: bool = False) -> None:
        one = _Process(self.wanted, listing)
        self.running.register(one.output, selectors.EVENT_READ, one)

    def _drop(self, one: _Process) -> int:
        self.running.unregister(one.output)
        return one.end()

    def _begin(self, answer: Answer) -> Answer:
        """The first process is there: what there is to do, and the other processes."""
        about = answer["about"]
        if "error" in about:
            raise UsageError(about["error"])
        self.entries = [tuple(entry) for entry in answer["entries"]]
        selection = self._selection()
        self.journal.begin(about)
        self.selected = len(selection)
        self.todo.extend((number, 0) for number in selection if self.entries[number] not in self.journal.done)
        for _ in range(min(self.wanted.processes, len(self.todo)) - 1):
            self._start()
        return dict(about)

    def _selection(self) -> list[int]:
        names = sorted({entry[1] for entry in self.entries})
        for pattern in self.wanted.only:
            if not fnmatch.filter(names, pattern):
                near = difflib.get_close_matches(pattern, names, 3)
                hint = f" Did you mean {', '.join(near)}?" if near else " Names may have * and ?, as in 'linalg.*'."
                raise UsageError(
                    f"--only {pattern}: PyTorch's databases have no such operator, module or optimizer.{hint}"
                )
        return [
            number
            for number, entry in enumerate(self.entries)
            if (not self.wanted.only or any(fnmatch.fnmatchcase(entry[1], one) for one in self.wanted.only))
            and (self.wanted.entries is None or entry in self.wanted.entries)
        ]

    def _done(self) -> int:
        return self.selected - len(self.todo) - sum(k.data.entry is not None for k in self.running.get_map().values())

    def _title(self, number: int) -> str:
        return " ".join(part for part in self.entries[number] if part)

    def _take_in(self, one: _Process, answer: Answer) -> None:
        if "about" in answer:
            one.begun = True
            self._next(one)
        elif "at" in answer:
            one.case, key, one.shapes = answer["at"]
            one.key = table.Key(*key)
        elif "row" in answer:
            one.key = None
            self.journal.add(row_of(answer["row"]))
        elif one.entry is not None:
            if "unmade" in answer:
                self.unmade.append(f"{self._title(one.entry)}: {answer['unmade']}")
            self.journal.finish_entry(self.entries[one.entry])
            self._next(one)

    def _next(self, one: _Process) -> None:
        if self.todo:
            one.ask(*self.todo.popleft())
        else:
            one.entry = None
            self._drop(one)

    def _behind(self, one: _Process, stopped: bool) -> None:
        """A process died or hangs: its entry goes on behind the case, in a new process."""
        code = self._drop(one)
        if not one.begun:
            raise UsageError(f"the process that runs the cases ended with code {code} before the first one. "
                             "`locus doctor` says whether Locus works here.")  # fmt: skip
        if one.entry is None:
            return
        if code != worker.POISONED and one.key is not None:
            said = table.Said("Stopped", f"after {CASE_SECONDS:.0f} s") if stopped else table.Said("Ended", _how(code))
            self.journal.add(table.Row(one.key, one.shapes, said))
        if one.key is None and one.case < 0:  # while its samples were made
            self.unmade.append(f"{self._title(one.entry)}: ended its process {_how(code)}")
            self.journal.finish_entry(self.entries[one.entry])
        else:
            self.todo.appendleft((one.entry, one.case + 1))
        self.restarts += 1
        if self.restarts > _MOST_RESTARTS:
            raise UsageError(f"{self.restarts} processes have died; something else is wrong with this machine. "
                             "What was taken is kept; run it again to go on.")  # fmt: skip
        self._start()
