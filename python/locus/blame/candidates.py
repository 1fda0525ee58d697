"""The lines that could be edited for one operand, each with what would be done there and the facts that speak for it.

Gathers and never chooses: the engine ranks them by one table of weights (locus/engine/blame/ranking.cc).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from locus.program import source
from locus.program.shapes import Candidate, Edit, Location
from locus.vocabulary import EditKind, Fact

_LITERAL = re.compile(r"""["']cuda(?::\d+)?["']|\.cuda\(\d*\)""")
_PLACED_BY_LITERAL = re.compile(r"""(?:\.to\(|device=)\s*["']cuda|\.cuda\(\d*\)""")


class Cause(NamedTuple):
    """A line to edit, and the edit where it is plain."""

    place: Location
    edit: Edit | None
    text: str = ""
    """The expression there, where it says better what is meant than the tensor's name."""


class Candidates:
    """Those of one operand."""

    def __init__(self) -> None:
        self._all: list[Candidate] = []

    def add(self, edit: EditKind, cause: Cause, facts: Iterable[Fact] = (), distance: int = 0) -> None:
        """Takes one in. One that is there already, from elsewhere, gets the facts as well."""
        said: list[Fact] = list(facts)
        if cause.edit is not None and _writes_literal(cause.edit):
            said.append("literal_device")
        for known in self._all:
            if known["edit"] == edit and known["fix"] == cause.edit and _line(known["at"]) == _line(cause.place):
                known["facts"] += [fact for fact in said if fact not in known["facts"]]
                known["name"] = known["name"] or cause.text
                return
        self._all.append(
            Candidate(edit=edit, at=cause.place, fix=cause.edit, facts=said, distance=distance, name=cause.text)
        )

    def note(self, edit: EditKind, *facts: Fact) -> None:
        """Says something of all candidates with this kind of edit."""
        for each in self._all:
            if each["edit"] == edit:
                each["facts"] += [fact for fact in facts if fact not in each["facts"]]

    def as_list(self) -> list[Candidate]:
        return self._all


def _line(place: Location) -> tuple[str, int]:
    return place["file"], place["line"]


def _writes_literal(edit: Edit) -> bool:
    """Whether an edit writes a device as a literal, in a file that itself places tensors by name."""
    if not _LITERAL.search(edit["new"]) or _LITERAL.search(edit["old"]):
        return False
    file = source.load(edit["file"])
    return file is not None and not file.once(_places_by_literal)


def _places_by_literal(file: source.Source) -> bool:
    return _PLACED_BY_LITERAL.search(file.text) is not None
