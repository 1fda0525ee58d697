"""What each rank has called, where every other rank of its job can read it: a file of fixed size for each of them.

A slot holds one call, found by group (or by sender and receiver) and sequence number, so that comparing a call with
another rank's costs one look. The file outlives its process, however that ends.
"""

from __future__ import annotations

import json
import mmap
import os
import struct
import time
import zlib
from typing import Any, NamedTuple

from locus import scratch

_SLOTS, _SLOT, _GROUPS = 1024, 512, 256
_HEADER = 256 + _GROUPS * 16
_HEAD = struct.Struct("<4sIiiIdQQ")  # magic, pid, rank, world, state, waiting since, waiting group, waiting number
_KEYS = struct.Struct("<QQH")
_LAST = struct.Struct("<QQ")  # a group, its highest number
_MAGIC = b"LOC1"
_ARROW, _CHANNELS = "\t", 1 << 40
_ENDING = ".calls"

RUNNING, ENDED = 0, 1
_PLACE = ("file", "line", "column", "end_line", "end_column", "function")


class Call(NamedTuple):
    """One collective as a rank made it."""

    group: str
    sequence: int
    name: str
    shape: tuple[int, ...]
    dtype: str
    elements: int
    root: int
    reduction: str
    place: dict[str, Any]

    def key(self) -> int:
        return group_key(self.group)

    def is_message(self) -> bool:
        """A send or a recv: `root` is the rank on the other side."""
        return _ARROW in self.group


def channel(group: str, source: int, target: int, tag: int) -> str:
    """The name under which the messages of a group from one rank to another are counted."""
    return f"{group}{_ARROW}{source}>{target}#{tag}"


def group_key(name: str) -> int:
    return zlib.crc32(name.encode()) + 1 + (_CHANNELS if _ARROW in name else 0)


def is_channel(key: int) -> bool:
    return key >= _CHANNELS


def _offset(key: int, number: int) -> int:
    return _HEADER + (key * 31 + number) % _SLOTS * _SLOT


class Flight:
    """One process's file: written by the process itself, read by the others."""

    def __init__(self, path: str, create: bool = False):
        self.path = path
        if create:
            descriptor = scratch.create(path, os.O_RDWR)
        else:
            descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            if create:
                os.ftruncate(descriptor, _HEADER + _SLOTS * _SLOT)
            self.memory = mmap.mmap(descriptor, _HEADER + _SLOTS * _SLOT)
        finally:
            os.close(descriptor)
        if create:
            self.write_header(-1, 0, RUNNING)

    def write_header(
        self, rank: int, world: int, state: int, since: float = 0.0, key: int = 0, number: int = 0
    ) -> None:
        _HEAD.pack_into(self.memory, 0, _MAGIC, os.getpid(), rank, world, state, since, key, number)

    def header(self) -> tuple[int, int, int, int, float, int, int]:
        """pid, rank, world, state, waiting since (0.0: not), for which group, for which number."""
        return _HEAD.unpack_from(self.memory, 0)[1:]

    def write(self, call: Call) -> None:
        text = json.dumps([call.group, call.name, call.shape, call.dtype, call.elements, call.root, call.reduction,
                           [call.place[field] for field in _PLACE]]).encode()  # fmt: skip
        key = group_key(call.group)
        at = _offset(key, call.sequence)
        if len(text) > _SLOT - _KEYS.size:
            text = b""
        self.memory[at + _KEYS.size : at + _KEYS.size + len(text)] = text
        _KEYS.pack_into(self.memory, at, key, call.sequence, len(text))  # last: whoever finds the number finds the text
        place = self._place_of(key)
        if place is not None:
            _LAST.pack_into(self.memory, place, key, call.sequence)

    def _place_of(self, key: int) -> int | None:
        """Where a group's highest number is kept; None when there are more groups than places."""
        for step in range(_GROUPS):
            place = 256 + (key + step) % _GROUPS * _LAST.size
            if _LAST.unpack_from(self.memory, place)[0] in (0, key):
                return place
        return None

    def read(self, key: int, number: int) -> Call | None:
        """The call with that number in a group, where the rank has made it and not many more since."""
        at = _offset(key, number)
        found_key, found_number, length = _KEYS.unpack_from(self.memory, at)
        if (found_key, found_number) != (key, number) or not length:
            return None
        try:
            parts = json.loads(self.memory[at + _KEYS.size : at + _KEYS.size + length])
        except ValueError:
            return None
        group, name, shape, dtype, elements, root, reduction, place = parts
        return Call(group, number, name, tuple(shape), dtype, elements, root, reduction,
                    dict(zip(_PLACE, place)))  # fmt: skip

    def has(self, key: int, number: int) -> bool:
        return _KEYS.unpack_from(self.memory, _offset(key, number))[:2] == (key, number)

    def has_come(self, key: int, number: int) -> bool:
        """Whether the rank has made the call with that number, be it long ago."""
        return self.has(key, number) or self._place_of(key) is None or self.last().get(key, 0) >= number

    def last(self) -> dict[int, int]:
        """The highest number of each group."""
        entries = (_LAST.unpack_from(self.memory, 256 + number * _LAST.size) for number in range(_GROUPS))
        return {key: number for key, number in entries if key}


def process_state(pid: int) -> str:
    """ "R", "S", "T" (stopped), "Z" (dead, not buried) or "" (gone)."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return ""


def now() -> float:
    """The same clock in all processes of the machine."""
    return time.clock_gettime(time.CLOCK_MONOTONIC)


def file_name(job: str, pid: int) -> str:
    return f"{job}.{pid}{_ENDING}"


def jobs(folder: str) -> list[str]:
    """Every set of ranks that has met in a check: a program may start several, one after the other."""
    names = os.listdir(folder) if os.path.isdir(folder) else []
    return sorted({name.removesuffix(_ENDING).rpartition(".")[0] for name in names if name.endswith(_ENDING)})


def all_flights(folder: str, job: str) -> dict[int, Flight]:
    """The files of all ranks of a job, by rank."""
    found: dict[int, Flight] = {}
    for name in sorted(os.listdir(folder) if os.path.isdir(folder) else []):
        if name.startswith(f"{job}.") and name.endswith(_ENDING):
            try:
                flight = Flight(os.path.join(folder, name))
            except (OSError, ValueError):
                continue
            rank = flight.header()[1]
            if rank >= 0:
                found[rank] = flight
    return found
