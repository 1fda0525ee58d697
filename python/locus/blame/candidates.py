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
_PLACED_BY_NAME = re.compile(
    r"""(?:\.to\(|device=)\s*(?:\w+\.)*(?:\w*_)?(?:device|dev|gpu)\w*\b(?!\.)""", re.IGNORECASE
)


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
        self._said: list[tuple[EditKind, tuple[str, int], tuple[Fact, ...]]] = []

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

    def say(self, edit: EditKind, place: Location, *facts: Fact) -> None:
        """Says something of the candidates with this kind of edit in a line, also of those that are to come."""
        self._said.append((edit, _line(place), facts))

    def settle(self) -> None:
        """Adds what was said."""
        for edit, line, facts in self._said:
            for each in self._all:
                if each["edit"] == edit and _line(each["at"]) == line:
                    each["facts"] += [fact for fact in facts if fact not in each["facts"]]

    def as_list(self) -> list[Candidate]:
        return self._all


def _line(place: Location) -> tuple[str, int]:
    return place["file"], place["line"]


def _writes_literal(edit: Edit) -> bool:
    """Whether an edit writes a device as a literal, in a file that does not do so itself or has a name for it."""
    if not _LITERAL.search(edit["new"]) or _LITERAL.search(edit["old"]):
        return False
    file = source.load(edit["file"])
    return file is not None and (not file.once(_places_by_literal) or file.once(_places_by_name))


def _places_by_literal(file: source.Source) -> bool:
    return _PLACED_BY_LITERAL.search(file.text) is not None


def _places_by_name(file: source.Source) -> bool:
    return any(not found[0].endswith(".device") for found in _PLACED_BY_NAME.finditer(file.text))
