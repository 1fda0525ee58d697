"""`locus fix`: checks a program, runs it again with the edits that mend it, and shows or writes them."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable
from typing import Any, NoReturn

from locus import reports, runner
from locus.errors import UsageError

SUMMARY = "mend what a check finds: edits that were tried, as a diff or written to the files"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declares the options: those of a check, and what to do with the edits."""
    from locus.commands import check

    check.configure(parser)
    parser.usage = (
        "locus fix [--apply] [--devices N] [--memory SIZE] [--rng device|cpu] [--steps N] "
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
        return 1 if reports.is_failure(observed.report) and observed.exit != runner.INTERRUPTED else observed.exit
    written = _apply(outcome) if arguments.apply else []
    if arguments.format == "text":
        reports.write(observed.report, [output for output in observed.outputs if output.option != "-o"])
        _show(outcome, arguments, written)
    else:
        check.write(observed, arguments)
    return 0 if arguments.apply and outcome.mended else 1


class Verifier:
    """The second run of a check, from the process that is set aside before the first one to its outcome."""

    def __init__(
        self,
        target: runner.Target,
        folder: str,
        prepare_devices: Callable[[], None],
        make_session: Callable[[int], Any],
    ):
        import torch  # noqa: F401  (before the fork: every run has it then)

        from locus import edits, facts, session, source  # noqa: F401
        from locus.spare import Spare

        def run_again(limit: int | None, folder: str, give: Callable[[dict[str, Any]], NoReturn]) -> None:
            prepare_devices()
            _run_again(target, make_session(limit), folder, give)

        self.spare = Spare(folder, run_again)

    def close(self) -> None:
        self.spare.close()

    def verify(self, session: Any, data: bytes) -> tuple[bytes, Any]:
        """Tries the edits of a report: the report with what came of it, and the outcome (None without findings)."""
        from locus import verifying

        report = json.loads(data)
        if not report["findings"]:
            return data, None
        seconds = 60 + 5 * report["program"]["seconds"]
        user_limit = session.limit

        def rerun(texts: dict[str, bytes], limit: int) -> Any:
            return self.spare.rerun(texts, min(limit, user_limit or limit), seconds)

        outcome = verifying.verify(report, session.offers or [], rerun)
        return json.dumps(outcome.amended(report), ensure_ascii=False).encode("utf-8", "replace"), outcome


def _run_again(
    target: runner.Target, session: Any, folder: str, give: Callable[[dict[str, Any]], NoReturn]
) -> NoReturn:
    """In a process of its own: the program once more, checked."""
    from locus.commands import check

    def finish(exit_code: int) -> NoReturn:
        report = json.loads(session.json(exit_code, finished=False))
        give({"report": report, "exit": exit_code, "offers": session.offers})

    session.offers = []
    check.run_watched(session, target, folder, finish)


def _apply(outcome: Any) -> list[tuple[str, str]]:
    from locus import patches

    if outcome.changed:
        raise UsageError(
            f"{outcome.changed[0]} has changed since the program ran. Nothing was written; run `locus fix` again."
        )
    return patches.write(outcome.files, outcome.texts) if outcome.texts else []


def _show(outcome: Any, arguments: argparse.Namespace, written: list[tuple[str, str]]) -> None:
    from locus import patches

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
    _to_stderr(diff + ("\n".join(lines) + "\n").encode("utf-8", "replace"))


def _to_stderr(data: bytes) -> None:
    sys.stderr.flush()
    try:
        sys.stderr.buffer.write(data)
        sys.stderr.flush()
    except (OSError, AttributeError):
        os.write(2, data)


def _relative(path: str, folder: str) -> str:
    inside = os.path.relpath(path, folder)
    return path if inside.startswith("..") else inside


def _first(text: str) -> str:
    lines = text.strip().split("\n")
    return lines[0].strip() + (" …" if len(lines) > 1 else "")
