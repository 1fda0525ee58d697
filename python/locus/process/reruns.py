"""The runs with fixes of a check: the process that is set aside before the first run, the deadlines, the outcome."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

from locus.errors import UsageError
from locus.fixing import verifying
from locus.process import endings, runner, watched
from locus.process.effects import Effects
from locus.process.rerun_server import RerunServer
from locus.program.end import End

if TYPE_CHECKING:
    from locus._bridge import Report

_ONE_RUN = 60.0, 10.0
"""Seconds that a run with fixes has, and how many times the first run's time. It takes as long as that, or less."""
_ALL_RUNS = 300.0, 30.0
"""The same for all runs together."""
PATIENCE = 10.0
"""Seconds, and the first run's time, that the program has to end itself after the report."""


class Verifier:
    """The second run of a check, from the process that is set aside before the first one to its outcome."""

    def __init__(
        self,
        target: runner.Target,
        folder: str,
        prepare_devices: Callable[[], None],
        make_session: Callable[[int], Any],
        max_runs: int,
        is_quiet: bool,
    ):
        """is_quiet: nothing is said of the runs, for standard error takes a report that a machine reads."""
        import torch  # noqa: F401  (before the fork: every run has it then)

        def run_again(limit: int | None, folder: str, give: Callable[[dict[str, Any]], NoReturn]) -> None:
            prepare_devices()
            _run_again(target, make_session(limit), folder, give)

        self._name = {"script": target.name, "module": f"-m {target.name}", "code": "the code"}[target.kind]
        self._max_runs, self._is_quiet, self._took = max_runs, is_quiet, 0.0
        self._server = RerunServer(folder, run_again)
        self._effects = Effects(folder)
        self._effects.start()

    def close(self, exit_code: int | None) -> None:
        """Ends what was set aside, and sees to it that the program ends: threads and exit handlers may hang."""
        self._server.close()
        if exit_code is not None:
            endings.end_within(PATIENCE + self._took, exit_code)

    def verify(self, session: Any, report: Report) -> Any:
        """Tries the edits of a report, which says then what came of it; the outcome (None without findings)."""
        self._effects.stop()
        self._took = report.seconds
        if not report.finding_count:
            return None
        words = json.loads(report.render("json"))
        took = self._took
        end = time.monotonic() + _ALL_RUNS[0] + _ALL_RUNS[1] * took
        user_limit = session.limit

        def rerun(texts: dict[str, bytes], limit: int) -> Any:
            if not self._server.runs:
                self._announce()
            seconds = min(_ONE_RUN[0] + _ONE_RUN[1] * took, max(1.0, end - time.monotonic()))
            return self._server.rerun(texts, min(limit, user_limit or limit), seconds)

        try:
            outcome = verifying.verify(words, rerun, self._max_runs, lambda: time.monotonic() < end)
        except endings.Interrupted:
            endings.say("interrupted; the fixes were not tried to the end")
            return None
        except OSError as error:  # no room for the texts: what was found is not lost
            endings.say(f"the fixes were not tried: {error}. Set TMPDIR to a folder on a disk with room.")
            return None
        report.amend(json.dumps(outcome.amended(words)["findings"]))
        return outcome

    def _announce(self) -> None:
        """What will be done, before it is done: a program that runs again writes its files again."""
        if self._is_quiet:
            return
        times = "once" if self._max_runs == 1 else f"at most {self._max_runs} times"
        endings.say(f"running {self._name} again with the fixes, {times} (--max-runs)")
        if words := self._effects.words():
            endings.say(f"as in the first run, it {words}")


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


def _run_again(
    target: runner.Target, session: Any, folder: str, give: Callable[[dict[str, Any]], NoReturn]
) -> NoReturn:
    """In a process of its own: the program once more, checked."""

    def finish(end: End) -> NoReturn:
        report = json.loads(session.json(end, finished=False))
        give({"report": report, "exit": end.exit})

    watched.run_watched(session, target, folder, PATIENCE, finish)
