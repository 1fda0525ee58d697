"""How many mistakes does `locus fix` fix? Percentages and misses, over the wrong programs and mutants of right ones.

    python tests/check/fix_score.py [--every N] [--start K] [--only wrong|mutants] [--program NAME …] [--diffs]

Fixed: the mistake's finding has a verified edit, and the program with all verified edits written (--apply) runs on the
simulated machine without the checker and prints what its right twin prints.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "e2e")]

import mutate  # noqa: E402
from checker import LOCUS, judge  # noqa: E402
from corpus import DEVICES, fixed, programs, read_mistakes  # noqa: E402
from forkrunner import ForkRunner  # noqa: E402
from score import RefusedMutants, origins  # noqa: E402

DEADLINE = 240.0
BAR = 0.8


@dataclass(frozen=True)
class Outcome:
    """One known mistake and what became of it."""

    name: str
    kind: str
    line: int
    text: str
    verified: bool
    runs: bool
    """The program with the verified edits runs to its end."""
    prints: bool
    """It prints what its right twin prints."""
    said: str

    @property
    def fixed(self) -> bool:
        return self.verified and self.prints


@dataclass(frozen=True)
class Copy:
    """A program after `locus fix --apply`."""

    findings: list[dict]
    runs: bool
    stdout: str
    said: str
    text: str


def fix(runner: ForkRunner, path: Path) -> Copy:
    """Fixes a copy of a program, and runs the copy."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / path.name
        shutil.copy(path, copy)
        report = Path(folder) / "report.json"
        options = ["--devices", str(DEVICES), "--format", "json", "-o", str(report), "--apply"]
        result = runner.run(LOCUS, "fix", *options, str(copy), deadline=DEADLINE)
        findings = json.loads(report.read_text())["findings"] if report.exists() and report.stat().st_size else []
        after = runner.run(copy, simulate=DEVICES, deadline=DEADLINE)
        said = "" if report.exists() else result.describe()[-600:]
        if after.code:
            said = (after.stderr.strip().splitlines() or ["?"])[-1]
        return Copy(findings, after.code == 0, after.stdout, said, copy.read_text())


def is_verified(finding: dict | None) -> bool:
    if finding is None:
        return False
    by_others = "fixed by the edits of the other findings" in finding["notes"]
    return by_others or (bool(finding["fixes"]) and all(fix["verified"] for fix in finding["fixes"]))


def fix_wrong(runner: ForkRunner, only: list[str] | None = None, diffs: bool = False) -> Iterator[Outcome]:
    for path in programs("wrong"):
        if only and path.stem not in only:
            continue
        twin = runner.run(fixed(path), simulate=DEVICES, deadline=DEADLINE)
        copy = fix(runner, path)
        show(diffs, path, copy)
        for mistake in read_mistakes(path.read_text()):
            verdict = judge(copy.findings, path, mistake.accepted_lines, mistake.reasons)
            # A mistake that is blamed on another line is fixed all the same where everything is.
            all_fixed = bool(copy.findings) and all(map(is_verified, copy.findings)) and copy.stdout == twin.stdout
            verified = is_verified(verdict.finding) if verdict.blamed else all_fixed and copy.runs
            text = path.read_text().splitlines()[mistake.line - 1].split("  # ")[0].strip()
            prints = copy.runs and copy.stdout == twin.stdout
            said = copy.said or str(verdict)
            yield Outcome(
                f"{path.stem}-{mistake.number}",
                mistake.reasons[0],
                mistake.line,
                text,
                verified,
                copy.runs,
                prints,
                said,
            )


def fix_mutants(
    runner: ForkRunner, folder: str, every: int = 1, start: int = 0, only: list[str] | None = None, diffs: bool = False
) -> Iterator[Outcome]:
    """Every mutant that PyTorch refuses; with every=N, a sample that is the same each time."""
    refused = RefusedMutants(runner)
    number = 0
    for origin in origins():
        if only and origin.stem not in only:
            continue
        twin = None
        for mutant in mutate.write_mutants(str(origin), f"{folder}/{origin.parent.name}"):
            number += 1
            if number % every != start % every or mutant.kind == "drop-synchronize":
                continue
            path = Path(mutant.path)
            if not refused.refuses(path):
                continue
            twin = twin or runner.run(origin, simulate=DEVICES, deadline=DEADLINE)
            copy = fix(runner, path)
            show(diffs, path, copy)
            verified = bool(copy.findings) and all(map(is_verified, copy.findings))
            first = copy.findings[0] if copy.findings else None
            said = copy.said or (f"{first['reason']} at {first['cause']['line']}" if first else "nothing found")
            yield Outcome(
                f"{origin.parent.name}/{path.name}", mutant.kind, mutant.line, mutant.new.strip(), verified, copy.runs,
                copy.runs and copy.stdout == twin.stdout, said,
            )  # fmt: skip
    refused.save()


def show(diffs: bool, path: Path, copy: Copy) -> None:
    if diffs:
        import difflib

        old, new = path.read_text().splitlines(), copy.text.splitlines()
        print("\n".join([str(path), *list(difflib.unified_diff(old, new, lineterm="", n=1))[2:]]), flush=True)


def share(outcomes: list[Outcome]) -> float:
    return sum(o.fixed for o in outcomes) / (len(outcomes) or 1)


def percentages(outcomes: list[Outcome]) -> str:
    total = len(outcomes) or 1
    counts = {
        "verified": sum(o.verified for o in outcomes),
        "runs": sum(o.runs for o in outcomes),
        "fixed": sum(o.fixed for o in outcomes),
    }
    return f"{len(outcomes)} mistakes: " + ", ".join(
        f"{word} {100 * n / total:.1f} % ({n})" for word, n in counts.items()
    )


def summary(title: str, outcomes: list[Outcome]) -> str:
    lines = [f"{title}: {percentages(outcomes)}"]
    for outcome in outcomes:
        if not outcome.fixed:
            what = "NO EDIT" if not outcome.verified else "FAILS" if not outcome.runs else "PRINTS"
            lines.append(f"  {what:8} {outcome.name}:{outcome.line} {outcome.kind}  {outcome.text[:90]}")
            lines.append(f"           {outcome.said[:160]}")
    for kind in sorted({o.kind for o in outcomes}):
        lines.append(f"  {kind:24} {percentages([o for o in outcomes if o.kind == kind])}")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--every", type=int, default=1, help="only every N-th mutant")
    parser.add_argument("--start", type=int, default=0, help="begin the sample with this one")
    parser.add_argument("--only", choices=("wrong", "mutants"))
    parser.add_argument("--program", nargs="*", help="only these programs, by name")
    parser.add_argument("--diffs", action="store_true", help="show what was changed")
    options = parser.parse_args()
    runner = ForkRunner()
    if options.only != "mutants":
        print(summary("wrong programs", list(fix_wrong(runner, options.program, options.diffs))), flush=True)
    if options.only != "wrong":
        with tempfile.TemporaryDirectory() as folder:
            made = list(fix_mutants(runner, folder, options.every, options.start, options.program, options.diffs))
        print(summary("mutants", made))
    runner.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
