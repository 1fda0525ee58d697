"""`check --trace FILE`: the run in the format of Chrome's and Perfetto's viewers.

It is kept in C++ (locus/bridge/python/write_trace.cc); here the processes of a program are put together, and findings
get their names.
"""

from __future__ import annotations

import contextlib
import json
import os
from typing import TYPE_CHECKING, Any

from locus import scratch
from locus._load import load_bridge

if TYPE_CHECKING:
    from locus.program.shapes import Report

VARIABLE = "LOCUS_TRACE"
"""Set for the processes that the program starts: they keep a trace, too."""
ENDING = ".trace"


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
    events: list[dict[str, Any]] = []
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
    notes = {"dropped events": dropped} if dropped else {}
    whole = {"traceEvents": events, "displayTimeUnit": "ms", "otherData": {"made by": "Locus", **notes}}
    with open(path, "w", encoding="utf-8") as file:
        json.dump(whole, file, ensure_ascii=False)


def _name_findings(events: list[dict[str, Any]], report: Report) -> None:
    """A mark knows its line; the finding that was met there has the words."""
    by_line: dict[str, list[str]] = {}
    for finding in report["findings"]:
        words = f"{finding['code']}: {finding['why'] or finding['message']}"
        for use in finding["uses"]:
            by_line.setdefault(f"{use['file']}:{use['line']}", []).append(words)
    for event in events:
        if event.get("cat") == "finding":
            event["name"] = "; ".join(by_line.get(event["args"].get("line", ""), ["a finding"]))
