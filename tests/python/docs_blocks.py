"""The blocks of the documentation: which there are, how each says that it is to be run.

The line before a block is its mark:

    <!-- run -->                         runs it; `<!-- run: 1 -->` says with which exit code (of the last command)
    <!-- transcript: locus … -->         what that prints; `| CODE …` leaves other findings out, `| only CODE …` all
                                         but these
    <!-- file: NAME -->                  a file that the page speaks of
    <!-- no run: why -->                 can't be run here
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(
    [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]
    + [page for folder in (".", "how-to", "reference") for page in (DOCS / folder).glob("*.md")]
)
FINDINGS = sorted((DOCS / "findings").glob("LOC*.md"))
MARKS = ("run", "transcript", "file", "no run")
_FENCE = re.compile(r"^```(?P<language>\w*)\n(?P<text>.*?)^```$", re.M | re.S)
_MARK = re.compile(rf"<!-- (?P<mark>{'|'.join(MARKS)})(?:: (?P<detail>[^>]+?))? -->\n\Z")


class Block(NamedTuple):
    page: Path
    line: int
    language: str
    mark: str
    """"" where it has none."""
    detail: str
    text: str

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def blocks(page: Path) -> list[Block]:
    """All fenced blocks of a page, in order."""
    text = page.read_text(encoding="utf-8")
    found = []
    for match in _FENCE.finditer(text):
        before = text[: match.start()]
        mark = _MARK.search(before)
        found.append(
            Block(
                page,
                before.count("\n") + 1,
                match["language"],
                mark["mark"] if mark else "",
                (mark["detail"] or "") if mark else "",
                match["text"],
            )
        )
    return found
