"""`check --trace FILE`: the run in the format of Chrome's and Perfetto's viewers.

It is kept in C++ (locus/bridge/python/write_trace.cc); here the processes of a program are put together, and findings
get their names.
"""

from __future__ import annotations

import contextlib
import json
import os
from typing import TYPE_CHECKING, TypedDict

from locus import scratch
from locus._load import load_bridge

if TYPE_CHECKING:
    from locus.program.shapes import Report

VARIABLE = "LOCUS_TRACE"
"""Set for the processes that the program starts: they keep a trace, too."""
ENDING = ".trace"


_LANES_OF_DEVICES = 64 * 64
"""The lanes above are free: 64 devices have 64 streams each (locus/report/trace.cc)."""


class Event(TypedDict, total=False):
    """One of the format's events: a slice "X", a mark "i", a counter "C" or a name "M"."""

    ph: str
    cat: str
    name: str
    s: str
    ts: float
    dur: float
    pid: int
    tid: int
    args: dict[str, object]


def begin() -> None:
    """From here on, this process keeps a trace."""
    load_bridge().begin_trace()


def begin_in_child() -> None:
    """The same in a process that a traced program has started."""
    if os.environ.get(VARIABLE):
        begin()


def leave(folder: str, process: int, name: str) -> None:
    """Writes this child's part into the folder of the check."""
    if os.environ.get(VARIABLE):
        events, dropped = load_bridge().end_trace(process, name)
        scratch.write(os.path.join(folder, f"{os.getpid()}{ENDING}"), events)
        if dropped:
            scratch.write(os.path.join(folder, f"{os.getpid()}{ENDING}-dropped"), str(dropped))


def write(path: str, folder: str, report: Report, own: bool = True) -> None:
    """Writes the trace of all processes; `own`: this one has run the program."""
    events: list[Event] = []
    dropped = 0
    if own:
        part, dropped = load_bridge().end_trace(0, report["program"]["script"] or "the program")
        events += json.loads(part)
    for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else []:
        with contextlib.suppress(OSError, ValueError):
            if name.endswith(ENDING):
                events += json.loads(scratch.read(os.path.join(folder, name)))
            elif name.endswith(f"{ENDING}-dropped"):
                dropped += int(scratch.read(os.path.join(folder, name)))
    _name_findings(events, report)
    events += _apart(events)
    notes = {"dropped events": dropped} if dropped else {}
    whole = {"traceEvents": events, "displayTimeUnit": "ms", "otherData": {"made by": "Locus", **notes}}
    with open(path, "w", encoding="utf-8") as file:
        json.dump(whole, file, ensure_ascii=False)


def _name_findings(events: list[Event], report: Report) -> None:
    """A mark knows its line; the findings that were met there have the words. A finding that no operator met (a race, a
    leak) gets a mark at the last that is known of its line."""
    by_line: dict[object, list[str]] = {}
    for finding in report["findings"]:
        words = f"{finding['code']}: {finding['why'] or finding['message']}"
        for use in finding["uses"]:
            by_line.setdefault(f"{use['file']}:{use['line']}", []).append(words)
    marked = set()
    for event in events:
        if event.get("cat") == "finding":
            event["name"] = "; ".join(by_line.get(event["args"].get("line"), ["a finding"]))
            marked.update(event["name"].split("; "))
    last = {(event["pid"], event["args"].get("line")): event for event in events if event["ph"] == "X"}
    for (process, line), event in last.items():
        missing = [words for words in by_line.get(line, []) if not marked.issuperset(words.split("; "))]
        if missing:
            mark: Event = {"ph": "i", "s": "p", "cat": "finding", "name": "; ".join(missing), "ts": event["ts"]}
            events.append({**mark, "pid": process, "tid": event["tid"], "args": {"line": line}})


def _apart(events: list[Event]) -> list[Event]:
    """Slices of one lane lie inside of each other or beside each other. What threads (of backward(), say) do on the
    host at one time does not: the later one goes to a lane of its own. Gives the names of these lanes."""
    names: list[Event] = []
    hosts: dict[int, list[Event]] = {}
    for event in events:
        if event["ph"] == "X" and event["tid"] == 0:
            hosts.setdefault(event["pid"], []).append(event)
    for process, slices in hosts.items():
        lanes: list[list[float]] = []  # for each, the ends of the slices that are open
        for event in sorted(slices, key=lambda event: (event["ts"], -event["dur"])):
            begin, end = event["ts"], event["ts"] + event["dur"]
            for open_ends in lanes:
                while open_ends and open_ends[-1] <= begin:
                    open_ends.pop()
            fitting = (lane for lane, open_ends in enumerate(lanes) if not open_ends or end <= open_ends[-1])
            lane = next(fitting, len(lanes))
            if lane == len(lanes):
                lanes.append([])
                if lane:
                    names += _named(process, _LANES_OF_DEVICES + lane, f"host, thread {lane + 1}")
            lanes[lane].append(end)
            if lane:
                event["tid"] = _LANES_OF_DEVICES + lane
    return names


def _named(process: int, lane: int, name: str) -> list[Event]:
    return [
        {"ph": "M", "name": "thread_name", "pid": process, "tid": lane, "args": {"name": name}},
        {"ph": "M", "name": "thread_sort_index", "pid": process, "tid": lane, "args": {"sort_index": 0}},
    ]
