"""What a program calls the device of its own rank, and where it writes down a number instead. A fix that several ranks
need is written with such a name: a number is right on one of them only. Reads frames and source; never raises.
"""

from __future__ import annotations

import ast
import sys
from typing import TYPE_CHECKING

import torch

from locus.fixing.own_devices import rank_name
from locus.program import places, source
from locus.program.source import Change

if TYPE_CHECKING:
    from locus.program.shapes import Edit, Location


def index_words(use: Location, index: int) -> str:
    """An expression for the number of this rank's device that is bound at a line of a live frame; "" without one."""
    names = _names(use)
    return rank_name(names, index) or _current(names, index)


def device_words(use: Location, index: int) -> str:
    """An expression for this rank's device that is bound at a line of a live frame; "" where there is none."""
    names = _names(use)
    own = torch.device("cuda", index)
    devices = sorted(name for name, value in names.items() if isinstance(value, torch.device) and value == own)
    if devices:
        return devices[0]
    number = index_words(use, index)
    return f'f"cuda:{{{number}}}"' if number else ""


def rank_words(place: Location, index: int) -> str:
    """`f"cuda:{rank}"`, where a running function of the place's file has a variable for the number of the rank."""
    for frame in places.walk(sys._getframe(1)):
        if frame.f_code.co_filename == place["file"]:
            name = rank_name(frame.f_locals, index)
            if name:
                return f'f"cuda:{{{name}}}"'
    return ""


def _current(names: dict[str, object], index: int) -> str:
    """By way of PyTorch, where the program has chosen the device and the module has a name there."""
    alias = next((name for name, value in names.items() if value is torch), "")
    return f"{alias}.cuda.current_device()" if alias and torch.cuda.current_device() == index else ""


def _names(use: Location) -> dict[str, object]:
    for frame in places.walk(sys._getframe(1)):
        if frame.f_code.co_filename == use["file"] and use["line"] <= (frame.f_lineno or 0) <= use["end_line"]:
            return {**frame.f_globals, **frame.f_locals}
    return {}


def written_down(place: Location, device: str, words: str = '"cuda"') -> tuple[Location, Edit | None] | None:
    """Where a device with its number is written down that a call at a place uses, and the edit that writes these words
    instead; None where it is not found.
    """
    try:
        file = source.load(place["file"])
        statements = file.statements_at(place["line"]) if file is not None else []
        if file is None or not statements:
            return None
        found = _literal(statements[-1], device)
        if found is None:
            used = {each.id for each in ast.walk(statements[-1]) if isinstance(each, ast.Name)}
            bound = [
                node for node in ast.walk(file.tree)
                if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id in used for t in node.targets)
                and _literal(node, device) is not None
            ]  # fmt: skip
            if len(bound) != 1:
                return None
            found = _literal(bound[0], device)
        if found is None:
            return None
        at = places.location(
            file.file, found.lineno, found.end_lineno or found.lineno, found.col_offset, found.end_col_offset or -1, ""
        )
        is_text = isinstance(found.value, str)
        return at, file.edit([Change.replace(found, words)]) if is_text and words else None
    except Exception:
        return None


def _literal(node: ast.AST, device: str) -> ast.Constant | None:
    return next((c for c in ast.walk(node) if isinstance(c, ast.Constant) and c.value == device), None)
