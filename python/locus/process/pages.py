"""The findings' pages that are installed with the package: the list of codes, each with its page. Needs no PyTorch.

The pages are docs/findings, which tools/make_findings_docs.cc makes from the one list of codes.
"""

from __future__ import annotations

import functools
import pathlib
import re
from typing import NamedTuple

FOLDER = pathlib.Path(__file__).parent.parent / "_pages"
"""Where the pages are."""
_HEADING = re.compile(r"^# (LOC\d+): (.+)$", re.MULTILINE)
_KIND = re.compile(r"^(Error|Warning), reason `([\w-]+)`\.", re.MULTILINE)


class Page(NamedTuple):
    """One code."""

    code: str
    title: str
    severity: str
    reason: str
    text: str
    """The whole page, as Markdown."""


@functools.cache
def codes() -> dict[str, Page]:
    """Every code and its page, in order."""
    found = {}
    for path in sorted(FOLDER.glob("LOC*.md")):
        text = path.read_text(encoding="utf-8")
        heading, kind = _HEADING.search(text), _KIND.search(text)
        if heading and kind:
            found[heading[1]] = Page(heading[1], heading[2], kind[1].lower(), kind[2], text)
    return found
