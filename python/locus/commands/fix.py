"""`locus fix`: checks a program, runs it again with the edits that mend it, and shows or writes them."""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable
from typing import Any, NoReturn

from locus.errors import UsageError
from locus.process import endings, reports, runner

_ONE_RUN = 60.0, 10.0
"""Seconds that a run with fixes has, and how many times the first run's time. It takes as long as that, or less."""
_ALL_RUNS = 300.0, 30.0
"""The same for all runs together."""
PATIENCE = 10.0
"""Seconds, and the first run's time, that the program has to end itself after the report."""

SUMMARY = "mend what a check finds: edits that were tried, as a diff or written to the files"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declares the options: those of a check, and what to do with the edits."""
    from locus.commands import check

    check.configure(parser)
    parser.usage = (
        "locus fix [--apply] [--max-runs N] [--devices N] [--memory SIZE] [--rng device|cpu] [--steps N] "
        f"[--format {'|'.join(reports.FORMS)}] [-o FILE] "
        f"{' '.join(f'[--{form} FILE]' for form in reports.SIDE_FORMS)} [--baseline REPORT] [--real] "
        "(SCRIPT | -m MODULE | -c CODE) [ARGUMENT ...]"
    )
    parser.add_argument("--apply", action="store_true", help="write the verified edits to the files, keep a backup")
    for action in parser._actions:
        if action.dest == "format":
            action.help = "text: findings and a diff; else the report in that form (default: text)"
        elif action.dest == "output":
            action.help = "write the diff (or the report) there instead of standard error"
        elif action.dest == "devices":
            action.help = "how many CUDA devices, 1 to 64 (default: 2)"
        elif action.dest in ("verify", "ledger", "nproc"):  # the last is refused, with the reason
            action.help = argparse.SUPPRESS


def execute(arguments: argparse.Namespace) -> int:
    """0: nothing to mend, or all of it mended with --apply; 1: findings; 2: Locus could not do it."""
    from locus.commands import check

    arguments.verify = True
    return check.observe(arguments, lambda observed: _finish(observed, arguments))


def _finish(observed: Any, arguments: argparse.Namespace) -> int:
    from locus.commands import check

    outcome = observed.outcome
    if outcome is None:  # nothing was found, or the program was stopped
        check.write(observed, arguments)
        return reports.judge(observed.report).exit
    written = _apply(outcome) if arguments.apply else []
    if arguments.format == "text":
        reports.write(observed.report, [output for output in observed.outputs if output.option != "-o"])
        _show(outcome, arguments, written)
    else:
        check.write(observed, arguments)
    return reports.judge(observed.report, all_fixed=bool(arguments.apply and outcome.mended)).exit


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

        from locus.process.effects import Effects
        from locus.process.rerun_server import Spare
        from locus.program import source  # noqa: F401

        def run_again(limit: int | None, folder: str, give: Callable[[dict[str, Any]], NoReturn]) -> None:
            prepare_devices()
            _run_again(target, make_session(limit), folder, give)

        self._name = {"script": target.name, "module": f"-m {target.name}", "code": "the code"}[target.kind]
        self._max_runs, self._is_quiet, self._took = max_runs, is_quiet, 0.0
        self.spare = Spare(folder, run_again)
        self._effects = Effects(folder)
        self._effects.start()

    def close(self, exit_code: int | None) -> None:
        """Ends what was set aside, and sees to it that the program ends: threads and exit handlers may hang."""
        self.spare.close()
        if exit_code is not None:
            endings.end_within(PATIENCE + self._took, exit_code)

    def verify(self, session: Any, data: bytes) -> tuple[bytes, Any]:
        """Tries the edits of a report: the report with what came of it, and the outcome (None without findings)."""
        from locus.fixing import verifying

        self._effects.stop()
        report = json.loads(data)
        self._took = report["program"]["seconds"]
        if not report["findings"]:
            return data, None
        took = self._took
        end = time.monotonic() + _ALL_RUNS[0] + _ALL_RUNS[1] * took
        user_limit = session.limit

        def rerun(texts: dict[str, bytes], limit: int) -> Any:
            if not self.spare.runs:
                self._announce()
            seconds = min(_ONE_RUN[0] + _ONE_RUN[1] * took, max(1.0, end - time.monotonic()))
            return self.spare.rerun(texts, min(limit, user_limit or limit), seconds)

        try:
            outcome = verifying.verify(
                report, session.offers or [], rerun, self._max_runs, lambda: time.monotonic() < end
            )
        except endings.Interrupted:
            endings.say("interrupted; the fixes were not tried to the end")
            return data, None
        except OSError as error:  # no room for the texts: what was found is not lost
            endings.say(f"the fixes were not tried: {error}. Set TMPDIR to a folder on a disk with room.")
            return data, None
        return json.dumps(outcome.amended(report), ensure_ascii=False).encode("utf-8", "replace"), outcome

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
    from locus.fixing import verifying

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
    from locus.commands import check

    def finish(end: runner.End) -> NoReturn:
        report = json.loads(session.json(end, finished=False))
        give({"report": report, "exit": end.exit, "offers": session.offers})

    session.offers = []
    check.run_watched(session, target, folder, finish)


def _apply(outcome: Any) -> list[tuple[str, str]]:
    from locus.fixing import patches

    if outcome.changed:
        raise UsageError(
            f"{outcome.changed[0]} has changed since the program ran. Nothing was written; run `locus fix` again."
        )
    return patches.write(outcome.files, outcome.texts) if outcome.texts else []


def _show(outcome: Any, arguments: argparse.Namespace, written: list[tuple[str, str]]) -> None:
    from locus.fixing import patches

    folder = os.getcwd()
    verified = [c for c in outcome.candidates if c.verified]
    lines = []
    for candidate in outcome.candidates:
        finding = candidate.finding
        if candidate.verified:
            tag = "verified" if candidate.touched else "mended"
        else:
            tag = "suggested" if finding["fixes"] else "no edit"
        place = f"{_relative(finding['cause']['file'], folder)}:{finding['cause']['line']}"
        name = finding["culprit"]["name"] or finding["culprit"]["expression"] or finding["op"]
        lines.append(f"{tag:<9}  {finding['code']}  {place}  {name} ({finding['reason']})")
        if tag == "mended":
            lines.append(f"{'':9}  {'':6}  by the edits of the others")
        if not candidate.verified:
            lines.append(f"{'':9}  {'':6}  {candidate.why}")
            for fix in finding["fixes"]:
                lines += [f"{'':9}  {'':6}  {_relative(fix['file'], folder)}:{fix['line']}  {_first(fix['new'])}"]
    count = len(outcome.candidates)
    runs = f"{outcome.runs} more run{'s' * (outcome.runs != 1)}"
    lines.append(f"locus: {count} finding{'s' * (count != 1)}, {len(verified)} mended by verified edits; {runs}")
    diff = patches.diff(outcome.files, outcome.texts, folder)
    if arguments.output:
        with open(arguments.output, "wb") as file:
            file.write(diff)
        diff = b""
    for path, backup in written:
        lines.append(f"locus: wrote {_relative(path, folder)}; as it was: {_relative(backup, folder)}")
    endings.to_stderr(diff + ("\n".join(lines) + "\n").encode("utf-8", "replace"))


def _relative(path: str, folder: str) -> str:
    inside = os.path.relpath(path, folder)
    return path if inside.startswith("..") else inside


def _first(text: str) -> str:
    lines = text.strip().split("\n")
    return lines[0].strip() + (" …" if len(lines) > 1 else "")
