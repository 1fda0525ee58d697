"""`locus check --nproc N`: starts the ranks, each of which checks itself, and makes one report of theirs."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from locus.commands import run
from locus.errors import UsageError
from locus.process import (
    children,
    cluster,
    endings,
    gathering,
    launching,
    left_running,
    rank_reruns,
    reruns,
    runner,
    settings,
    simulation,
    standing_in,
    tracing,
    watched,
)
from locus.process.session import Session
from locus.program import alone, source
from locus.ranks import checking
from locus.watch import made_up

if TYPE_CHECKING:
    from locus._bridge import Report
    from locus.fixing.verifying import Outcome


class Ranks(NamedTuple):
    """What is checked, and how."""

    shape: cluster.Shape
    target: runner.Target
    arguments: argparse.Namespace
    options: simulation.SimulationOptions
    project: settings.Settings
    limit: int | None
    note_of_limit: str
    """What is said where ranks were ended after so many steps that nobody asked for."""
    together: gathering.Gathering

    def observe(self, finish: Callable[[Report, Outcome | None], int]) -> int:
        """Runs the ranks to their end; `finish` gets the report and what came of trying the edits, and gives the exit
        code."""
        arguments, shape = self.arguments, self.shape
        if arguments.real:
            raise UsageError(
                "--nproc simulates a device for each rank; it can't be had with --real. Leave one of them out."
            )
        chosen = cluster.parse_ranks(arguments.ranks, shape, self.options.dry is not None)
        if chosen is not None and arguments.verify:
            raise UsageError("edits are tried with all ranks; --ranks can't be had with --verify and `locus fix`.")
        os.environ.update(self.options.to_environment())
        if self.limit is not None:
            os.environ[children.STEPS_VARIABLE] = str(self.limit)
        session = Session(self.target.name, self.target.arguments, settings=self.project)
        session.allow_empty = arguments.allow_empty
        with children.gathering() as folder, endings.Patience() as patience:
            if chosen is None:
                roles = None
                end, codes = launching.launch(shape, self.target, patience)
            else:
                end, codes, roles = standing_in.launch(shape, chosen, self.target, patience, folder)
            watched.flush()
            for variable in self.options.to_environment():
                os.environ.pop(variable, None)  # this process only reports: it needs no devices
            session.load()
            self.together.try_to_gather(session, folder, end, codes, patience)
            session.left_running = left_running.told(folder)
            children.take_in(session, folder)
            if self.together.is_whole:
                checking.judge(session, folder, self.together.codes)
            ran = len(shape.here) if roles is None else len(roles.why)
            if not patience.came and not session.finding_count() and not checking.joined(session, folder):
                session.incomplete = _why_not_joined(ran, codes)
            if roles is not None and roles.stuck and not session.finding_count():
                session.incomplete = roles.stuck
            if roles is not None:
                calls = children.files(folder, alone.CALLS)
                checking.compare(session, folder, calls, codes)
                session.cluster = roles.as_cluster(shape.hosts, session.bridge.journal_traffic(calls, source.line_text))
            report = session.report(self.together.end)
            self.together.apply(report)
            for words in checking.drifts(session, folder):
                report.add_note(words)
            for words in self._notes_of_dry(report):
                report.add_note(words)
            if arguments.trace is not None:
                tracing.write(arguments.trace, folder, json.loads(report.render("json")), own=False)
            outcome = None
            if arguments.verify and not patience.came:
                with patience.interruptible():
                    outcome = self._try(report)
            return finish(report, outcome)

    def _notes_of_dry(self, report: Report) -> list[str]:
        """What a rank would say of a dry run by itself. The ranks have run; this process only has their report."""
        if self.options.dry is None:
            return []
        found = json.loads(report.render("json"))
        notes = made_up.before_error((found["dry"] or {}).get("made_up", []), self.together.end)
        if self.note_of_limit and self.limit is not None and int(found["program"]["steps"]) >= self.limit:
            notes.append(self.note_of_limit)
        return notes

    def _try(self, report: Report) -> Outcome | None:
        target, arguments = self.target, self.arguments
        flag = {"module": ["-m"], "code": ["-c"]}.get(target.kind, ["--"])
        options = run.given(arguments, ("nproc", "nnodes", *run.MACHINE))
        return rank_reruns.verify(
            report,
            options,
            [*flag, target.name, *target.arguments],
            self.limit,
            reruns.parse_max_runs(arguments.max_runs, verify=True),
            run.is_quiet(arguments),
        )


def _why_not_joined(count: int, codes: dict[int, int]) -> str:
    if failed := launching.describe_failures(codes):
        return f"{failed} before the ranks had met in torch.distributed.init_process_group(), so that none could go on"
    return (
        f"no rank has called torch.distributed.init_process_group(), so {count} copies of the program ran, each by "
        "itself. Call it, or leave --nproc out"
    )
