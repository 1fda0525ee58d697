"""A finding and the edits that could fix it: which there are, in which order, and which may rest on others."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field

from locus.fixing import patches
from locus.fixing.patches import Edit
from locus.fixing.rerun import Finding, Fix
from locus.program import source

_FOLLOWS = re.compile(r"\.device\b|_like\(|\.new_\w+\(")
"""What makes a tensor where another one is: once that one is right, this one may be, too."""


@dataclass(eq=False)
class Attempt:
    """A finding and the edits that could fix it, best first."""

    finding: Finding
    edits: list[Edit]
    layer: int = 0
    """0: of the first run; n: it showed when those of n - 1 were fixed."""
    why: str = ""
    """Why there is no verified edit."""
    verified: bool = False
    touched: list[tuple[str, int]] = field(default_factory=list)
    """The lines (of the files as they were) that its edits change."""
    rejected: list[Edit] = field(default_factory=list)

    @property
    def edit(self) -> Edit | None:
        return self.edits[0] if self.edits else None

    @property
    def prints_else(self) -> bool:
        """Whether the program rightly prints something else with the edit: its optimizer gets to know layers that it
        did not, numbers come from the generator that was meant, which a check could not use, a graph gets the data that
        is meant for it, or its results are those of each replay."""
        wrong_values = self.finding["reason"] in ("generator", "graph-input-gone", "graph-output-kept")
        return wrong_values or any(edit.kind == "module_list" for edit in self.edits[:1])

    def accept(self) -> None:
        self.verified, self.why = True, ""

    def exchange(self, why: str) -> None:
        """The edit is not right; the next one is to be tried."""
        self.why = why
        self.rejected.append(self.edits.pop(0))

    def take_back(self) -> None:
        """It was not this edit after all."""
        self.why = ""
        self.edits.insert(0, self.rejected.pop())


def merge(attempts: list[Attempt], files: dict[str, patches.Text]) -> tuple[patches.Merged, list[Attempt]]:
    """The first edits of these, made together; those whose edits were made."""
    first: list[Edit] = []
    for attempt in attempts:
        first += [edit for edit in attempt.edits[:1] if edit not in first]
    merged = patches.merge(first, files)
    return merged, [a for a in attempts if a.edit in merged.made]


def may_rest_on(one: Attempt, other: Attempt) -> bool:
    """Whether a finding may be gone with the edit of the other alone: the other's is nearer to the cause, or what this
    one is about was made there, or follows another tensor."""
    if _rank(one) > _rank(other):
        return True
    mine, edit = one.edits[0], other.edits[0]
    steps = [step["at"] for step in one.finding["history"] if step["at"] is not None]
    passes = any(source.path_of(at["file"]) == edit.file and at["line"] in edit.lines for at in steps)
    return (passes and edit.line not in mine.lines) or _FOLLOWS.search(mine.old) is not None


def _rank(attempt: Attempt) -> int:
    """0: a whole model, 1: where one tensor was made or kept, 2: a place where it hurts."""
    return {"model-not-moved": 0, "handoff-missing": 2, "index": 2, "gradient": 2, "other": 2}.get(
        attempt.finding["reason"], 1
    )


def edits(finding: Finding, files: dict[str, patches.Text]) -> list[Edit]:
    """The edits for a finding, in the order of the engine's ranking; none that changes nothing."""
    found: list[Edit] = []
    offered = [(each["fix"], each["edit"]) for each in finding["candidates"]]
    kinds = [(fix, next((kind for other, kind in offered if _is_alike(fix, other)), "")) for fix in finding["fixes"]]
    for fix, kind in [*kinds, *offered]:
        if fix is None:
            continue
        edit = Edit(source.path_of(fix["file"]), fix["line"], fix["old"], fix["new"], fix["note"], kind)
        text = files.get(edit.file)
        if edit not in found and text is not None and text.changes(edit):
            found.append(edit)
    return found


def _is_alike(one: Fix, other: Fix | None) -> bool:
    return other is not None and (one["line"], one["old"], one["new"]) == (other["line"], other["old"], other["new"])


def read_files(findings: list[Finding]) -> dict[str, patches.Text]:
    """The files that the findings' edits are for."""
    files: dict[str, patches.Text] = {}
    fixes = [
        *(fix for f in findings for fix in f["fixes"]),
        *(each["fix"] for f in findings for each in f["candidates"]),
    ]
    for path in {source.path_of(fix["file"]): None for fix in fixes if fix is not None}:
        if not os.path.isfile(path):
            continue
        try:
            files[path] = patches.Text.read(path)
        except (OSError, ValueError, SyntaxError, LookupError):
            continue
    return files
