"""How good is `locus check`? Percentages and misses, over the wrong programs and over mutants of right ones.

    python tests/check/score.py [--every N] [--only wrong|mutants] [--program NAME …] [--no-fixes] [--json FILE]
                                [--part K/N] [--examples FILE]

A mutant counts where PyTorch would refuse it: it ends with a device error on the simulated machine without the checker.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "e2e")]

import mutate  # noqa: E402
from checker import DEADLINE, Verdict, check, judge  # noqa: E402
from corpus import DEVICES, fixed_programs, is_device_error, programs, read_mistakes  # noqa: E402
from forkrunner import ForkRunner  # noqa: E402

VERDICTS = HERE.parent.parent / "build" / "mutant_verdicts.json"


def origins() -> list[Path]:
    """The right programs that mutants are made of."""
    return fixed_programs() + programs("correct") + programs("simulate")


@dataclass(frozen=True)
class Outcome:
    """One known mistake and what was said about it."""

    name: str
    kind: str
    line: int
    text: str
    expected: list[str]
    verdict: Verdict
    fixed: bool = False
    """The first edit of each finding, all applied: the program runs to its end without the checker."""
    trouble: str | None = None
    program: str = ""
    accepted: tuple[int, ...] = ()
    findings: tuple[dict, ...] = ()

    @property
    def right(self) -> bool:
        """Blamed on a line that is known to be the cause, or on another whose edit fixes the program all the same."""
        return self.verdict.blamed or self.fixed


class RefusedMutants:
    """Remembers from run to run which mutants PyTorch refuses."""

    def __init__(self, runner: ForkRunner):
        self.runner = runner
        self.known: dict[str, bool] = json.loads(VERDICTS.read_text()) if VERDICTS.exists() else {}

    def refuses(self, path: Path) -> bool:
        key = hashlib.sha256(path.read_bytes()).hexdigest()[:24]
        if key not in self.known:
            result = self.runner.run(path, simulate=DEVICES, deadline=DEADLINE)
            self.known[key] = result.code != 0 and is_device_error(result.stderr)
        return self.known[key]

    def save(self) -> None:
        VERDICTS.parent.mkdir(exist_ok=True)
        VERDICTS.write_text(json.dumps(self.known))


def apply_fixes(text: str, findings: list[dict], path: Path) -> str | None:
    """The program with the first edit of each finding; None where a finding has none, or one for another text."""
    edits: dict[int, tuple[str, str]] = {}
    lines = text.splitlines()
    for finding in findings:
        fix = next(iter(finding["fixes"]), None)
        if fix is None or Path(fix["file"]).name != path.name or not 1 <= fix["line"] <= len(lines):
            return None
        old = fix["old"].splitlines()
        if old and old != lines[fix["line"] - 1 : fix["line"] - 1 + len(old)]:
            return None
        edits[fix["line"]] = (fix["old"], fix["new"])
    for line in sorted(edits, reverse=True):
        old, new = edits[line]
        first = line - 1 if old else line  # without an old text: a line to insert below
        lines[first : first + len(old.splitlines())] = new.splitlines()
    return "\n".join(lines) + "\n"


def is_fixed_by(runner: ForkRunner, path: Path, findings: list[dict], rounds: int = 4) -> bool:
    """Whether the suggested edits, made and made again, give a program that PyTorch runs to its end."""
    text = path.read_text()
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / path.name
        for _ in range(rounds):  # two edits of one line can't both be made at once
            changed = apply_fixes(text, findings, path) if findings else None
            if changed is None or changed == text:
                return False
            text = changed
            copy.write_text(text)
            if runner.run(copy, simulate=DEVICES, deadline=DEADLINE).code == 0:
                return True
            checked = check(runner, copy)
            findings = checked.report["findings"] if checked.report else []
    return False


def score_wrong(runner: ForkRunner, only: list[str] | None = None, try_fixes: bool = True) -> Iterator[Outcome]:
    """Every marked mistake of the wrong programs."""
    for path in programs("wrong"):
        if only and path.stem not in only:
            continue
        source = path.read_text()
        checked = check(runner, path)
        findings = checked.report["findings"] if checked.report else []
        trouble = None if checked.report else checked.result.describe()[-800:]
        fixed = try_fixes and is_fixed_by(runner, path, findings)
        for mistake in read_mistakes(source):
            verdict = judge(findings, path, mistake.accepted_lines, mistake.reasons)
            text = source.splitlines()[mistake.line - 1].split("  # ")[0].strip()
            yield Outcome(
                f"{path.stem}-{mistake.number}",
                mistake.reasons[0],
                mistake.line,
                text,
                mistake.reasons,
                verdict,
                fixed,
                trouble,
                path.stem,
                tuple(mistake.accepted_lines),
                tuple(f for f in findings if verdict.blamed and verdict.finding is f),
            )


def score_mutants(
    runner: ForkRunner, folder: str, every: int = 1, only: list[str] | None = None, try_fixes: bool = True
) -> Iterator[Outcome]:
    """Every mutant that PyTorch refuses; with every=N, a sample that is the same each time."""
    refused = RefusedMutants(runner)
    number = 0
    for origin in origins():
        if only and origin.stem not in only:
            continue
        for mutant in mutate.write_mutants(str(origin), f"{folder}/{origin.parent.name}"):
            number += 1
            if number % every or mutant.kind == "drop-synchronize":
                continue
            path = Path(mutant.path)
            if not refused.refuses(path):
                continue
            checked = check(runner, path)
            trouble = None if checked.report else checked.result.describe()[-800:]
            findings = checked.report["findings"] if checked.report else []
            verdict = judge(findings, path, mutant.accepted_lines, mutant.expected)
            fixed = try_fixes and is_fixed_by(runner, path, findings)
            yield Outcome(
                f"{origin.parent.name}/{path.name}",
                mutant.kind,
                mutant.line,
                mutant.new.strip(),
                mutant.expected,
                verdict,
                fixed,
                trouble,
                origin.stem,
                tuple(mutant.accepted_lines),
                tuple(findings),
            )
    refused.save()


def examples(outcomes: list[Outcome]) -> list[dict]:
    """What tools/fit_blame.py learns from: findings with their candidates, and the lines that are right."""
    return [
        {"program": o.program, "accepted": list(o.accepted),
         "finding": {"reason": f["reason"], "candidates": f["candidates"]}}
        for o in outcomes for f in o.findings if f["candidates"]
    ]  # fmt: skip


def percentages(outcomes: list[Outcome]) -> str:
    total = len(outcomes) or 1
    counts = {
        "found": sum(o.verdict.found for o in outcomes),
        "blamed": sum(o.verdict.blamed for o in outcomes),
        "reason": sum(o.verdict.reason for o in outcomes),
        "fixed": sum(o.fixed for o in outcomes),
        "blamed or fixed": sum(o.right for o in outcomes),
    }
    return f"{len(outcomes)} mistakes: " + ", ".join(
        f"{word} {100 * n / total:.1f} % ({n})" for word, n in counts.items()
    )


def summary(title: str, outcomes: list[Outcome]) -> str:
    lines = [f"{title}: {percentages(outcomes)}"]
    for outcome in outcomes:
        if outcome.verdict.reason or outcome.fixed:
            continue
        verdict = outcome.verdict
        what = "NOT FOUND" if not verdict.found else "NOT BLAMED" if not verdict.blamed else "REASON"
        where = f"{outcome.name}:{outcome.line}"
        lines.append(f"  {what:10} {where} {outcome.kind} [{outcome.expected[0]}] {outcome.text[:99]}")
        lines.append(f"             {verdict}")
        if outcome.trouble:
            lines.append("             no report: " + outcome.trouble.strip().splitlines()[-1])
    for kind in sorted({o.kind for o in outcomes}):
        lines.append(f"  {kind:24} {percentages([o for o in outcomes if o.kind == kind])}")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--every", type=int, default=1, help="only every N-th mutant")
    parser.add_argument("--only", choices=("wrong", "mutants"))
    parser.add_argument("--program", nargs="*", help="only these programs, by name")
    parser.add_argument("--no-fixes", action="store_true", help="do not try the suggested edits: much quicker")
    parser.add_argument("--json", metavar="FILE", help="write every outcome to a file too")
    parser.add_argument("--part", default="1/1", metavar="K/N", help="only the K-th of N parts of the programs")
    parser.add_argument("--examples", metavar="FILE", help="write findings and right lines for tools/fit_blame.py")
    options = parser.parse_args()
    part, parts = map(int, options.part.split("/"))
    if parts > 1:
        every = sorted({path.stem for path in [*origins(), *programs("wrong")]})
        options.program = [name for name in options.program or every if every.index(name) % parts == part - 1]
    runner = ForkRunner()
    outcomes: list[Outcome] = []
    if options.only != "mutants":
        wrong = list(score_wrong(runner, options.program, not options.no_fixes))
        print(summary("wrong programs", wrong), flush=True)
        outcomes += wrong
    if options.only != "wrong":
        with tempfile.TemporaryDirectory() as folder:
            made = list(score_mutants(runner, folder, options.every, options.program, not options.no_fixes))
        print(summary("mutants", made))
        outcomes += made
    if options.examples:
        Path(options.examples).write_text(json.dumps(examples(outcomes)))
    if options.json:
        rows = [
            dict(
                name=o.name,
                kind=o.kind,
                line=o.line,
                text=o.text,
                expected=o.expected,
                verdict=str(o.verdict),
                found=o.verdict.found,
                blamed=o.verdict.blamed,
                reason=o.verdict.reason,
                fixed=o.fixed,
                trouble=o.trouble,
            )
            for o in outcomes
        ]
        Path(options.json).write_text(json.dumps(rows, indent=1))
    runner.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
