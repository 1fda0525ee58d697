"""Runs `locus check` on a program and compares what it found with what is known to be wrong."""

from __future__ import annotations

import json
import tempfile
from dataclasses import dataclass
from pathlib import Path

from corpus import ANY_REASON, DEVICES, read_mistakes
from forkrunner import ForkRunner, Result
from schema import problems

DEADLINE = 120.0
LOCUS = Path(__file__).parent / "run_check.py"
IMPATIENT = Path(__file__).parent / "run_impatient.py"


def is_available() -> bool:
    """Whether this Locus can check programs."""
    from locus.commands import COMMANDS

    return "check" in COMMANDS


@dataclass(frozen=True)
class Checked:
    """What a check left behind: the report, and what the program itself printed."""

    result: Result
    report: dict | None

    @property
    def stdout(self) -> str:
        return self.result.stdout

    @property
    def findings(self) -> list[dict]:
        assert self.report is not None, f"no report\n{self.result.describe()}"
        return self.report["findings"]

    @property
    def errors(self) -> list[dict]:
        return [finding for finding in self.findings if finding["severity"] == "error"]


def check(runner: ForkRunner, path: Path | str, devices: int = DEVICES, options: tuple[str, ...] = ()) -> Checked:
    """Checks a program in a forked process."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        arguments = ["check", "--devices", str(devices), *options, "--format", "json", "-o", str(report), str(path)]
        result = runner.run(LOCUS, *arguments, deadline=DEADLINE)
        text = report.read_text() if report.exists() else ""
    checked = Checked(result, json.loads(text) if text else None)
    wrong = problems(checked.report) if checked.report is not None else []
    assert not wrong, f"the report is not as docs/report.schema.json says: {wrong[:5]}"
    return checked


def check_source(runner: ForkRunner, text: str, devices: int = DEVICES, name: str = "program.py") -> Checked:
    """Checks program text, written to a file so that it has lines to point at."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_text(text)
        return check(runner, path, devices)


@dataclass(frozen=True)
class Verdict:
    """How well a known mistake was found; each includes the ones before it."""

    found: bool
    blamed: bool
    reason: bool
    finding: dict | None = None

    def __str__(self) -> str:
        if self.finding is None:
            return "nothing found"
        cause, culprit = self.finding["cause"], self.finding["culprit"]
        return f"blamed line {cause['line']} ({self.finding['reason']}, {culprit['name']}): {cause['text'].strip()}"


def judge(findings: list[dict], path: Path | str, lines: list[int], reasons: list[str]) -> Verdict:
    """The best finding for a mistake that may be blamed on these lines, for these reasons."""
    best = Verdict(False, False, False)
    for finding in findings:
        cause = finding["cause"]
        blamed = Path(cause["file"]).name == Path(path).name and cause["line"] in lines
        verdict = Verdict(True, blamed, blamed and (ANY_REASON in reasons or finding["reason"] in reasons), finding)
        if (verdict.found, verdict.blamed, verdict.reason) > (best.found, best.blamed, best.reason):
            best = verdict
    return best


def each_is_found_once(program: ForkRunner, path: Path) -> list[Verdict]:
    """The check of a program of which each marked mistake is a finding at its line, and nothing else is one."""
    mistakes = read_mistakes(path.read_text())
    checked = check(program, path, devices=1)
    said = "\n".join(f"{f['reason']} at line {f['cause']['line']}: {f['message']}" for f in checked.findings)
    verdicts = []
    for mistake in mistakes:
        verdicts.append(judge(checked.findings, path, mistake.accepted_lines, mistake.reasons))
        wanted = f"mistake {mistake.number}: {mistake.reasons[0]} at line {mistake.line}"
        assert verdicts[-1].reason, f"{wanted} is not found; found:\n{said}\n{checked.result.describe()}"
    assert len(checked.findings) == len(mistakes), said
    assert not checked.report["notes"], checked.report["notes"]
    return verdicts


def nothing_is_found(program: ForkRunner, path: Path) -> None:
    """Neither a finding nor a note, and the program prints what it prints unchecked."""
    checked = check(program, path, devices=1)
    assert checked.findings == [], checked.result.describe()
    assert not checked.report["notes"], checked.report["notes"]
    assert checked.stdout == program.run(path, simulate=1).ok().stdout
