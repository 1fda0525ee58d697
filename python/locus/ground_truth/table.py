"""A table of ground truth as a file: JSON, gzipped where its name ends in .gz, one sample a line.

Read with care: a file may be missing, be something else, be cut off, or come from a later version of Locus.
"""

from __future__ import annotations

import gzip
import json
import os
import re
import zlib
from collections.abc import Iterable
from typing import Any, NamedTuple

from locus.errors import UsageError

VERSION = 1
_MARK = "locus_ground_truth"
NEVER_CAME_BACK = ("Ended", "Stopped")
"""Outcomes of cases that ended their process, or that were stopped because they took too long."""


class Key(NamedTuple):
    """What a case is known by."""

    kind: str
    name: str
    variant: str
    dtype: str
    sample: int
    operand: int
    moved: str

    def __str__(self) -> str:
        entry = f"{self.name}.{self.variant}" if self.variant else self.name
        operand = f"operand {self.operand} " if self.operand >= 0 else ""
        return f"{self.kind} {entry} {self.dtype} sample {self.sample} {operand}{self.moved}"


class Said(NamedTuple):
    """What PyTorch said: "ok" and the devices of the results, or the exception's type and its first line."""

    outcome: str
    detail: str

    def __str__(self) -> str:
        return self.detail if self.outcome == "ok" else f"{self.outcome}: {self.detail}"


class Row(NamedTuple):
    """One case and what came of it."""

    key: Key
    shapes: str
    """Of the call's tensors, 2x3/4/. ; or where only their dimensions are known, 2d/1d/0d"""
    said: Said


class Table(NamedTuple):
    """What was said, and where: about["torch"], about["device"], …"""

    about: dict[str, Any]
    rows: dict[Key, Row]

    @property
    def title(self) -> str:
        return f"{self.about.get('device', 'unknown device')}, PyTorch {self.about.get('torch', 'unknown')}"


def write(table: Table, path: str) -> None:
    """Writes a table; the file is there whole or not at all."""
    outcomes: dict[Said, int] = {}
    samples: dict[tuple[object, ...], list[list[object]]] = {}
    for row in table.rows.values():
        number = outcomes.setdefault(row.said, len(outcomes))
        samples.setdefault((*row.key[:5], row.shapes), []).append([row.key.operand, row.key.moved, number])
    lines = [f'{{"{_MARK}": {VERSION}, "about": {json.dumps(table.about)},', '"outcomes": [']
    lines += _listed(json.dumps(said) for said in outcomes)
    lines += ["],", '"samples": [']
    lines += _listed(json.dumps([*key, cases], separators=(",", ":")) for key, cases in samples.items())
    lines += ["]}", ""]
    text = "\n".join(lines).encode()
    part = f"{path}.new"
    with open(part, "wb") as file:
        # Without a date in it, equal tables are equal files.
        file.write(gzip.compress(text, 9, mtime=0) if path.endswith(".gz") else text)
    os.replace(part, path)


def _listed(items: Iterable[str]) -> list[str]:
    items = list(items)
    return [item + "," for item in items[:-1]] + items[-1:]


def read(path: str) -> Table:
    """The table in a file; a UsageError that names it where there is none."""
    way_out = "Take one with `python -m locus.ground_truth --out FILE` on a machine with a GPU."
    try:
        with open(path, "rb") as file:
            data = file.read()
        if data[:2] == b"\x1f\x8b":
            data = gzip.decompress(data)
    except FileNotFoundError:
        raise UsageError(f"{path}: there is no such file. {way_out}") from None
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise UsageError(f"{path}: the file is damaged or cut off ({error}). Copy or take it again.") from None
    except OSError as error:
        raise UsageError(f"{path}: can't be read ({error.strerror}).") from None
    try:
        document = json.loads(data)
    except ValueError as error:
        begun = data.lstrip()[:40].startswith(f'{{"{_MARK}"'.encode())
        what = "the table is damaged or cut off" if begun else "this is no table of ground truth"
        then = "Copy or take it again." if begun else way_out
        raise UsageError(f"{path}: {what} (not JSON: {error}). {then}") from None
    if not isinstance(document, dict) or _MARK not in document:
        raise UsageError(f"{path}: this is no table of ground truth: it has no {_MARK!r}. {way_out}")
    if document[_MARK] != VERSION:
        raise UsageError(
            f"{path}: this table has version {document[_MARK]!r}; this Locus reads version {VERSION}. "
            "Use the Locus that took it, or take it again."
        )
    try:
        return Table(dict(document["about"]), _rows(document))
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise UsageError(
            f"{path}: the table is damaged ({type(error).__name__}: {error}). Copy or take it again."
        ) from None


def _rows(document: dict[str, Any]) -> dict[Key, Row]:
    outcomes = [Said(str(outcome), str(detail)) for outcome, detail in document["outcomes"]]
    rows = {}
    for kind, name, variant, dtype, sample, shapes, cases in document["samples"]:
        for operand, moved, number in cases:
            if not 0 <= number < len(outcomes):
                raise ValueError(f"there is no outcome {number}")
            key = Key(kind, name, variant, dtype, int(sample), int(operand), moved)
            rows[key] = Row(key, shapes, outcomes[number])
    return rows


def same_shapes(one: str, other: str) -> bool:
    """Whether two cases with the same key have the same tensors, as far as is known of them."""
    if one == other:
        return True
    if _ONLY_DIMENSIONS.fullmatch(one):
        one, other = other, one
    return _ONLY_DIMENSIONS.fullmatch(other) is not None and _dimensions(one) == other


_ONLY_DIMENSIONS = re.compile(r"\d+d(/\d+d)*")


def _dimensions(shapes: str) -> str:
    return "/".join(f"{0 if shape == '.' else shape.count('x') + 1}d" for shape in shapes.split("/"))
