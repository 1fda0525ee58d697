"""What a check on a real card finds of the races in tests/programs/streams: all that are made by operators."""

from pathlib import Path

from checker import judge
from corpus import programs, read_mistakes

PROGRAMS = programs("streams")
WRONG = [path for path in PROGRAMS if read_mistakes(path.read_text())]
RIGHT = [path for path in PROGRAMS if path not in WRONG]
BY_NO_OPERATOR = {"pinned_memory": {3, 8}}


def each_is_found_once(findings: list[dict], path: Path) -> None:
    """Each marked race that can be seen is a finding at its line with an edit, and nothing else is a finding."""
    said = "\n".join(f"{f['code']} line {f['cause']['line']}: {f['message']}" for f in findings)
    mistakes = read_mistakes(path.read_text())
    unseen = BY_NO_OPERATOR.get(path.stem, set())
    for mistake in mistakes:
        verdict = judge(findings, path, mistake.accepted_lines, mistake.reasons)
        assert verdict.reason == (mistake.number not in unseen), f"mistake {mistake.number}\n{said}"
        assert not verdict.reason or verdict.finding["fixes"], f"no fix: {verdict.finding['message']}"
    assert len(findings) == len(mistakes) - len(unseen), said
