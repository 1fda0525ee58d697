"""`--ranks`: runs some ranks of a world, a few at a time, each without the rest; those that somebody waits for start
though others still run. None is left behind, and no wait is without an end."""

from __future__ import annotations

import functools
import json
import os
import signal
import subprocess
import time
from typing import TYPE_CHECKING, NamedTuple

from locus import scratch
from locus._load import load_bridge
from locus.process import cluster, endings, launching, roles, runner
from locus.program import alone
from locus.program.end import End

if TYPE_CHECKING:
    from locus._bridge import Bridge

_MEMORY_OF_A_RANK = 700 << 20
"""Bytes that a rank of a large model takes on the host, about: import torch, and the program's own objects."""
_MEMORY_OF_ALL = 8 << 30
_RING = 1.25
"""Seconds that a ring of waits must last: less than those after which its ranks give up (engine/ranks/mailbox.cc)."""
_LOOK = 0.25
"""Seconds between two looks at what the ranks have said."""


class Ran(NamedTuple):
    """The ranks that have run."""

    end: End
    """How the first that failed has ended."""
    codes: dict[int, int]
    roles: roles.Roles


class _Ranks:
    """Those that run, and those that wait for their turn."""

    def __init__(self, shape: cluster.Shape, chosen: cluster.Chosen, target: runner.Target, folder: str):
        self.shape, self.chosen, self.folder = shape, chosen, folder
        self.command, self.port = launching.command_of(target), launching.free_port()
        self.roles = roles.Roles(shape.ranks, shape.per_host)
        for rank in chosen.ranks:
            self.roles.add(rank, "first of all" if chosen.is_auto else "asked for")
        if chosen.is_auto:
            # What the first rank alone does, or all but the first, shows only beside another one.
            self.roles.add(shape.ranks - 1, "last of all")
        if chosen.is_auto and target.kind == "script":
            self._read(target.name)
        self.running: dict[int, subprocess.Popen[bytes]] = {}
        self.codes: dict[int, int] = {}
        self.end = End()
        self.heard: dict[str, int] = {}
        self.ring, self.ring_since = list[int](), 0.0

    @functools.cached_property
    def bridge(self) -> Bridge:
        """Loaded when the first rank is on its way: it takes torch."""
        return load_bridge()

    def run(self) -> None:
        while self._start_more():
            launching.wait_for_change(list(self.running.values()), time.monotonic() + _LOOK)
            for rank, process in list(self.running.items()):
                code = process.poll()
                if code is not None:
                    del self.running[rank]
                    self._ended(rank, code)
            if self.chosen.is_auto:
                self._listen()

    def _start_more(self) -> bool:
        """Starts what may run now; whether anything runs."""
        waiting = {rank: self.bridge.rank_waits_for(self.folder, rank) for rank in self.running}
        held_up = {rank: self._doer(wanted, rank) for rank, wanted in waiting.items() if wanted >= 0}
        self._look_for_ring(waiting)
        left = [rank for rank in sorted(self.roles.why) if rank not in self.running and rank not in self.codes]
        left.sort(key=lambda rank: rank not in held_up.values())  # somebody waits for the first ones
        for rank in left:
            working = len(self.running) - len(held_up)
            # Where all wait, only a further one lets them go on: all stages of a pipeline are there at one time.
            if working >= _at_once() or (working and len(self.running) >= _at_most(len(self.running))):
                break
            if self.chosen.is_auto and rank != 0 and not held_up and not self._knows_roles():
                break
            if not working and self.running and _free_memory() < _MEMORY_OF_A_RANK:
                self._give_up(sorted(set(held_up.values()) & set(left)))
                break
            self._start(rank)
        for wanted in held_up.values():  # nobody will come to be started
            if wanted not in self.roles.why:
                self.bridge.say_rank_ended(self.folder, wanted)
        return bool(self.running)

    def _look_for_ring(self, waiting: dict[int, int]) -> None:
        """Ranks that wait for each other are let go after two seconds, and what they then do is not what they would."""
        ring: list[int] = []
        for start in sorted(waiting):
            path = [start]
            while (wanted := waiting.get(path[-1], -1)) >= 0 and wanted not in path:
                path.append(wanted)
            if wanted == start and len(path) > 1:
                ring = path
                break
        if ring != self.ring:
            self.ring, self.ring_since = ring, time.monotonic()
        elif ring and time.monotonic() - self.ring_since > _RING and not self.roles.stuck:
            self.roles.stuck = (
                f"ranks {', '.join(map(str, sorted(ring)))} waited for each other, each for a message that the next "
                "had not sent; with all ranks they would wait for good. Let one side send before it receives, or make "
                "both calls with batch_isend_irecv()"
            )

    def _give_up(self, wanted: list[int]) -> None:
        """There is no memory for another rank beside those that wait: what these send is not known, then."""
        for rank in wanted:
            self.bridge.say_rank_ended(self.folder, rank)
            words = f"there was no memory for rank {rank} beside the {len(self.running)} that waited for it and others"
            if words not in self.roles.unknown:
                self.roles.unknown.append(words)

    def _doer(self, wanted: int, rank: int) -> int:
        """Whose message a rank waits for, that of the one it wants or of the one that stands for it."""
        if not self.chosen.is_auto:
            return wanted
        other = self.roles.stand_in(wanted, rank)
        if other is None:
            self.roles.add(wanted, f"exchanges messages with rank {rank}")
            return wanted
        self.bridge.say_rank_stands_for(self.folder, other, wanted)
        return other

    def _knows_roles(self) -> bool:
        """The first rank has made its meshes, or is done."""
        return 0 in self.codes or bool(self.roles.meshes) or len(self.roles.why) > 2

    def _start(self, rank: int) -> None:
        words = alone.environment(sorted(self.roles.why), self.chosen.is_auto, self.folder)
        environment = {**self.shape.environment(rank, self.port), **words}
        self.running[rank] = launching.start(self.command, rank, environment)

    def _ended(self, rank: int, code: int) -> None:
        self.codes[rank] = code
        self.bridge.say_rank_ended(self.folder, rank)
        if code and not self.end.exit:
            self.end = End(code) if code > 0 else End.by_signal(-code)

    def _listen(self) -> None:
        """What the ranks have said since the last time."""
        for name in os.listdir(self.folder):
            path = os.path.join(self.folder, name)
            if not name.endswith((alone.RECORD, alone.CALLS)):
                continue
            try:
                changed = os.stat(path).st_mtime_ns
                if self.heard.get(name) == changed:
                    continue
                data = scratch.read(path)
                self.heard[name] = changed
                if name.endswith(alone.CALLS):
                    self.roles.hear_calls(int(json.loads(data)["rank"]), data)
                    continue
                record = json.loads(data)
                self.roles.hear(record)
                for file in record["files"]:
                    self._read(file)
            except (OSError, ValueError, KeyError):
                continue

    def _read(self, file: str) -> None:
        try:
            with open(file, encoding="utf-8", errors="replace") as opened:
                text = opened.read()
        except OSError:
            return
        shown = os.path.relpath(file)
        self.roles.read(os.path.realpath(file), file if shown.startswith("..") else shown, text)


def _at_once() -> int:
    """How many ranks work at the same time: as many as there are cores."""
    return max(1, len(os.sched_getaffinity(0)))


def _at_most(running: int) -> int:
    """How many may be there at all, those among them that wait for others, while some can go on."""
    free = _free_memory()
    return max(_at_once(), 2, min(_MEMORY_OF_ALL // _MEMORY_OF_A_RANK, running + free // _MEMORY_OF_A_RANK))


def _free_memory() -> int:
    """Bytes that this machine has left for ranks; as much as they may take at all where it does not say."""
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            for line in file:
                if line.startswith("MemAvailable:"):
                    return min(_MEMORY_OF_ALL, int(line.split()[1]) << 10)
    except (OSError, ValueError, IndexError):
        pass
    return _MEMORY_OF_ALL


def launch(
    shape: cluster.Shape, chosen: cluster.Chosen, target: runner.Target, patience: endings.Patience, folder: str
) -> Ran:
    """Runs the chosen ranks to their end. Ctrl-C and SIGTERM end them all, the second one without waiting."""
    ranks = _Ranks(shape, chosen, target, folder)
    try:
        with patience.interruptible():
            ranks.run()
        if patience.came:
            ranks.end, ranks.codes = End.by_signal(patience.came[0]), {}
            with patience.interruptible():
                launching.end_all(list(ranks.running.values()), signal.SIGINT)
    finally:
        launching.end_all(list(ranks.running.values()), signal.SIGKILL)
    return Ran(ranks.end, ranks.codes, ranks.roles)
