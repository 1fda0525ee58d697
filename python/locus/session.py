"""One check of one program, from its start to its report. What is a mistake, whose fault it is and how it is told is
decided in C++; here the program is watched, the facts are gathered, and the report is asked for.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from typing import Any

from locus._load import load_bridge


_MAX_OFFERS = 5_000


class StopAfterSteps(BaseException):
    """Ends a program after the number of optimizer steps that was asked for. Not an Exception: nobody catches it."""


class Session:
    """The check that is under way in this process."""

    def __init__(self, script: str = "", arguments: list[str] | None = None, steps: int | None = None):
        self.script, self.arguments, self.limit = script, list(arguments or []), steps
        self.began = time.perf_counter()
        self.bridge: Any = None
        self.offers: list[dict[str, Any]] | None = None
        """Every edit that could be made, by operand and place; kept only where the edits are to be tried."""

    def start(self) -> None:
        """Begins to watch. The devices must be simulated already."""
        from locus import facts, forked, host_access, ranks, replicas

        self.bridge = load_bridge()
        facts.install_hooks()
        watch_threads(self.bridge)
        host_access.install(self)
        replicas.install(self)
        forked.install(self)
        ranks.install(self)
        if self.limit is not None:
            from torch.optim.optimizer import register_optimizer_step_post_hook

            register_optimizer_step_post_hook(self._count_towards_limit)
        self.bridge.start_check(self.report)

    def load(self) -> None:
        """Makes it possible to report what other processes found, without watching this one."""
        self.bridge = load_bridge()

    def stop(self) -> None:
        """Ends the watch on this thread; the program's own threads are done or no longer matter."""
        if self.bridge is not None:
            self.bridge.stop_check()

    def report(self, raw: dict[str, Any]) -> tuple[bool, str]:
        """Called by the bridge for each distinct mistake: (the program wants the error, where the operands belong)."""
        from locus import facts, handlers

        frame = sys._getframe().f_back  # none on autograd's own threads
        error = TypeError if raw["kind"] == "host-access" else RuntimeError
        wanted, caught_by = handlers.find_handler(frame, error) if frame is not None else ("go-on", None)
        raw["caught_by"] = caught_by
        case = facts.build_case(raw)
        case["caught_by"] = caught_by
        case["replica"] = _in_replica(frame)
        self._note_source(raw, case)
        if wanted == "raise":
            return True, ""  # the program means to catch it: no mistake of placement, a question it asks
        return False, self.add_case(case, raw.get("key", 0))

    def add_case(self, case: dict[str, Any], key: int = 0) -> str:
        """Hands a case to the engine; the device where its operands belong."""
        if self.offers is not None and len(self.offers) < _MAX_OFFERS:
            place = {"file": case["use"]["file"], "line": case["use"]["line"]}
            keys = ("name", "expression", "device", "edits")
            self.offers += [{**place, **{key: o[key] for key in keys}} for o in case["operands"] if o["edits"]]
        from locus import children

        expected = self.bridge.add_case(json.dumps(case), key)
        children.note_change()
        return expected

    def add_finding(self, finding: dict[str, Any], key: int = 0) -> None:
        """Keeps a finding that is no broken rule of an operator."""
        from locus import children

        self.bridge.add_finding(json.dumps(finding), key)
        children.note_change()

    def _note_source(self, raw: dict[str, Any], case: dict[str, Any]) -> None:
        """Whether one line made an operand here and its like elsewhere: a source that is not consistent."""
        from locus import histories

        for operand, facts in zip(raw["operands"], case["operands"]):
            if operand.get("tensor") is None:
                continue
            for step in self.bridge.origin_chain(operand["tensor"]):
                if step["placement"] == "derived" or not step["site"]:
                    continue
                made = self.bridge.made_at(step["site"])
                if len(made) > 1:
                    facts["made_here"], facts["made_at"] = made, histories.site_location(step["site"])
                    break

    def safely(self, where: str, step: Any, *arguments: Any) -> Any:
        """Does a step of the check; a fault in it is noted, and the program goes on."""
        try:
            return step(*arguments)
        except Exception as error:
            from locus import facts

            facts.note_fault(where, error)
            return None

    def reasons(self) -> set[str]:
        """The reasons of all findings so far."""
        return {finding["reason"] for finding in self.so_far()["findings"]}

    def so_far(self) -> dict[str, Any]:
        """The report as it stands. May be asked for again and again: repeats are counted at the end only."""
        return json.loads(self.bridge.render_json(self.frame(0, count=False)))

    def finding_count(self) -> int:
        """How many root causes have been found so far."""
        return self.bridge.finding_count() if self.bridge is not None else 0

    def frame(self, exit_code: int, count: bool = True) -> str:
        """The report without its findings, as JSON for the C++ side."""
        from locus import __version__, facts

        bridge = self.bridge
        if count:
            bridge.count_repeats()
        import torch

        devices = bridge.devices() if bridge.devices() >= 0 else torch.cuda.device_count()
        return json.dumps(
            {
                "version": 1,
                "findings": [],
                "transfers": [_line(entry, "from", "to", "bytes") for entry in bridge.transfers()],
                "syncs": [_line(entry, "kind") for entry in bridge.synchronisations()],
                "memory": bridge.memory_report(),
                "program": {
                    "script": self.script,
                    "argv": self.arguments,
                    "exit": exit_code,
                    "steps": bridge.steps(),
                    "ops": bridge.calls_seen(),
                    "seconds": round(time.perf_counter() - self.began, 3),
                    "devices": [f"cuda:{number}" for number in range(devices)],
                    "torch": torch.__version__,
                    "locus": __version__,
                },
                "notes": [f"a fault inside Locus: {fault}" for fault in facts.faults],
            }
        )

    def json(self, exit_code: int) -> bytes:
        """The whole report as JSON, the contract; locus.reports makes the other forms of it. Once a check."""
        return self.bridge.render_json(self.frame(exit_code))

    def _count_towards_limit(self, *_: Any) -> None:
        # The hook that counts was registered first, so this one sees the step that has just been made.
        if self.bridge.steps() >= (self.limit or 0):
            raise StopAfterSteps


def _line(entry: dict[str, Any], *keys: str) -> dict[str, Any]:
    line = {"file": entry["file"], "line": entry["line"], "count": entry["count"]}
    line.update({key: entry[key] for key in keys})
    if "milliseconds" in entry:
        line["milliseconds"] = round(entry["milliseconds"], 3)
    if "kind" not in keys and entry.get("kind"):
        line["note"] = entry["kind"]
    return line


def _in_replica(frame: Any) -> bool:
    """Whether the call happens in one of DataParallel's replicas."""
    end = os.path.join("nn", "parallel", "parallel_apply.py")
    while frame is not None:
        if frame.f_code.co_filename.endswith(end):
            return True
        frame = frame.f_back
    return False


def watch_threads(bridge: Any) -> None:
    """Every Python thread that starts from here on is checked too; the door is each thread's own."""
    original = threading.Thread._bootstrap_inner

    def bootstrap(thread: threading.Thread) -> None:
        bridge.enter_thread()
        original(thread)

    threading.Thread._bootstrap_inner = bootstrap
