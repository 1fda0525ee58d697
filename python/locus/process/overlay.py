"""Serves edited texts under the paths of the files that they are edits of: imports, `python -m`, tracebacks and Locus's
own reading of sources see the edited text; the files on disk stay as they are.

For the second run of `locus fix`. Processes that the program starts inherit it by the environment.
"""

from __future__ import annotations

import base64
import functools
import importlib.machinery
import io
import json
import linecache
import os
import runpy
import tokenize
from typing import TYPE_CHECKING

from locus import scratch
from locus.program import edited_texts
from locus.program.edited_texts import text_of

if TYPE_CHECKING:
    import types
    from importlib.machinery import SourceFileLoader


VARIABLE = "LOCUS_OVERLAY"
"""Names a file with the texts, for child processes."""

_installed = False


def install(texts: dict[str, bytes]) -> None:
    """Serves these texts, by absolute path, from here on in this process."""
    global _installed
    edited_texts.add(texts)
    for path, raw in texts.items():
        encoding, _ = tokenize.detect_encoding(io.BytesIO(raw).readline)
        lines = io.TextIOWrapper(io.BytesIO(raw), encoding).readlines()
        linecache.cache[path] = (len(raw), None, lines, path)  # without a time: never compared with the disk
    if _installed:
        return
    _installed = True
    _serve_imports()
    _serve_scripts()


def save(texts: dict[str, bytes], file: str) -> None:
    """Writes the texts to a file that install_saved() reads."""
    scratch.write(file, json.dumps({path: base64.b85encode(raw).decode("ascii") for path, raw in texts.items()}))


def install_saved(file: str) -> None:
    """Serves the texts that save() has written."""
    install({path: base64.b85decode(text) for path, text in json.loads(scratch.read(file)).items()})


def _serve_imports() -> None:
    loader = importlib.machinery.SourceFileLoader
    get_code, get_data = loader.get_code, loader.get_data

    @functools.wraps(get_code)
    def code(self: SourceFileLoader, fullname: str) -> types.CodeType | None:
        raw = text_of(self.get_filename(fullname))
        # Not by way of the original, which would take the byte code of the text on disk.
        return get_code(self, fullname) if raw is None else self.source_to_code(raw, self.get_filename(fullname))

    @functools.wraps(get_data)
    def data(self: SourceFileLoader, path: str) -> bytes:
        raw = text_of(path)
        return get_data(self, path) if raw is None else raw

    loader.get_code, loader.get_data = code, data  # type: ignore[assignment]


def _serve_scripts() -> None:
    """What multiprocessing's "spawn" runs in its children."""
    original = runpy._get_code_from_file  # type: ignore[attr-defined]

    @functools.wraps(original)
    def from_file(*arguments: str) -> object:
        raw = text_of(os.fsdecode(arguments[-1]))
        if raw is None:
            return original(*arguments)
        code = compile(raw, os.fsdecode(arguments[-1]), "exec", dont_inherit=True)
        return (code, arguments[-1]) if len(arguments) > 1 else code  # older Pythons have two

    runpy._get_code_from_file = from_file  # type: ignore[attr-defined]
