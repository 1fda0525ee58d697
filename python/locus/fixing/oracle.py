"""What a program should print: a check repairs every mistake, so what the checked program printed is what the fixed one
prints. Compared line by line, without what may differ between two right runs.

Knows texts; nothing of runs.
"""

from __future__ import annotations

import re

_OF_TENSORS = re.compile(r",\s*(?:device='[^']*'|grad_fn=<\w+>)")
"""Parts of a tensor's text that say where it is and how it got there; they may stand on a line of their own."""
_DEVICE = re.compile(r"\b(?:cuda(?::\d+)?|cpu)\b")
_NUMBER = r"\d+(?:[.,]\d+)*(?:e[-+]?\d+)?"
_MEASURED = re.compile(
    rf"0x[0-9a-fA-F]+|{_NUMBER}\s?(?:[numµ]?s|secs?|seconds?|minutes?|[kKMGT]i?B|bytes|\w+/s(?:ec)?)(?![\w/])"
)
"""Addresses, times, speeds and sizes of memory."""
_AFTER_WORD = re.compile(
    rf"(\b(?:took|time|elapsed|duration|seconds|speed|throughput)\b\W{{0,4}}){_NUMBER}", re.IGNORECASE
)
_ABOUT_MEMORY = re.compile(r"\b(?:memory|allocated|reserved)\b", re.IGNORECASE)
_ANY_NUMBER = re.compile(_NUMBER)


def lines(printed: str) -> list[str]:
    """The lines of an output, fit for comparing: without times, addresses and sizes of memory."""
    text = _OF_TENSORS.sub("", printed.replace("\r\n", "\n"))
    return [_comparable(line) for line in text.split("\n")]


def _comparable(line: str) -> str:
    line = _AFTER_WORD.sub(r"\1#", _MEASURED.sub("#", line))
    return (_ANY_NUMBER.sub("#", line) if _ABOUT_MEMORY.search(line) else line).strip()


def are_alike(got: str, wanted: str) -> bool:
    """Whether two lines say the same. What a check had to leave on the CPU may be on a device once it is fixed; what
    was on a card stays on that card."""
    if got == wanted:
        return True
    if _DEVICE.sub("device", got) != _DEVICE.sub("device", wanted):
        return False
    pairs = zip(_DEVICE.findall(got), _DEVICE.findall(wanted))
    return all(one in (other, f"{other}:0") or other in ("cpu", f"{one}:0") for one, other in pairs)


class Expected:
    """The output that a program should have."""

    def __init__(self, printed: str, is_part: bool = False):
        """is_part: the program had ended with an error; one that is fixed may print more."""
        self._lines, self._is_part = lines(printed), is_part
        self._unsteady: set[int] = set()

    def learn(self, printed: str) -> bool:
        """Takes in what an equal run has printed: lines that differ there say nothing. False where nothing does."""
        again = lines(printed)
        if len(again) != len(self._lines):
            return False
        pairs = enumerate(zip(again, self._lines, strict=True))
        self._unsteady |= {n for n, pair in pairs if not are_alike(*pair)}
        return True

    def is_met(self, printed: str, was_stopped: bool) -> bool:
        """Whether an output is as it should be. was_stopped: after some steps, so that the rest is missing."""
        got, wanted = lines(printed), self._lines
        if was_stopped:
            got, wanted = got[:-1], wanted[: len(got) - 1]  # the last line may not be a whole one
        elif self._is_part:
            wanted = wanted[:-1]
            got = got[: len(wanted)]
        if len(got) != len(wanted):
            return False
        return all(n in self._unsteady or are_alike(*pair) for n, pair in enumerate(zip(got, wanted, strict=True)))
