"""One check of one program, from its start to its report. What is a mistake, whose fault it is and how it is told is
decided in C++; here the program is watched, the facts are gathered, and the report is asked for.
"""

from __future__ import annotations

import json
import os
import time
import weakref
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TypeVar

from locus import __version__, faults, scratch
from locus._load import load_bridge
from locus.process import ignoring, progress
from locus.process.settings import Settings
from locus.program import shapes, source
from locus.program.end import End
from locus.ranks import checking
from locus.watch import caught, interruptions, made_up, reporter, uncaught, unwatched
from locus.watch.coverage import Coverage

if TYPE_CHECKING:
    from torch.optim import Optimizer

    from locus._bridge import Bridge, Report
    from locus.process.endings import Ending
    from locus.program.shapes import Case
    from locus.watch.models import Models

Result = TypeVar("Result")


_ORDER_LOST = (
    "races between streams were not looked for to the end: the program did what hides their order on a real card (a "
    "CUDA graph, a collective, a stream or library of others; docs/how-to/streams.md says which)"
)


class StopAfterSteps(BaseException):
    """Ends a program after the number of optimizer steps that was asked for. Not an Exception: nobody catches it."""


class Session:
    """The check that is under way in this process."""

    def __init__(
        self,
        script: str = "",
        arguments: list[str] | None = None,
        steps: int | None = None,
        settings: Settings | None = None,
    ):
        self.script, self.arguments, self.limit = script, list(arguments or []), steps
        self.settings = settings or Settings()
        self.ignored_codes: tuple[str, ...] = ()
        self.began = time.perf_counter()
        self.bridge: Bridge = None  # type: ignore[assignment]  # until start() or load()
        self.models: Models | None = None
        self.ending: Ending | None = None
        self.coverage = Coverage()
        self._told = 0
        self.incomplete = ""
        """Why the check did not see all that it should have; empty: nothing is known of that."""
        self.allow_empty = False
        """Whether a program without a single operator is as it should be."""
        self.note_of_limit = ""
        """What is said where the program was ended after so many steps."""
        self.folder = ""
        """Where the processes that the program starts leave their reports."""
        self.left_running: list[str] = []
        """What there is to say about processes of the program's that are still at work."""
        self.is_child = False
        """Whether another process makes the report, of what this one found too."""
        self._ops_before = 0
        self._steps_made: weakref.WeakKeyDictionary[Optimizer, int] = weakref.WeakKeyDictionary()
        self._is_one_of_many = False
        self.cluster: dict[str, object] | None = None
        """What is known of the cluster that the program ran on, where only some of its ranks ran."""

    def start(self, ending: Ending | None = None) -> None:
        """Begins to watch. The devices must be simulated already. `ending` hears of what is found."""
        from torch.optim.optimizer import register_optimizer_step_post_hook

        from locus.watch import hooks, models

        self.bridge = reporter.install()
        uncaught.install(self)
        unwatched.listen()
        self.models = models.Models()
        hooks.on_move(self.models.at_move)
        register_optimizer_step_post_hook(self.models.at_step)
        reporter.at_finding = self.models.at_finding
        checking.install(self)
        if self.limit is not None:
            register_optimizer_step_post_hook(self._count_towards_limit)
        self.coverage.start(self.bridge)
        if ending is not None:
            self.ending = ending
            ending.note(0)
            self.share_counters(ending.companion.page)
        self.bridge.begin_watching()
        self.set_policy("collect")

    def share_counters(self, page: progress.Page) -> None:
        """How far the program is, and whether Locus had a fault, is told there while it runs."""
        self.bridge.share_counters(page.address())
        faults.at_fault = self.bridge.publish_fault

    def load(self) -> None:
        """Makes it possible to report what other processes found, without watching this one."""
        self.bridge = load_bridge()

    def set_policy(self, policy: str) -> None:
        """What a mistake does on this thread and on those for which nobody decides, because PyTorch or an extension
        started them: "collect", "warn", "move", or "raise" as without a check."""
        state = reporter.CLOSED if policy == "raise" else getattr(reporter, policy.upper())
        self.bridge.set_policy_state(state)
        self.bridge.set_process_policy(state)

    def stop(self) -> None:
        """Ends the watch on this thread; the program's own threads are done or no longer matter."""
        if self.bridge is not None:
            self.set_policy("raise")
        if self.models is not None:
            self.models.look([])

    def add_case(self, case: Case) -> str:
        """Hands a case to the engine; the device where its operands belong."""
        return reporter.add_case(case)

    def add_finding(self, finding: Mapping[str, object], key: int = 0) -> None:
        """Keeps a finding that is no broken rule of an operator."""
        self.bridge.add_finding(json.dumps(finding), key)
        reporter.note_change()

    def tell_ending(self) -> None:
        """Something may be new."""
        if self.ending is not None and self.bridge.finding_count() > self._told:
            self._told = self.bridge.finding_count()
            self.ending.note(self._told)

    def safely(self, where: str, step: Callable[..., Result], *arguments: object) -> Result | None:
        """Does a step of the check; a fault in it is noted, and the program goes on."""
        try:
            return step(*arguments)
        except Exception as error:
            interruptions.pass_on(error)
            faults.note(where, error)
            return None

    def so_far(self) -> shapes.Report:
        """The report as it stands. May be asked for again and again."""
        report: shapes.Report = json.loads(self.json(finished=False))
        return report

    def finding_count(self) -> int:
        """How many root causes have been found so far, ignored ones included."""
        return self.bridge.finding_count() if self.bridge is not None else 0

    def begin_part(self) -> None:
        """From here on, findings and the ledger are those of a part of the program: of one test, say."""
        self.bridge.clear_findings()
        self.bridge.reset_steps()
        self.ignored_codes = ()
        reporter.forget_warnings()
        uncaught.forget()
        caught.forget()
        unwatched.forget()
        self.begin_counting()

    def begin_counting(self) -> None:
        """From here on, operators and the ledger are counted anew."""
        self._ops_before = self.bridge.calls_seen()
        self.bridge.begin_part()

    def part_ops(self) -> int:
        """Operator calls of this part."""
        return self.bridge.calls_seen() - self._ops_before

    def uses_device(self) -> bool:
        """Whether anything was made on a CUDA device."""
        import torch

        if self.bridge.devices() >= 0:
            return self.bridge.device_used()
        return torch.cuda.is_initialized() and any(
            torch.cuda.memory_stats(number).get("allocation.all.allocated", 0)
            for number in range(torch.cuda.device_count())
        )

    def frame(self, end: End, finished: bool = True) -> str:
        """What the C++ side does not know of the report, as JSON."""
        bridge = self.bridge
        if finished:
            uncaught.keep_unasked()
        bridge.count_repeats()
        import torch

        from locus.watch import out_of_memory

        unseen = [
            *self._late_threads(),
            *([_ORDER_LOST] if bridge.CardOrder.is_stopped() else []),
            *unwatched.told(),
            *self.left_running,
        ]
        devices = bridge.devices() if bridge.devices() >= 0 else torch.cuda.device_count()
        return json.dumps(
            {
                "version": 1,
                "findings": [],
                **({} if self.cluster is None else {"cluster": self.cluster}),
                "models": self.models.rows() if self.models is not None else [],
                "program": {
                    "script": self.script,
                    "argv": self.arguments,
                    "exit": end.exit,
                    "ended_by": end.by,
                    "steps": bridge.steps(),
                    "ops": self.part_ops(),
                    "on_device": self.uses_device(),
                    "incomplete": self.incomplete or self.faulty() or out_of_memory.undecided(),
                    "allow_empty": self.allow_empty,
                    "all_seen": not unseen,
                    "seconds": round(time.perf_counter() - self.began, 3),
                    "devices": [f"cuda:{number}" for number in range(devices)],
                    "torch": torch.__version__,
                    "locus": __version__,
                },
                "notes": [
                    *unseen,
                    *made_up.before_error(bridge.dry_rows(), end),
                    *caught.told(bridge.is_met_at),
                    *([self.note_of_limit] if self.note_of_limit and self.reached_limit() else []),
                    *(f"a fault inside Locus: {fault}" for fault in faults.noted),
                ],
                "not_run": self.coverage.not_run() if finished else [],
            }
        )

    def faulty(self) -> str:
        """A fault of Locus's own never looks like success."""
        if self.bridge.fault_said():
            return "a mistake could not be recorded; standard error says why"
        if faults.noted:
            return f"{progress.FAULTY}; a note says which"
        has_faulty_fork = self.ending is not None and self.ending.companion.page.read().faulty
        return progress.FAULTY_CHILD if has_faulty_fork else ""

    def _late_threads(self) -> list[str]:
        """Where devices are real, no kernel of ours sees the first call of a thread that nobody decided about."""
        return [
            f"not watched before its first use of a device: the thread {name} ({number}), which PyTorch or an "
            "extension started"
            for name, number in self.bridge.late_threads()
        ]

    def report(self, end: End | None = None, finished: bool = True) -> Report:
        """The whole report, as it stands."""
        frame = self.frame(end or End(), finished)
        if self._is_one_of_many:
            report = self.bridge.Report.read(frame)
            report.complete()
        else:
            report = self.bridge.make_report(frame, _text)
        self.set_aside(report)
        return report

    def own_report(self, end: End) -> Report:
        """What this process itself has found, for whoever makes the report of all."""
        uncaught.keep_unasked()
        return self.bridge.make_report(self.frame(end, finished=False), _text)

    def become_one_of_many(self, folder: str, own: Mapping[str, bytes]) -> None:
        """What this process has found lies among what others have, to be taken in with theirs."""
        for name, data in own.items():
            scratch.write(os.path.join(folder, name), data)
        self.bridge.clear_findings()
        self.begin_counting()
        self._is_one_of_many = True

    def set_aside(self, report: Report) -> None:
        """Takes out of a report's findings what the project lives with. May be done again when some were added."""
        if not self.is_child:  # the first process decides, about all of them
            project = self.settings
            report.ignore(project.file, project.ignore, project.per_file, self.ignored_codes, ignoring.comments_at)

    def json(self, end: End | None = None, finished: bool = True) -> bytes:
        """The whole report as JSON, the contract."""
        return self.report(end, finished).render("json")

    def reached_limit(self) -> bool:
        """Whether the program has made all the steps that were asked for: each of its optimizers has, or one more
        (the others may step now and then, or no longer)."""
        made = list(self._steps_made.values())
        return self.limit is not None and bool(made) and (min(made) >= self.limit or max(made) > self.limit)

    def _count_towards_limit(self, optimizer: Optimizer, *_: object) -> None:
        self._steps_made[optimizer] = self._steps_made.get(optimizer, 0) + 1
        if self.reached_limit():
            if self.is_child:  # nobody is above it to catch anything else
                raise SystemExit(0)
            raise StopAfterSteps


def _text(file: str, line: int) -> str:
    return source.line_text(file, line).strip()
