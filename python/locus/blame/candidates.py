"""The lines that could be edited for one operand, each with what would be done there and the facts that speak for it.

Gathers and never chooses: the engine ranks them by one table of weights (locus/engine/blame/ranking.cc).
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from typing import NamedTuple

from locus.fixing import name_scopes
from locus.fixing.said_devices import devices_said
from locus.program import places, source
from locus.program.shapes import Candidate, Edit, Location
from locus.vocabulary import EditKind, Fact

_LITERAL = re.compile(r"""["']cuda(?::\d+)?["']|\.cuda\(\d*\)""")


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
        self._refused: set[EditKind] = set()

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

    def refuse(self, edit: EditKind) -> None:
        """Speaks against all candidates with this kind of edit, also those that are to come."""
        self._refused.add(edit)

    def say(self, edit: EditKind, place: Location, *facts: Fact) -> None:
        """Says something of the candidates with this kind of edit in a line, also of those that are to come."""
        self._said.append((edit, _line(place), facts))

    def settle(self) -> None:
        """Adds what was said."""
        for each in self._all:
            if each["edit"] in self._refused:
                each["facts"].append("host_on_purpose")
        for edit, line, facts in self._said:
            for each in self._all:
                if each["edit"] == edit and _line(each["at"]) == line:
                    each["facts"] += [fact for fact in facts if fact not in each["facts"]]

    def as_list(self) -> list[Candidate]:
        return self._all


def _line(place: Location) -> tuple[str, int]:
    return place["file"], place["line"]


def _writes_literal(edit: Edit) -> bool:
    """Whether an edit writes a device as a literal in a function (or a module's own lines) that has none itself, in a
    file that has names for devices or no literals at all."""
    if not _LITERAL.search(edit["new"]) or _LITERAL.search(edit["old"]):
        return False
    file = source.load(edit["file"])
    around = file.statements_at(edit["line"]) if file is not None else []
    if file is None or not around:
        return False
    placing = file.once(_places_by_literal)
    if placing and not file.once(names_devices):
        return False
    return name_scopes.function_of(file, around[-1]) not in placing


def names_devices(file: source.Source) -> bool:
    """Whether a file says devices by names: `.to(device)`, not `.to(x.device)`."""
    said = devices_said(file.tree)
    return any(
        not isinstance(each, ast.Attribute) or each.attr != "device" or ast.unparse(each) == "self.device"
        for each in said
    )


def _places_by_literal(file: source.Source) -> set[ast.AST]:
    """The functions of a file (and the module) that place tensors by literals: `.to("cuda")`, `.cuda()`."""
    found: set[ast.AST] = set()
    for node in ast.walk(file.tree):
        if isinstance(node, ast.Call):
            given = [keyword.value for keyword in node.keywords if keyword.arg == "device"]
            method = node.func.attr if isinstance(node.func, ast.Attribute) else ""
            given += node.args[:1] if method == "to" else []
            named = [each for each in given if isinstance(each, ast.Constant) and str(each.value).startswith("cuda")]
            if named or (method == "cuda" and not any(isinstance(each, ast.Name) for each in node.args)):
                found.add(name_scopes.function_of(file, node))
    return found


def location_of(file: source.Source, node: ast.AST) -> Location:
    """The LOC of a node; of a compound statement, its first line."""
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    scope = next((a for a in [node, *file.ancestors(node)] if isinstance(a, functions)), None)
    names = [a.name for a in ([scope, *file.ancestors(scope)] if scope is not None else []) if hasattr(a, "name")]
    body, line, last = getattr(node, "body", None), getattr(node, "lineno", 0), getattr(node, "end_lineno", 0)
    end = body[0].lineno - 1 if isinstance(body, list) else last
    columns = (getattr(node, "col_offset", -1), getattr(node, "end_col_offset", -1)) if end == last else (-1, -1)
    return places.location(file.file, line, max(end, line), *columns, ".".join(reversed(names)) or "<module>")
