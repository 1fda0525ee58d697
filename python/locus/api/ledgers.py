"""locus.ledger(): what a part of a program copies between devices, where it waits, how much memory it needs, by line.
no_transfers() and no_syncs() turn that into assertions.
"""

from __future__ import annotations

import collections
import contextlib
import os
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from locus import markup
from locus.api import policies
from locus.errors import LedgerError, UsageError
from locus.program import cells

if TYPE_CHECKING:
    from typing import TypeAlias

    import torch
    from typing_extensions import Self  # part of typing from Python 3.11 on

    from locus._bridge import Bridge
    from locus.program.raw_shapes import MemoryRow

_MAX_LINES = 20


class Transfer(NamedTuple):
    """What one line copied from one device to another."""

    file: str
    line: int
    function: str
    from_: str
    to: str
    count: int  # type: ignore[assignment]  # a tuple has a method of that name
    bytes: int
    note: str
    """ "non_blocking", "non_blocking, not pinned" (it waits all the same), "moved by Locus" (under a policy), or ""."""


class Sync(NamedTuple):
    """Where the host waited for a device."""

    file: str
    line: int
    function: str
    device: str
    kind: str
    """The operator that waits: "item", "nonzero", "copy_", "torch.cuda.synchronize", …"""
    count: int  # type: ignore[assignment]  # a tuple has a method of that name


_Device: TypeAlias = "str | int | torch.device | None"
_Key = tuple[str, int, str, str, str, str]
_Sums = dict[_Key, tuple[int, int]]


class MemoryLine(NamedTuple):
    """What one line had made of the memory that was in use at the peak; file "" is what is older than the ledger."""

    file: str
    line: int
    bytes: int
    count: int  # type: ignore[assignment]  # a tuple has a method of that name


class ledger(contextlib.ContextDecorator):
    """Counts transfers, synchronizations and memory of the process from here to the end of the `with` block.

        with locus.ledger() as ledger:
            train_one_step()
        assert ledger.bytes(to="cpu") < 1_000
        assert not ledger.syncs, str(ledger)
        assert ledger.peak("cuda:0") < 2 << 30

    May be read inside the block too, and nested. All threads count. Devices are named as in PyTorch: "cpu", "cuda" (any
    CUDA device), "cuda:1".

    Raises:
        locus.errors.UsageError: the process has no CUDA devices, neither simulated nor real.
    """

    def __init__(self) -> None:
        self._bridge: Bridge = None  # type: ignore[assignment]  # until it is entered
        self._state: int | None = None
        self._before: tuple[_Sums, _Sums] = ({}, {})
        self._after: tuple[_Sums, _Sums] | None = None
        self._scopes: dict[int, int] = {}
        self._peaks: dict[int, tuple[int, list[MemoryRow]]] = {}

    def _recreate_cm(self) -> Self:
        return type(self)()

    def __enter__(self) -> Self:
        if self._bridge is not None:
            raise UsageError("this ledger was used before. Make a new one: `with locus.ledger() as ledger:`.")
        self._bridge, self._state = policies.begin_recording(f"locus.{type(self).__name__}()")
        self._scopes = {device: self._bridge.open_peak(device) for device in range(_device_count())}
        self._before = _read(self._bridge)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._after = _read(self._bridge)
        self._peaks = {device: self._bridge.peak_of(device, scope) for device, scope in self._scopes.items()}
        for device, scope in self._scopes.items():
            self._bridge.close_peak(device, scope)
        policies.end_recording(self._bridge, self._state)

    @property
    def transfers(self) -> list[Transfer]:
        """Copies between devices by line, the most bytes first."""
        rows = [Transfer(*key[:5], count, size, key[5]) for key, (count, size) in self._since(0)]
        return sorted(rows, key=lambda row: (-row.bytes, row.file, row.line))

    @property
    def syncs(self) -> list[Sync]:
        """Where the host waited, by line, the most often first."""
        rows = [Sync(*key[:4], key[5], count) for key, (count, _) in self._since(1)]
        return sorted(rows, key=lambda row: (-row.count, row.file, row.line))

    def count(self, from_: str | int | torch.device | None = None, to: str | int | torch.device | None = None) -> int:
        """How many copies there were between these devices; None: any."""
        return sum(row.count for row in self._between(from_, to))

    def bytes(self, from_: str | int | torch.device | None = None, to: str | int | torch.device | None = None) -> int:
        """How many bytes were copied between these devices; None: any."""
        return sum(row.bytes for row in self._between(from_, to))

    def sync_count(self) -> int:
        """How often the host waited."""
        return sum(row.count for row in self.syncs)

    def peak(self, device: str | int | torch.device = "cuda:0") -> int:
        """The most bytes that were allocated on a device at one time."""
        return self._peak(device)[0]

    def memory(self, device: str | int | torch.device = "cuda:0") -> list[MemoryLine]:
        """The lines that had made what was allocated at the peak, largest first."""
        total, lines = self._peak(device)
        rows = [MemoryLine(each["file"], each["line"], each["bytes"], each["count"]) for each in lines]
        older = total - sum(row.bytes for row in rows)
        return rows + ([MemoryLine("", 0, older, 0)] if older > 0 else [])

    def __str__(self) -> str:
        text = _transfer_lines(self.transfers) + _sync_lines(self.syncs)
        return "\n".join(text) if text else "no transfers and no synchronizations"

    def _repr_html_(self) -> str:
        """In a notebook."""
        return markup.colored(str(self))

    def __repr__(self) -> str:
        if self._bridge is None:
            return f"<{type(self).__name__}: not begun>"
        transfers = _counted(self.count(), "transfer")
        return f"<{type(self).__name__}: {transfers} ({self.bytes()} bytes), {_counted(self.sync_count(), 'sync')}>"

    def _between(self, from_: _Device, to: _Device) -> list[Transfer]:
        wanted = _device_name(from_), _device_name(to)
        return [row for row in self.transfers if _is_one(row.from_, wanted[0]) and _is_one(row.to, wanted[1])]

    def _since(self, which: int) -> list[tuple[_Key, tuple[int, int]]]:
        if self._bridge is None:
            raise UsageError("this ledger has not begun. Use it in a `with` block.")
        now = self._after if self._after is not None else _read(self._bridge)
        found = []
        for key, (count, size) in now[which].items():
            old_count, old_size = self._before[which].get(key, (0, 0))
            if count > old_count:
                found.append((key, (count - old_count, size - old_size)))
        return found

    def _peak(self, device: str | int | torch.device) -> tuple[int, list[MemoryRow]]:
        if self._bridge is None:
            raise UsageError("this ledger has not begun. Use it in a `with` block.")
        name = _device_name(device) or ""
        named = int(name.partition(":")[2]) if name.startswith("cuda:") else -1
        number = _current_device() if name == "cuda" else named
        if number not in self._scopes:
            known = ", ".join(f'"cuda:{each}"' for each in self._scopes)
            raise UsageError(f"peak memory of {device!r} is not known. Use one of {known}.")
        if number in self._peaks:
            return self._peaks[number]
        return self._bridge.peak_of(number, self._scopes[number])


class no_transfers(ledger):
    """Asserts that nothing is copied between devices in a `with` block or a decorated function.

    Args:
        from_, to: only copies between these devices count, such as to="cpu"; None: any.

    Raises:
        locus.errors.LedgerError: at the end of the block, an AssertionError that names each line.
    """

    def __init__(self, from_: str | int | torch.device | None = None, to: str | int | torch.device | None = None):
        super().__init__()
        self.from_, self.to = _device_name(from_), _device_name(to)

    def _recreate_cm(self) -> Self:
        return type(self)(self.from_, self.to)

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        super().__exit__(kind, *rest)
        rows = self._between(self.from_, self.to)
        if kind is None and rows:
            named = [f"{word} {device}" for word, device in (("from", self.from_), ("to", self.to)) if device]
            total = sum(row.count for row in rows)
            what = " ".join([_counted(total, "transfer"), *named])
            were = "was" if total == 1 else "were"
            lines = [f"expected no transfers here, but there {were} {what}:", *_transfer_lines(rows)]
            raise LedgerError("\n".join(lines))


class no_syncs(ledger):
    """Asserts that the host waits for no device in a `with` block or a decorated function.

    Raises:
        locus.errors.LedgerError: at the end of the block, an AssertionError that names each line.
    """

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        super().__exit__(kind, *rest)
        if kind is None and self.syncs:
            total = self.sync_count()
            times = "once" if total == 1 else f"{total} times"
            lines = [f"expected no synchronizations here, but the host waited {times}:", *_sync_lines(self.syncs)]
            raise LedgerError("\n".join(lines))


# What a person calls the operators that wait.
_WORDS = {"_local_scalar_dense": "item", "is_nonzero": "item"}


def _read(bridge: Bridge) -> tuple[_Sums, _Sums]:
    """(transfers, synchronizations) so far: (count, bytes) by line, devices and kind."""
    both = []
    for entries in (bridge.transfers(), bridge.synchronizations()):
        sums: dict[_Key, list[int]] = collections.defaultdict(lambda: [0, 0])
        for entry in entries:
            kind = entry["kind"].removeprefix("aten::").partition(".")[0]
            place = entry["file"], entry["line"], entry["function"]
            key = (*place, entry["from"], entry["to"], _WORDS.get(kind, kind))
            sums[key][0] += entry["count"]
            sums[key][1] += entry["bytes"]
        both.append({key: (count, size) for key, (count, size) in sums.items()})
    return both[0], both[1]


def _device_name(device: _Device) -> str | None:
    if device is None:
        return None
    name = f"cuda:{device}" if isinstance(device, int) and not isinstance(device, bool) else str(device)
    kind, _, number = name.partition(":")
    if kind not in ("cpu", "cuda") or (number and not number.isdecimal()):
        raise UsageError(f'{device!r} is not a device of a ledger. Use "cpu", "cuda" or one such as "cuda:0".')
    return kind if kind == "cpu" else name


def _is_one(device: str, wanted: str | None) -> bool:
    return wanted is None or device == wanted or (wanted == "cuda" and device.startswith("cuda"))


def _device_count() -> int:
    import torch

    return torch.cuda.device_count()


def _current_device() -> int:
    import torch

    return torch.cuda.current_device()


def _place(row: Transfer | Sync | MemoryLine) -> str:
    if not row.file:
        return "(no line of the program)"
    if cells.is_cell(row.file):
        return f"{cells.shown(row.file)}:{row.line}"
    path = os.path.relpath(row.file) if os.path.isabs(row.file) else row.file
    return f"{row.file if path.startswith('..') else path}:{row.line}"


def _transfer_lines(rows: list[Transfer]) -> list[str]:
    lines = [
        f"  {_place(row)}  {row.from_} -> {row.to}  {_counted(row.count, 'time')}, {row.bytes} bytes"
        + (f" ({row.note})" if row.note else "")
        for row in rows[:_MAX_LINES]
    ]
    return lines + ([f"  … and {len(rows) - _MAX_LINES} more lines"] if len(rows) > _MAX_LINES else [])


def _sync_lines(rows: list[Sync]) -> list[str]:
    lines = [
        f"  {_place(row)}  waits for {row.device}  {_counted(row.count, 'time')} ({row.kind})"
        for row in rows[:_MAX_LINES]
    ]
    return lines + ([f"  … and {len(rows) - _MAX_LINES} more lines"] if len(rows) > _MAX_LINES else [])


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"
