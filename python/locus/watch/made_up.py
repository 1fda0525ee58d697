"""What a dry run has made up, for those who ask why a program ended as it did. No torch."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from locus.program.end import End
    from locus.program.raw_shapes import MadeUpRow

_FEW = 3


def places(rows: Sequence[MadeUpRow], kinds: tuple[str, ...]) -> list[str]:
    """The lines at which something was made up, "moe.py:20 (nonzero())", in the order of their first time."""
    return [
        shown(row["file"], row["line"]) + (f" ({name})" if (name := _operator(row["operation"])) else "")
        for row in rows
        if row["kind"] in kinds
    ]


def listed(found: list[str]) -> str:
    """The first of them."""
    return ", ".join(found[:_FEW]) + (f" and {len(found) - _FEW} more" if len(found) > _FEW else "")


def before_error(rows: Sequence[MadeUpRow], end: End) -> list[str]:
    """What is said of a program that ended with an error: a run with values may not have come to it."""
    if not end.exit or end.by.startswith("SIG") or end.by.endswith("DryLoopError"):  # the latter has words of its own
        return []
    found = list(reversed(places(rows, ("value", "shape"))))  # the last ones are the nearest to the error
    if not found:
        return []
    error = end.by or f"exit status {end.exit}"
    return [
        f"the program ended with {error} after the dry run had made up what it read at {listed(found)}: with values it "
        "may not come to that. Answer for a line in the settings, [tool.locus.dry-answers], or run without --dry"
    ]


def shown(file: str, line: int) -> str:
    """A line, for people."""
    return f"{os.path.basename(file)}:{line}" if file else "an unknown line"


def _operator(name: str) -> str:
    bare = name.rpartition("::")[2].strip("_2")
    return ".item()" if bare == "local_scalar_dense" else f"{bare}()" if bare else ""
