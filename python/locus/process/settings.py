"""The settings of a project: the table [tool.locus] of the nearest pyproject.toml that has one. Needs no PyTorch.

A file that can't be read, a key that is not known and a value that can't be meant are errors that name file and key.
"""

from __future__ import annotations

import functools
import pathlib
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, NoReturn

from locus.errors import UsageError
from locus.process import pages, simulation
from locus.process.cards import CARDS

if TYPE_CHECKING:
    import types


ALL = "ALL"
"""Stands for every code."""

_KEYS = ("devices", "memory", "card", "rng", "ignore", "per-file-ignores", "dry-answers")


class Settings(NamedTuple):
    """What a project has decided; None where it has not."""

    file: str = ""
    devices: int | None = None
    memory: str | int | None = None
    rng: str | None = None
    ignore: tuple[str, ...] = ()
    """Codes that are no failure anywhere."""
    per_file: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """(pattern of paths, codes that are no failure there); what they mean: locus/engine/ignoring.h."""
    card: str | None = None
    dry_answers: tuple[tuple[str, float], ...] = ()
    """("solver.py:31", the value that this line reads in a dry run)."""


def find(folder: str | pathlib.Path = ".") -> Settings:
    """The settings that hold in a folder: those of the nearest pyproject.toml, upwards, with a table [tool.locus]."""
    start = pathlib.Path(folder).resolve()
    for each in (start, *start.parents):
        file = each / "pyproject.toml"
        if file.is_file():
            table = _read(file)
            if table is not None:
                return _check(str(file), table)
    return Settings()


def _read(file: pathlib.Path) -> dict[str, object] | None:
    try:
        text = file.read_bytes().decode("utf-8")
    except OSError as error:
        raise UsageError(f"{file} can't be read: {error.strerror}. Check its permissions.") from None
    except UnicodeDecodeError:
        raise UsageError(f"{file} is not UTF-8, as TOML must be. Save it as UTF-8.") from None
    toml = _toml()
    if toml is None:
        if "tool.locus" not in text:
            return None
        raise UsageError(f"{file}: reading it needs Python 3.11 or newer, or the package tomli. Install tomli.")
    try:
        tool = toml.loads(text).get("tool", {})
    except toml.TOMLDecodeError as error:
        raise UsageError(f"{file} is not valid TOML: {error}. Fix it, or work in another folder.") from None
    table = tool.get("locus") if isinstance(tool, dict) else None
    if table is not None and not isinstance(table, dict):
        raise UsageError(f"{file}: tool.locus is not a table. Write [tool.locus] and its keys below it.")
    return table


def _toml() -> types.ModuleType | None:
    for name in ("tomllib", "tomli", "pip._vendor.tomli"):
        try:
            return __import__(name, fromlist=["loads"])
        except ImportError:
            continue
    return None


def _check(file: str, table: dict[str, object]) -> Settings:
    def refuse(key: str, problem: str) -> NoReturn:
        raise UsageError(f"{file}: tool.locus.{key} {problem}")

    for key in table:
        if key not in _KEYS:
            refuse(key, f"is not known. The keys are {', '.join(_KEYS[:-1])} and {_KEYS[-1]}.")
    devices, memory, rng = table.get("devices"), table.get("memory"), table.get("rng")
    if devices is not None and (
        isinstance(devices, bool) or not isinstance(devices, int) or not 0 <= devices <= simulation.MAX_DEVICES
    ):
        refuse("devices", f"= {devices!r} is not a number of devices, 0 to {simulation.MAX_DEVICES}.")
    if memory is not None and not (isinstance(memory, (str, int)) and simulation.is_memory(memory)):
        refuse("memory", f'= {memory!r} is not a size of memory, such as "80GiB" or "24GB".')
    card = table.get("card")
    if card is not None and not (isinstance(card, str) and card.lower() in CARDS):
        refuse("card", f"= {card!r} is not known. The cards are {', '.join(CARDS)}.")
    if rng is not None and not (isinstance(rng, str) and rng in ("device", "cpu")):
        refuse("rng", f'= {rng!r} is not known. Use "device" or "cpu".')
    ignore = _codes(table.get("ignore", []), lambda problem: refuse("ignore", problem))
    per_file = table.get("per-file-ignores", {})
    if not isinstance(per_file, dict):
        refuse("per-file-ignores", 'is not a table of paths and codes, such as "vendor/**" = ["LOC003"].')
    rules = tuple(
        (pattern, _codes(codes, functools.partial(refuse, f'per-file-ignores."{pattern}"')))
        for pattern, codes in per_file.items()
    )
    answers = table.get("dry-answers", {})
    if not isinstance(answers, dict) or not all(
        isinstance(value, (int, float)) and re.fullmatch(r".+:[1-9]\d*", place) for place, value in answers.items()
    ):
        refuse("dry-answers", 'is not a table of lines and values, such as "solver.py:31" = 0.0.')
    given = tuple((place, float(value)) for place, value in answers.items())
    return Settings(file, devices, memory, rng, ignore, rules, card, given)


def _codes(value: object, refuse: Callable[[str], NoReturn]) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(code, str) for code in value):
        refuse(f'= {value!r} is not a list of codes, such as ["LOC003"].')
    for code in value:
        if code != ALL and code not in pages.codes():
            refuse(f"has {code!r}, which is no code. `locus codes` lists them; {ALL} stands for every one.")
    return tuple(value)
