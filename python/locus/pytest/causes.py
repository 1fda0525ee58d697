"""Why tests have failed, over all of them: findings by the line to edit, other errors by the line that raised them."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import pytest
    from _pytest._io import TerminalWriter

    from locus.program.shapes import Finding

_SHOWN = 10
_WIDTH = 160


class Cause(NamedTuple):
    """One thing to repair, and the tests that fail because of it."""

    code: str
    """"" for an error that is no finding."""
    place: str
    words: str
    fix: str
    tests: set[str]


class Causes:
    """What is known so far."""

    def __init__(self) -> None:
        self.findings: dict[str, Finding] = {}
        """All of them, by id; their counts are added up."""
        self.outside: list[Finding] = []
        """Those of no test."""
        self._causes: dict[tuple[str, str, str], Cause] = {}
        self._failed: set[str] = set()
        self._explained: set[str] = set()
        self._expected: set[str] = set()

    @property
    def explained(self) -> set[str]:
        """Tests with findings."""
        return self._explained

    def add_expected(self, test: str) -> None:
        """A test that has failed as its mark xfail says: pytest does not count it among the failures."""
        self._expected.add(test)

    def add_finding(self, test: str, finding: Finding) -> None:
        """A finding of a test."""
        self._explained.add(test)
        self._add_finding(finding)
        cause = finding["cause"]
        place = f"{_short(cause['file'])}:{cause['line']}"
        edits = [fix["new"].strip() for fix in finding["fixes"] if fix["new"].strip()]
        fix = f"{edits[0].splitlines()[0].strip()}{' …' if chr(10) in edits[0] else ''}" if edits else ""
        self._add(Cause(finding["code"], place, finding["why"] or finding["message"], fix, set()), test)

    def add_outside(self, findings: list[Finding]) -> None:
        """Findings of no test: of a conftest.py, say."""
        for finding in findings:
            self.outside.append(finding)
            self._add_finding(finding)

    def add_report(self, report: pytest.TestReport) -> None:
        """A test that has failed. What a finding explains is told by the finding."""
        self._failed.add(report.nodeid)
        crash = getattr(report.longrepr, "reprcrash", None)
        if crash is None or getattr(report, "locus_failed", False):
            return
        first = str(crash.message).split("\n", 1)[0]
        # The same but for its numbers, and for where it looked: one missing network is one cause.
        words = re.sub(r"\bhttps?://[^\s'\"]+", "URL", first)
        words = re.sub(r"0x[0-9a-f]+|\d+(\.\d+)?(e[+-]?\d+)?", "N", words)
        self._add(Cause("", f"{_short(str(crash.path))}:{crash.lineno}", words, "", set()), report.nodeid)

    def _add_finding(self, finding: Finding) -> None:
        seen = self.findings.setdefault(finding["id"], finding)
        if seen is not finding:
            seen["count"] += finding["count"]

    def _add(self, cause: Cause, test: str) -> None:
        self._causes.setdefault((cause.code, cause.place, cause.words if not cause.code else ""), cause).tests.add(test)

    def rows(self) -> list[Cause]:
        """What explains most tests first; an error only for tests that have no finding."""
        left = [
            cause if cause.code else cause._replace(tests=cause.tests - self._explained)
            for cause in self._causes.values()
        ]
        by_edit: dict[tuple[str, str], Cause] = {}
        rest = []
        for cause in sorted((cause for cause in left if cause.tests), key=_by_size):
            if not cause.fix:
                rest.append(cause)
                continue
            # What one edit repairs is one cause, whichever code each test met it under; that of most tests is shown.
            first = by_edit.setdefault((cause.place, cause.fix), cause)
            by_edit[cause.place, cause.fix] = first._replace(tests=first.tests | cause.tests)
        return sorted((*by_edit.values(), *rest), key=_by_size)

    def title(self) -> str:
        """ "127 failures, 8 causes"; tests that were expected to fail are counted apart, as pytest does."""
        expected = (self._explained & self._expected) - self._failed
        failed = (self._failed | self._explained) - expected
        words = [_counted(len(failed), "failure")] if failed or not expected else []
        words += [_counted(len(expected), "expected failure")] if expected else []
        return f"{', '.join(words)}, {_counted(len(self.rows()), 'cause')}"

    def lines(self) -> list[tuple[str, dict[str, bool]]]:
        """Lines to write, each with its marks."""
        rows = self.rows()
        width = max((len(_counted(len(row.tests), "test")) for row in rows), default=0)
        lines: list[tuple[str, dict[str, bool]]] = []
        for row in rows[:_SHOWN]:
            head = f"{_counted(len(row.tests), 'test'):>{width}}  {row.code or 'error '}  "
            lines.append((_cut(f"{head}{row.place}  {row.words}"), {"red": True}))
            if row.fix:
                lines.append((_cut(f"{'':{len(head)}}fix: {row.fix}"), {"green": True}))
        if len(rows) > _SHOWN:
            lines.append((f"… and {_counted(len(rows) - _SHOWN, 'more cause')}", {}))
        return lines


class Colored:
    """The text of a failure that findings are, in color where it goes to a terminal; else what it was."""

    def __init__(self, plain: object):
        self._plain = plain

    def __getattr__(self, name: str) -> object:
        return getattr(self._plain, name)

    def __str__(self) -> str:
        return str(self._plain)

    def toterminal(self, writer: TerminalWriter) -> None:
        """What pytest calls."""
        for line in str(self).split("\n"):
            stripped = line.strip(" |")
            marks = {
                "red": line.startswith("error[") or (bool(stripped) and not stripped.strip("^")),
                "yellow": line.startswith("warning["),
                "green": line.lstrip().startswith("= fix:"),
                "bold": line.startswith(("error[", "warning[")),
            }
            writer.line(line, **{name: True for name, on in marks.items() if on})


def in_short(findings: list[Finding]) -> str:
    """For the one line that pytest gives a failed test: the tensor and the line to edit."""
    if not findings:
        return ""
    first = findings[0]
    cause = first["cause"]
    name = first["culprit"]["name"] or first["culprit"]["expression"]
    tensor = f" {name}" if name else ""
    more = f" and {len(findings) - 1} more" if len(findings) > 1 else ""
    return f"{first['code']}{tensor} at {_short(cause['file'])}:{cause['line']}{more}"


def _by_size(cause: Cause) -> tuple[int, str]:
    return -len(cause.tests), cause.place


def _short(file: str) -> str:
    inside = os.path.relpath(file) if os.path.isabs(file) else file
    return file if inside.startswith("..") else inside


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'s' * (number != 1)}"


def _cut(line: str) -> str:
    return line if len(line) <= _WIDTH else line[: _WIDTH - 1] + "…"
