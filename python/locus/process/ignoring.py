"""Which findings a project has decided to live with: by its settings, or by `# locus: ignore[LOC003] why` in a line.

Decides only; the findings are set aside, and counted, on the C++ side. A comment counts on the lines of the cause and
on the lines of a use.
"""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Iterator
from typing import Any

from locus.process import pages
from locus.process.settings import ALL, Settings
from locus.program import source

_COMMENT = re.compile(r"#[^#]*?\blocus:\s*ignore\b(?:\[(?P<codes>[^\]]*)\])?\s*(?P<reason>[^#]*)")


class Verdict:
    """What is set aside, and what is to be said about the comments themselves."""

    def __init__(self) -> None:
        self.ignored: list[dict[str, str]] = []
        self.notes: list[str] = []


def decide(findings: list[dict[str, Any]], settings: Settings, codes: tuple[str, ...] = ()) -> Verdict:
    """Looks at every finding of a report; `codes` are ignored besides those of the settings."""
    verdict = Verdict()
    for finding in findings:
        kind, by = _by_settings(finding, settings, codes)
        if not by:
            kind, by = "comment", _by_comment(finding, verdict.notes)
        if by:
            verdict.ignored.append({"id": finding["id"], "by": by, "kind": kind})
    return verdict


def _by_settings(finding: dict[str, Any], settings: Settings, codes: tuple[str, ...]) -> tuple[str, str]:
    """(kind of decision, who decided); ("", "") where nobody did."""
    code = finding["code"]
    if code in codes:
        return "options", "this run's options"
    file = finding["cause"]["file"] or (finding["uses"][0]["file"] if finding["uses"] else "")
    given = settings.codes_for(file)
    return ("settings", settings.file) if code in given or ALL in given else ("", "")


def _by_comment(finding: dict[str, Any], notes: list[str]) -> str:
    for place in (finding["cause"], *finding["uses"]):
        for line, codes, reason in _comments(place):
            where = f"{place['file']}:{line}"
            for code in codes:
                if code not in pages.codes():
                    note = f"{where}: `# locus: ignore[{code}]` names no code; `locus codes` lists them"
                    if note not in notes:
                        notes.append(note)
            if not codes:
                note = f"{where}: `# locus: ignore` needs its codes, as in `# locus: ignore[{finding['code']}] why`"
                if note not in notes:
                    notes.append(note)
            if finding["code"] in codes:
                return f"a comment at {where}" + (f": {reason}" if reason else "")
    return ""


def _comments(place: dict[str, Any]) -> Iterator[tuple[int, list[str], str]]:
    """(line, codes, reason) of the comments on the lines of a place's statement."""
    line = place["line"]
    if not line:
        return
    written = comments_in(place["file"])
    if source.load(place["file"]) is None:  # no source any more, but the line that was seen
        written = {line: place.get("text", "")}
    for number in _lines_of_statement(place["file"], line):
        for match in _COMMENT.finditer(written.get(number, "")):
            codes = [code.strip() for code in (match["codes"] or "").split(",") if code.strip()]
            yield number, codes, match["reason"].strip()


def _lines_of_statement(file: str, line: int) -> range:
    loaded = source.load(file)
    statements = loaded.statements_at(line) if loaded is not None else []
    if not statements or hasattr(statements[-1], "body"):  # a block's head: the comment stands on the line itself
        return range(line, line + 1)
    return range(statements[-1].lineno, (statements[-1].end_lineno or line) + 1)


def comments_in(file: str) -> dict[int, str]:
    """The comments of a file that speak to Locus, by line; strings that look like one are none."""
    loaded = source.load(file)
    return loaded.once(_comments_in) if loaded is not None else {}


def _comments_in(loaded: source.Source) -> dict[int, str]:
    found: dict[int, str] = {}
    if "locus:" not in loaded.text:
        return found
    try:
        for token in tokenize.generate_tokens(io.StringIO(loaded.text).readline):
            if token.type == tokenize.COMMENT and "locus:" in token.string:
                found[token.start[0]] = token.string
    except (tokenize.TokenError, SyntaxError):
        pass  # what was read so far still counts
    return found
