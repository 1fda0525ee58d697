"""Numbers of the host's that a captured graph was made with: an optimizer's learning rate and the like, and those that
expressions of the program gave to its operators (captured_numbers.py). A replay goes on with them, whatever the program
has changed since.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator

from locus.program import captured_numbers, objects

_current: object | None = None
_kept: weakref.WeakKeyDictionary[object, list[_Group]] = weakref.WeakKeyDictionary()


class _Group:
    """What a group of an optimizer's parameters was stepped with."""

    def __init__(self, optimizer: object, number: int, values: dict[str, object]):
        self.optimizer, self.number = weakref.ref(optimizer), number
        self.values = values


def begin(graph: object) -> None:
    """What is stepped from here on goes into the graph."""
    global _current
    _current = graph
    _kept[graph] = []
    captured_numbers.begin(graph)


def end() -> None:
    """The capture is over."""
    global _current
    _current = None
    captured_numbers.end()


def is_capturing() -> bool:
    return _current is not None


def note_step(optimizer: object) -> None:
    """An optimizer has made a step, in a capture or not."""
    if _current is None or not objects.is_optimizer(optimizer):
        return
    for number, group in enumerate(optimizer.param_groups):
        values = {key: value for key, value in group.items() if _is_number(value)}
        _kept[_current].append(_Group(optimizer, number, values))


def changed(graph: object) -> Iterator[tuple[str, object, object]]:
    """(what, its value in the graph, its value now) of what the program has changed since."""
    for kept in _kept.get(graph, []):
        optimizer = kept.optimizer()
        if optimizer is None or kept.number >= len(getattr(optimizer, "param_groups", [])):
            continue
        group = optimizer.param_groups[kept.number]  # type: ignore[attr-defined]
        for key, value in kept.values.items():
            now = group.get(key)
            if _is_number(now) and now != value:
                yield f"{type(optimizer).__name__}.param_groups[{kept.number}][{key!r}]", value, now
    yield from captured_numbers.changed(graph)


def _is_number(value: object) -> bool:
    if isinstance(value, tuple):
        return bool(value) and all(_is_number(each) for each in value)
    return isinstance(value, (int, float)) and not isinstance(value, bool)
