"""How good is Locus on programs that nobody looked at who worked on it? A table, percentages, and what went wrong.

    python tests/check/unseen.py [--folder DIR] [--program NAME …] [--part K/N] [--json FILE]

DIR/wrong has programs with marks as corpus.py describes them, DIR/right has programs without a mistake. Of each wrong
program: how many of its mistakes are found, how many blamed on a marked line, whether `locus fix --apply` makes it
print what its twin prints with nothing left to find, how many edits were written beyond the number of mistakes, and how
many of them name a CUDA device where the twin has another name for it. A right program has no finding.
"""

from __future__ import annotations

import argparse
import difflib
import json
import re
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "e2e")]

from checker import check, check_source  # noqa: E402
from corpus import DEVICES, PROGRAMS, Mistake, fixed, read_changes, read_mistakes  # noqa: E402
from fix_score import DEADLINE, fix  # noqa: E402
from forkrunner import ForkRunner, Result  # noqa: E402

_LITERAL = re.compile(r"""["']cuda(?::\d+)?["']|\.cuda\(""")


@dataclass(frozen=True)
class Outcome:
    """A wrong program, and what was said and done about it."""

    name: str
    mistakes: int
    found: int
    blamed: int
    extra_findings: int
    """More than there are mistakes."""
    fixed: bool
    extra_edits: int
    literals: int
    said: list[str]
    """What is not as it should be, in words."""
    is_true: bool = True
    """The twin runs to its end: the program is what it says."""


@dataclass(frozen=True)
class Alarm:
    """A right program, and how many findings it got."""

    name: str
    findings: int
    said: list[str]
    is_true: bool = True
    """It runs to its end without the checker."""


def assign(findings: list[dict], mistakes: list[Mistake], file: str) -> tuple[int, int]:
    """How many mistakes are found, and how many of them are blamed on a marked line. A finding counts for one mistake:
    one that it blames, else one that stops the program where the finding was met, else any."""
    left, todo = list(findings), list(mistakes)

    def is_blamed(mistake: Mistake, finding: dict) -> bool:
        return Path(finding["cause"]["file"]).name == file and finding["cause"]["line"] in mistake.accepted_lines

    def is_met(mistake: Mistake, finding: dict) -> bool:
        return any(Path(use["file"]).name == file and use["line"] == mistake.raises for use in finding["uses"])

    counts = []
    for fits in (is_blamed, is_met, lambda mistake, finding: True):
        before = len(todo)
        for mistake in list(todo):
            finding = next((each for each in left if fits(mistake, each)), None)
            if finding is not None:
                left.remove(finding)
                todo.remove(mistake)
        counts.append(before - len(todo))
    return sum(counts), counts[0]


@dataclass(frozen=True)
class Edit:
    """Lines that `fix` wrote instead of others, the first of which has this number."""

    line: int
    old: list[str]
    new: list[str]


def edits(before: str, after: str) -> list[Edit]:
    """What `fix` changed. Neighboring lines that were changed line for line are several edits."""
    old, new = before.splitlines(), after.splitlines()
    found = []
    for tag, a, b, c, d in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag == "replace" and b - a == d - c:
            found += [Edit(a + i + 1, [old[a + i]], [new[c + i]]) for i in range(b - a)]
        elif tag != "equal":
            found.append(Edit(a + 1, old[a:b], new[c:d]))
    return found


def literals(written: list[Edit], source: str) -> int:
    """How many literal CUDA devices the edits brought where the twin has another name for the device: it has no such
    literal in the same line, nor this one in any line that it changes."""

    def count(lines: list[str]) -> Counter[str]:
        return Counter(found.replace("'", '"') for line in lines for found in _LITERAL.findall(line))

    twin = {change.line: count(change.code) for change in read_changes(source)}
    anywhere = {literal for each in twin.values() for literal in each}
    return sum(
        n
        for edit in written
        if not twin.get(edit.line)
        for literal, n in (count(edit.new) - count(edit.old)).items()
        if literal not in anywhere
    )


def describe(finding: dict) -> str:
    cause, culprit = finding["cause"], finding["culprit"]
    return f"line {cause['line']} blamed ({finding['reason']}, {culprit['name']}): {cause['text'].strip()}"


def last_line(result: Result) -> str:
    return (result.stderr.strip().splitlines() or [f"exit code {result.code}"])[-1]


def score_wrong(runner: ForkRunner, path: Path) -> Outcome:
    source = path.read_text()
    mistakes = read_mistakes(source)
    checked = check(runner, path)
    findings = checked.report["findings"] if checked.report else []
    found, blamed = assign(findings, mistakes, path.name)
    said = [] if checked.report else ["no report: " + checked.result.describe()[-600:]]
    if blamed < len(mistakes):
        lines = ", ".join(str(m.line) for m in mistakes)
        said += [f"mistakes in lines {lines}", *map(describe, findings)]
    twin = runner.run(fixed(path), simulate=DEVICES, deadline=DEADLINE)
    if twin.code:
        said.append("the twin does not run: " + last_line(twin))
    copy = fix(runner, path)
    written = edits(source, copy.text)
    after = check_source(runner, copy.text, name=path.name)
    left = after.report["findings"] if after.report else None
    is_fixed = copy.runs and (twin.code, twin.stdout) == (0, copy.stdout) and left == []
    extra_edits, brought = max(0, len(written) - len(mistakes)), literals(written, source)
    if not is_fixed:
        said.append("not fixed: " + (copy.said or ("it prints something else" if copy.stdout != twin.stdout else "")))
        said += [f"still found: {describe(finding)}" for finding in left or []]
    if not is_fixed or extra_edits or brought:
        said += [f"written: {line.strip()}" for edit in written for line in edit.new]
    return Outcome(
        path.stem, len(mistakes), found, blamed, max(0, len(findings) - len(mistakes)), is_fixed, extra_edits, brought,
        said, twin.code == 0,
    )  # fmt: skip


def score_right(runner: ForkRunner, path: Path) -> Alarm:
    checked = check(runner, path)
    if checked.report is None:
        return Alarm(path.stem, 1, ["no report: " + checked.result.describe()[-600:]])
    findings = checked.report["findings"]
    said = [describe(finding) for finding in findings]
    plain = runner.run(path, simulate=DEVICES, deadline=DEADLINE)
    if plain.code:
        said.append("it does not run: " + last_line(plain))
    elif checked.stdout != plain.stdout:
        said.append("a check changes what it prints")
    return Alarm(path.stem, len(findings), said, plain.code == 0)


def table(outcomes: list[Outcome], alarms: list[Alarm]) -> Iterator[str]:
    yield f"{'program':40} mistakes found blamed fixed extra-edits literals extra-findings"
    for o in outcomes:
        yield (
            f"{o.name[:40]:40} {o.mistakes:8} {o.found:5} {o.blamed:6} {'yes' if o.fixed else 'NO':>5} "
            f"{o.extra_edits or '':>11} {o.literals or '':>8} {o.extra_findings or '':>14}"
        )
        yield from (f"    {line}" for line in o.said)
    for alarm in alarms:
        if alarm.said:
            yield f"{alarm.name} (right): {alarm.findings} findings"
            yield from (f"    {line}" for line in alarm.said)
    mistakes, programs = sum(o.mistakes for o in outcomes), len(outcomes)

    def share(word: str, count: int, total: int) -> str:
        return f"{word} {count} of {total} ({100 * count / (total or 1):.1f} %)"

    yield share("mistakes found:", sum(o.found for o in outcomes), mistakes)
    yield share("mistakes blamed on a marked line:", sum(o.blamed for o in outcomes), mistakes)
    yield share("programs fixed:", sum(o.fixed for o in outcomes), programs)
    yield f"edits that were not needed: {sum(o.extra_edits for o in outcomes)}"
    yield f"literals where the program has a name: {sum(o.literals for o in outcomes)}"
    yield f"findings beyond the mistakes: {sum(o.extra_findings for o in outcomes)}"
    yield f"right programs: {len(alarms)}, false alarms: {sum(alarm.findings for alarm in alarms)}"
    untrue = [each.name for each in (*outcomes, *alarms) if not each.is_true]
    if untrue:
        yield f"programs that are not what they say: {', '.join(untrue)}"


def chosen(folder: Path, names: list[str] | None, part: str) -> list[Path]:
    paths = [path for path in sorted(folder.glob("*.py")) if not names or path.stem in names]
    number, parts = map(int, part.split("/"))
    return paths[number - 1 :: parts]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=PROGRAMS / "unseen", help="has wrong/*.py and right/*.py")
    parser.add_argument("--program", nargs="*", help="only these programs, by name")
    parser.add_argument("--part", metavar="K/N", default="1/1", help="only the K-th of N parts, from 1")
    parser.add_argument("--json", metavar="FILE", help="write every outcome to a file too")
    options = parser.parse_args()
    runner = ForkRunner()
    outcomes = [score_wrong(runner, path) for path in chosen(options.folder / "wrong", options.program, options.part)]
    alarms = [score_right(runner, path) for path in chosen(options.folder / "right", options.program, options.part)]
    runner.close()
    print("\n".join(table(outcomes, alarms)))
    if options.json:
        rows = {"wrong": [asdict(o) for o in outcomes], "right": [asdict(alarm) for alarm in alarms]}
        Path(options.json).write_text(json.dumps(rows, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
