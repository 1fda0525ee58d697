"""The texts of files that are read as edited, in the runs that `locus fix` makes; the files on disk stay as they are.

Only keeps them: locus.process.overlay serves them to Python.
"""

from __future__ import annotations

import os

_texts: dict[str, bytes] = {}


def add(texts: dict[str, bytes]) -> None:
    """These texts, by absolute path, are the files' own from here on."""
    _texts.update(texts)


def text_of(path: str) -> bytes | None:
    """The edited text of a file; None where it is not edited."""
    return _texts.get(os.path.abspath(path)) if _texts else None
