"""What the marker `locus` of a test says."""

from __future__ import annotations

from typing import TypeVar

import pytest

from locus.process import pages, simulation

POLICIES = ("collect", "raise", "warn", "move")
"""What a marker may ask for."""

Value = TypeVar("Value")


def argument(item: pytest.Item, name: str, default: Value) -> Value:
    """What the nearest marker that speaks of it says."""
    for mark in item.iter_markers("locus"):
        if name in mark.kwargs:
            given: Value = mark.kwargs[name]
            return given
    return default


def ignored_codes(item: pytest.Item) -> list[str]:
    """What is no failure in this test."""
    codes: list[str] = []
    for mark in item.iter_markers("locus"):
        ignore = mark.kwargs.get("ignore", [])
        codes += [ignore] if isinstance(ignore, str) else list(ignore)
    return codes


def check(item: pytest.Item) -> None:
    """A marker that can't be meant is said before any test runs."""

    def refuse(problem: str) -> None:
        raise pytest.UsageError(f"{item.nodeid}: @pytest.mark.locus: {problem}")

    for mark in item.iter_markers("locus"):
        if mark.args:
            refuse(f"takes no positional arguments, got {mark.args!r}. Use policy=, ignore= or devices=.")
        for name, value in mark.kwargs.items():
            if name == "policy":
                if value not in POLICIES:
                    refuse(f"policy={value!r} is not known. Use {' or '.join(map(repr, POLICIES))}.")
            elif name == "ignore":
                for code in [value] if isinstance(value, str) else value:
                    if code not in pages.codes():
                        refuse(f"ignore={code!r} is no code. `locus codes` lists them.")
            elif name == "devices":
                if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= simulation.MAX_DEVICES:
                    refuse(f"devices={value!r} is not a number of devices.")
            else:
                refuse(f"{name}= is not known. Use policy=, ignore= or devices=.")
