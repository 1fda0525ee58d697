"""How many mistakes does `locus fix` mend? Percentages and misses, over the buggy programs and mutants of correct ones.

    python tests/check/fix_score.py [--every N] [--start K] [--only buggy|mutants] [--program NAME …] [--diffs]

Mended: the mistake's finding has a verified edit, and the program with all verified edits written (--apply) runs on the
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
from corpus import DEVICES, programs, read_mistakes  # noqa: E402
from forkrunner import ForkRunner  # noqa: E402
from score import FOLDERS, RefusedMutants  # noqa: E402

DEADLINE = 240.0
BAR = 0.8


@dataclass(frozen=True)
class Mend:
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
    def mended(self) -> bool:
        return self.verified and self.prints


@dataclass(frozen=True)
class Fixed:
    """A program after `locus fix --apply`."""

    findings: list[dict]
    runs: bool
    stdout: str
    said: str
    text: str


def fix(runner: ForkRunner, path: Path) -> Fixed:
    """Mends a copy of a program, and runs the copy."""
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
        return Fixed(findings, after.code == 0, after.stdout, said, copy.read_text())


def is_verified(finding: dict | None) -> bool:
    if finding is None:
        return False
    by_others = "mended by the edits of the other findings" in finding["notes"]
    return by_others or (bool(finding["fixes"]) and all(fix["verified"] for fix in finding["fixes"]))


def fix_buggy(runner: ForkRunner, only: list[str] | None = None, diffs: bool = False) -> Iterator[Mend]:
    for path in programs("buggy"):
        if only and path.stem not in only:
            continue
        twin = runner.run(path.parent.parent / "mended" / path.name, simulate=DEVICES, deadline=DEADLINE)
        fixed = fix(runner, path)
        show(diffs, path, fixed)
        for mistake in read_mistakes(path.read_text()):
            verdict = judge(fixed.findings, path, mistake.accepted_lines, mistake.reasons)
            # A mistake that is blamed on another line is mended all the same where everything is.
            all_mended = bool(fixed.findings) and all(map(is_verified, fixed.findings)) and fixed.stdout == twin.stdout
            verified = is_verified(verdict.finding) if verdict.blamed else all_mended and fixed.runs
            text = path.read_text().splitlines()[mistake.line - 1].split("  # ")[0].strip()
            prints = fixed.runs and fixed.stdout == twin.stdout
            said = fixed.said or str(verdict)
            yield Mend(
                f"{path.stem}-{mistake.number}",
                mistake.reasons[0],
                mistake.line,
                text,
                verified,
                fixed.runs,
                prints,
                said,
            )


def fix_mutants(
    runner: ForkRunner, folder: str, every: int = 1, start: int = 0, only: list[str] | None = None, diffs: bool = False
) -> Iterator[Mend]:
    """Every mutant that PyTorch refuses; with every=N, a sample that is the same each time."""
    refused = RefusedMutants(runner)
    number = 0
    for origin in (path for name in FOLDERS for path in programs(name)):
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
            fixed = fix(runner, path)
            show(diffs, path, fixed)
            verified = bool(fixed.findings) and all(map(is_verified, fixed.findings))
            first = fixed.findings[0] if fixed.findings else None
            said = fixed.said or (f"{first['reason']} at {first['cause']['line']}" if first else "nothing found")
            yield Mend(
                f"{origin.parent.name}/{path.name}", mutant.kind, mutant.line, mutant.new.strip(), verified, fixed.runs,
                fixed.runs and fixed.stdout == twin.stdout, said,
            )  # fmt: skip
    refused.save()


def show(diffs: bool, path: Path, fixed: Fixed) -> None:
    if diffs:
        import difflib

        old, new = path.read_text().splitlines(), fixed.text.splitlines()
        print("\n".join([str(path), *list(difflib.unified_diff(old, new, lineterm="", n=1))[2:]]), flush=True)


def share(mends: list[Mend]) -> float:
    return sum(m.mended for m in mends) / (len(mends) or 1)


def percentages(mends: list[Mend]) -> str:
    total = len(mends) or 1
    counts = {
        "verified": sum(m.verified for m in mends),
        "runs": sum(m.runs for m in mends),
        "mended": sum(m.mended for m in mends),
    }
    return f"{len(mends)} mistakes: " + ", ".join(f"{word} {100 * n / total:.1f} % ({n})" for word, n in counts.items())


def summary(title: str, mends: list[Mend]) -> str:
    lines = [f"{title}: {percentages(mends)}"]
    for mend in mends:
        if not mend.mended:
            what = "NO EDIT" if not mend.verified else "FAILS" if not mend.runs else "PRINTS"
            lines.append(f"  {what:8} {mend.name}:{mend.line} {mend.kind}  {mend.text[:90]}")
            lines.append(f"           {mend.said[:160]}")
    for kind in sorted({m.kind for m in mends}):
        lines.append(f"  {kind:24} {percentages([m for m in mends if m.kind == kind])}")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--every", type=int, default=1, help="only every N-th mutant")
    parser.add_argument("--start", type=int, default=0, help="begin the sample with this one")
    parser.add_argument("--only", choices=("buggy", "mutants"))
    parser.add_argument("--program", nargs="*", help="only these programs, by name")
    parser.add_argument("--diffs", action="store_true", help="show what was changed")
    options = parser.parse_args()
    runner = ForkRunner()
    if options.only != "mutants":
        print(summary("buggy programs", list(fix_buggy(runner, options.program, options.diffs))), flush=True)
    if options.only != "buggy":
        with tempfile.TemporaryDirectory() as folder:
            made = list(fix_mutants(runner, folder, options.every, options.start, options.program, options.diffs))
        print(summary("mutants", made))
    runner.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
