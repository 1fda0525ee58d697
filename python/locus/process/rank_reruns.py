"""The runs with fixes of a program with ranks: each is a check of its own, with the edited texts under the files'
names. What the ranks print is not compared: they print in any order.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

from locus import scratch
from locus.fixing import verifying
from locus.fixing.rerun import Rerun, Words
from locus.process import overlay, rerun_server, reruns

if TYPE_CHECKING:
    from locus._bridge import Report

_TAIL = 4000


def verify(
    report: Report, options: list[str], program: list[str], limit: int | None, max_runs: int, is_quiet: bool
) -> verifying.Outcome | None:
    """Tries the edits of a report, which says then what came of it; the outcome (None without findings).

    options: those of the check, without --steps, which is `limit`; program: what stands behind them.
    """
    if not report.finding_count:
        return None
    words: Words = json.loads(report.render("json"))
    end = reruns.end_of_all(report.seconds)
    folder = scratch.make()
    runs = 0

    user_limit = limit

    def run_again(texts: dict[str, bytes], limit: int, shared_rng: bool) -> Rerun:
        nonlocal runs
        runs += 1
        if runs == 1 and not is_quiet:
            reruns.announce("the ranks", max_runs)
        seconds = reruns.seconds_for_one(report.seconds, end)
        place = scratch.make_inside(folder, f"run-{runs}")
        more = ["--steps", str(min(limit, user_limit or limit)), *(["--rng", "cpu"] if shared_rng else [])]
        return _run(place, [*options, *more], program, texts, seconds)

    try:
        return reruns.try_fixes(
            report, lambda: verifying.verify(words, run_again, max_runs, lambda: time.monotonic() < end)
        )
    finally:
        scratch.remove(folder)


def _run(folder: str, options: list[str], program: list[str], texts: dict[str, bytes], seconds: float) -> Rerun:
    """A check of all ranks with these texts, in silence."""
    edited, result = os.path.join(folder, "texts"), os.path.join(folder, "result")
    overlay.save(texts, edited)
    environment = {**os.environ, overlay.VARIABLE: edited}
    environment.pop(scratch.FOLDER_VARIABLE, None)  # a check of its own
    words = [sys.executable, "-m", "locus", "check", *options, "--format", "json", "-o", result, *program]
    heard = os.path.join(folder, "errors")
    with open(scratch.create(heard), "wb") as errors:
        process = subprocess.Popen(
            words, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=errors,
            start_new_session=True,
        )  # fmt: skip
        late = False
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            late = True
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # the ranks end with it
            process.wait()
    text = scratch.read(heard)[-_TAIL:].decode("utf-8", "replace")
    traceback = rerun_server.traceback_lines(text)
    error = rerun_server.last_line(text)
    if late:
        return Rerun(None, 1, error, seconds, traceback=traceback)
    try:
        report: Words = json.loads(scratch.read(result))
    except (OSError, ValueError):
        return Rerun(None, process.returncode or 1, error, traceback=traceback)
    status = report["program"]["exit"]
    return Rerun(report, status, error if status else "", traceback=traceback if status else ())
