"""What is known of objects of the program, kept by identity: their own __hash__ and __eq__ are never called, since
those may fail (in a half-built object) or mean something else. An entry goes with its object."""

import weakref
from collections.abc import Iterator
from typing import Generic, TypeVar

Thing = TypeVar("Thing")
Value = TypeVar("Value")


class ByIdentity(Generic[Thing, Value]):
    """A dictionary with weak keys that are compared by `is`. Iterating takes a copy: other threads may add."""

    def __init__(self) -> None:
        self._entries: dict[int, tuple[weakref.ref[Thing], Value]] = {}

    def __setitem__(self, thing: Thing, value: Value) -> None:
        number, entries = id(thing), self._entries

        def forget(gone: weakref.ref[Thing]) -> None:
            entry = entries.get(number)
            if entry is not None and entry[0] is gone:
                entries.pop(number, None)

        entries[number] = (weakref.ref(thing, forget), value)

    def __getitem__(self, thing: object) -> Value:
        entry = self._entries[id(thing)]
        if entry[0]() is not thing:
            raise KeyError(id(thing))
        return entry[1]

    def get(self, thing: object, default: Value | None = None) -> Value | None:
        try:
            return self[thing]
        except KeyError:
            return default

    def pop(self, thing: object, default: Value | None = None) -> Value | None:
        found = self.get(thing, default)
        self._entries.pop(id(thing), None)
        return found

    def items(self) -> list[tuple[Thing, Value]]:
        alive = [(reference(), value) for reference, value in list(self._entries.values())]
        return [(thing, value) for thing, value in alive if thing is not None]

    def keys(self) -> list[Thing]:
        return [thing for thing, _ in self.items()]

    def values(self) -> list[Value]:
        return [value for _, value in self.items()]

    def __contains__(self, thing: object) -> bool:
        entry = self._entries.get(id(thing))
        return entry is not None and entry[0]() is thing

    def __iter__(self) -> Iterator[Thing]:
        return iter(self.keys())

    def __len__(self) -> int:
        return len(self.items())
