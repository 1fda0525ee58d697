"""An error and those behind it, each once. Which are behind one, the caller says. Knows nothing of devices."""

from __future__ import annotations

from collections.abc import Callable, Iterable

_MOST = 32


def walk(error: BaseException, behind: Callable[[BaseException], Iterable[object]]) -> list[BaseException]:
    """The error first, then what is behind it, nearest first; what is no error is left out."""
    found: list[BaseException] = []
    waiting = [error]
    while waiting and len(found) < _MOST:
        one = waiting.pop(0)
        if any(one is known for known in found):
            continue
        found.append(one)
        waiting += [each for each in behind(one) if isinstance(each, BaseException)]
    return found
