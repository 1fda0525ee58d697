"""The runs with fixes of a check: the process that is set aside before the first run, the deadlines, the outcome."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

from locus.errors import UsageError
from locus.fixing import verifying
from locus.fixing.rerun import Rerun, Words
from locus.process import endings, runner, watched
from locus.process.effects import Effects
from locus.process.printed import Printed
from locus.process.rerun_server import Request, RerunServer, Result
from locus.program.end import End

if TYPE_CHECKING:
    from locus._bridge import Report

ONE_RUN = 60.0, 10.0
"""Seconds that a run with fixes has, and how many times the first run's time. It takes as long as that, or less."""
ALL_RUNS = 300.0, 30.0
"""The same for all runs together."""
PATIENCE = 10.0
"""Seconds, and the first run's time, that the program has to end itself after the report."""


class Verifier:
    """The second run of a check, from the process that is set aside before the first one to its outcome."""

    def __init__(
        self,
        target: runner.Target,
        folder: str,
        prepare_devices: Callable[[bool], None],
        make_session: Callable[[int | None], Any],
        max_runs: int,
        is_quiet: bool,
        compares_output: bool,
    ):
        """prepare_devices(shared_rng): True where CPU and devices are to draw from one generator.
        is_quiet: nothing is said of the runs, for standard error takes a report that a machine reads."""
        import torch  # noqa: F401  (before the fork: every run has it then)

        def run_again(request: Request, give: Callable[[Result], NoReturn]) -> None:
            prepare_devices(request["shared_rng"])
            _run_again(target, make_session(request["limit"]), request["folder"], give)

        self._name = {"script": target.name, "module": f"-m {target.name}", "code": "the code"}.get(
            target.kind, target.name
        )
        self._max_runs, self._is_quiet, self._took = max_runs, is_quiet, 0.0
        self._server = RerunServer(folder, run_again)
        self._effects = Effects(folder)
        self._effects.start()
        self._printed = Printed() if compares_output else None

    def close(self, exit_code: int | None) -> None:
        """Ends what was set aside, and sees to it that the program ends: threads and exit handlers may hang."""
        self._server.close()
        if exit_code is not None:
            endings.end_within(PATIENCE + self._took, exit_code)

    def verify(self, session: Any, report: Report) -> verifying.Outcome | None:
        """Tries the edits of a report, which says then what came of it; the outcome (None without findings)."""
        self._effects.stop()
        self._took = report.seconds
        if not report.finding_count:
            return None
        words: Words = json.loads(report.render("json"))
        took = self._took
        end = end_of_all(took)
        user_limit = session.limit

        def run_again(texts: dict[str, bytes], limit: int, shared_rng: bool) -> Rerun:
            if not self._server.runs:
                self._announce()
            seconds = seconds_for_one(took, end)
            return self._server.rerun(texts, min(limit, user_limit or limit), seconds, shared_rng)

        printed = None if self._printed is None else self._printed.text()
        return try_fixes(
            report, lambda: verifying.verify(words, run_again, self._max_runs, lambda: time.monotonic() < end, printed)
        )

    def _announce(self) -> None:
        """What will be done, before it is done: a program that runs again writes its files again."""
        if self._is_quiet:
            return
        announce(self._name, self._max_runs)
        if words := self._effects.words():
            endings.say(f"as in the first run, it {words}")


def announce(name: str, max_runs: int) -> None:
    """What runs again, and how often at most."""
    times = "once" if max_runs == 1 else f"at most {max_runs} times"
    endings.say(f"running {name} again with the fixes, {times} (--max-runs)")


def end_of_all(took: float) -> float:
    """When the runs of a program that took so long must be over, by the monotonic clock."""
    return time.monotonic() + ALL_RUNS[0] + ALL_RUNS[1] * took


def seconds_for_one(took: float, end: float) -> float:
    """How long the next of them may take."""
    return min(ONE_RUN[0] + ONE_RUN[1] * took, max(1.0, end - time.monotonic()))


def try_fixes(report: Report, verify: Callable[[], verifying.Outcome]) -> verifying.Outcome | None:
    """The outcome, which the report says from here on; None where the edits could not be tried to the end."""
    try:
        outcome = verify()
    except endings.Interrupted:
        endings.say("interrupted; the fixes were not tried to the end")
        return None
    except OSError as error:  # no room for the texts: what was found is not lost
        endings.say(f"the fixes were not tried: {error}. Set TMPDIR to a folder on a disk with room.")
        return None
    report.amend(json.dumps(outcome.findings()))
    return outcome


def parse_max_runs(text: str | None, verify: bool) -> int:
    """The number that --max-runs gives; a UsageError that names the way out."""
    if text is None:
        return verifying.MAX_RUNS
    if not verify:
        raise UsageError(f"--max-runs {text} is about the runs that --verify makes. Add --verify, or leave it out.")
    if not (text.isascii() and text.isdecimal()) or int(text) == 0:
        raise UsageError(
            f"--max-runs {text} is not a number of runs. Use a whole number from 1 on; `locus check` makes none."
        )
    return int(text)


def _run_again(target: runner.Target, session: Any, folder: str, give: Callable[[Result], NoReturn]) -> NoReturn:
    """In a process of its own: the program once more, checked."""

    printed = Printed()

    def finish(end: End) -> NoReturn:
        report = json.loads(session.json(end, finished=False))
        give({"report": report, "exit": end.exit, "printed": printed.text()})

    watched.run_watched(session, target, folder, PATIENCE, finish)
