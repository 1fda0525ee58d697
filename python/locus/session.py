"""One check of one program, from its start to its report. What is a mistake, whose fault it is and how it is told is
decided in C++; here the program is watched, the facts are gathered, and the report is asked for.
"""

from __future__ import annotations

import json
import os
import time
from typing import Any

from locus import reporter


class StopAfterSteps(BaseException):
    """Ends a program after the number of optimizer steps that was asked for. Not an Exception: nobody catches it."""


class Session:
    """The check that is under way in this process."""

    def __init__(self, script: str = "", arguments: list[str] | None = None, steps: int | None = None):
        self.script, self.arguments, self.limit = script, list(arguments or []), steps
        self.began = time.perf_counter()
        self.bridge: Any = None
        self.models: Any = None

    @property
    def offers(self) -> list[dict[str, Any]] | None:
        """Every edit that could be made, whether the engine chooses it or not; None: not kept."""
        return reporter.offers

    @offers.setter
    def offers(self, kept: list[dict[str, Any]] | None) -> None:
        reporter.offers = kept

    def start(self) -> None:
        """Begins to watch. The devices must be simulated already."""
        from torch.optim.optimizer import register_optimizer_step_post_hook

        from locus import hooks, models, ranks

        self.bridge = reporter.install()
        self.models = models.Models()
        hooks.on_move(self.models.at_move)
        register_optimizer_step_post_hook(self.models.at_step)
        reporter.at_finding = self.models.at_finding
        ranks.install(self)
        if self.limit is not None:
            register_optimizer_step_post_hook(self._count_towards_limit)
        self.bridge.begin_watching()
        self.bridge.set_policy_state(reporter.COLLECT)

    def load(self) -> None:
        """Makes it possible to report what other processes found, without watching this one."""
        self.bridge = reporter.load_bridge()

    def stop(self) -> None:
        """Ends the watch on this thread; the program's own threads are done or no longer matter."""
        if self.bridge is not None:
            self.bridge.set_policy_state(reporter.CLOSED)
        if self.models is not None:
            self.models.look([])

    def add_case(self, case: dict[str, Any]) -> str:
        """Hands a case to the engine; the device where its operands belong."""
        return reporter.add_case(case)

    def add_finding(self, finding: dict[str, Any], key: int = 0) -> None:
        """Keeps a finding that is no broken rule of an operator."""
        from locus import children

        self.bridge.add_finding(json.dumps(finding), key)
        children.note_change()

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

    def failed(self) -> bool:
        """Whether a mistake could not be recorded at all; it was said on standard error."""
        return self.bridge is not None and self.bridge.fault_said()

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
                "models": self.models.rows() if self.models is not None else [],
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
