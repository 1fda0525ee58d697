"""What devices held at most, noted by a check and by each of its ranks where `locus memory` asks for it."""

from __future__ import annotations

import glob
import json
import os
import sys
from typing import TYPE_CHECKING, TypedDict

from locus._load import load_bridge

if TYPE_CHECKING:
    from locus._bridge import Report

VARIABLE = "LOCUS_RESERVED_FILE"
"""The file of the first process; a rank adds its number."""


class Line(TypedDict):
    """A line of the program, and what it held at the peak."""

    file: str
    line: int
    text: str
    bytes: int
    category: str


class Category(TypedDict):
    """What memory was for."""

    category: str
    bytes: int


class Module(TypedDict):
    """Whose code took activations."""

    module: str
    bytes: int


class Device(TypedDict):
    """A device in a report, as far as it is read here."""

    peak: int
    by_line: list[Line]
    by_category: list[Category]
    activations_by_module: list[Module]


class Held(TypedDict):
    """What one process held, by device."""

    reserved: dict[str, int]
    memory: dict[str, Device]


def note(report: Report, rank: int | None = None) -> None:
    """Writes down what this process's devices held; the report has it by line and category."""
    path = os.environ.get(VARIABLE)
    if not path or "torch" not in sys.modules:
        return
    bridge = load_bridge()  # not torch.cuda.max_memory_reserved(): the program may have set that back
    reserved = {f"cuda:{i}": bridge.most_reserved(i) for i in range(bridge.devices())}
    held = Held(reserved=reserved, memory=json.loads(report.render("json"))["memory"])
    with open(path if rank is None else f"{path}.{rank}", "w", encoding="utf-8") as file:
        json.dump(held, file)


def read(path: str) -> Held | None:
    """What the first process has noted; None where it has used no device."""
    if not os.path.exists(path):
        return None
    with open(path, encoding="utf-8") as file:
        found: Held = json.load(file)
    return found


def of_ranks(path: str) -> dict[int, Held]:
    """What each rank has noted, by its number; none where there are no ranks."""
    found = {}
    for name in glob.glob(f"{glob.escape(path)}.*"):
        number, held = name.rpartition(".")[2], read(name)
        if number.isdecimal() and held is not None:
            found[int(number)] = held
    return dict(sorted(found.items()))
