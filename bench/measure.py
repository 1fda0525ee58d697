"""How things are timed: contenders take turns, round after round, and the best round of each counts.

Noise of the machine only ever adds time, so the best of many short rounds is the steadiest figure, and turns of a
fraction of a second give every contender its share of the quiet moments. Knows nothing of what is measured.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import NamedTuple

from worker import Timing, Worker


class Budget(NamedTuple):
    """How much time a measurement may take."""

    seconds: float  # that each contender may run
    starts: int  # fresh processes of each kind, for the set-up
    steps: int  # of the loop that looks for growing memory


FULL = Budget(seconds=6.0, starts=9, steps=100_000)
QUICK = Budget(seconds=1.0, starts=5, steps=20_000)

TURN = 0.02  # seconds; short enough to fit between two disturbances, long enough to be told from the clock's noise
MIN_ROUNDS = 5


class Contender(NamedTuple):
    """One of the things that are compared."""

    worker: Worker
    workload: str
    device: str = ""  # the worker's own, unless told otherwise


class Result(NamedTuple):
    """What the rounds have shown for one contender, in seconds for one pass of its workload."""

    best: float
    median: float
    cpu: float  # processor time of the best round
    rounds: list[float]


def compare(contenders: dict[str, Contender], budget: Budget) -> dict[str, Result]:
    """Times the contenders in turns, after a warm-up that also finds out how many passes fill a turn."""
    passes, seconds = {}, 0.0
    for name, contender in contenders.items():
        passes[name], turn = _passes(contender)
        seconds = max(seconds, turn)
    rounds = max(MIN_ROUNDS, round(budget.seconds / seconds))
    timings: dict[str, list[Timing]] = {name: [] for name in contenders}
    order = list(contenders)
    for _ in range(rounds):
        for name in order:
            worker, workload, device = contenders[name]
            timings[name].append(worker.run(workload, passes[name], device))
        order.append(order.pop(0))  # nobody always goes first
    return {name: _result(timings[name], passes[name]) for name in contenders}


def _passes(contender: Contender) -> tuple[int, float]:
    """How many passes fill a turn, and how long such a turn lasts."""
    worker, workload, device = contender
    worker.run(workload, 3, device)
    n = 1
    while True:
        seconds = min(worker.run(workload, n, device).wall for _ in range(3))
        if seconds >= TURN / 4:
            passes = max(1, round(n * TURN / seconds))
            return passes, passes * seconds / n
        n *= 2 if seconds > TURN / 40 else 8


def _result(timings: list[Timing], passes: int) -> Result:
    walls = [timing.wall / passes for timing in timings]
    cpu = min(timing.cpu for timing in timings) / passes
    return Result(min(walls), statistics.median(walls), cpu, walls)


def time_starts(programs: dict[str, str], times: int) -> dict[str, float]:
    """Seconds from the start of Python to its end for each program, fresh processes in turns; the median counts."""
    seconds: dict[str, list[float]] = {name: [] for name in programs}
    for attempt in range(times + 1):
        for name, program in programs.items():
            began = time.perf_counter()
            subprocess.run([sys.executable, "-c", program], check=True, stdin=subprocess.DEVNULL)
            if attempt > 0:  # the first ones bring the files into memory
                seconds[name].append(time.perf_counter() - began)
    return {name: statistics.median(values) for name, values in seconds.items()}


def growth(worker: Worker, workload: str, steps: int, progress: Callable[[str], None]) -> dict[str, int]:
    """By how much the process and Locus's tables grow while a warm loop goes on."""
    progress("warming up")
    worker.run(workload, max(2_000, steps // 10))
    before = worker.memory()
    progress(f"{steps:,} steps")
    worker.run(workload, steps)
    after = worker.memory()
    grown = {key: after[key] - before[key] for key in before}
    return grown | {f"{key} now": after[key] for key in after if key != "resident"}
