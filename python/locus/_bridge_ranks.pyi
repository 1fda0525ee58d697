"""Types of the C++ side: what it has of ranks and their groups. Part of _bridge.pyi, at the same names."""

from collections.abc import Callable, Mapping, Sequence

import torch
from torch.distributed.distributed_c10d import Backend, Store

from locus.program.shapes import Location

# Those that run without the rest of their world: locus/bridge/dry/ranks.h
class LoneGroup(Backend):
    """A process group of which only this rank is sure to run."""

    def __init__(self, store: Store, rank: int, size: int, *_: object, **__: object) -> None: ...

class LoneStore(Store):
    """A store that waits for nobody."""

    def __init__(self, *_: object, **__: object) -> None: ...

def begin_alone(
    folder: str, rank: int, running: Sequence[int], open: bool, members: Callable[[str], list[int]], /
) -> None: ...
def keep_journal() -> None: ...
def journal_text(rank: int, world: int, cut: bool, groups: Mapping[str, tuple[str, list[int]]], /) -> str: ...
def note_other_ranks() -> None: ...
def taken_as_same() -> list[tuple[str, int, int]]: ...
def say_rank_ended(folder: str, rank: int, /) -> None: ...
def rank_waits_for(folder: str, rank: int, /) -> int: ...

# locus/bridge/ranks.cc
class RankCall:
    """A call of a process group, on its way to the comparison."""

    @property
    def group(self) -> str: ...
    @property
    def size(self) -> int: ...

class Meeting:
    """This process among the ranks of a job: locus/engine/ranks/parting.h."""

    def __init__(
        self, folder: str, job: str, rank: int, world: int, setting_of: Callable[[Sequence[Location]], str]
    ) -> None: ...
    def hear(
        self, call: RankCall, members: Sequence[int], is_known: bool, places: Sequence[Location],
        feed: tuple[int, int, int, str] | None, line_text: Callable[[str, int], str], /,
    ) -> str | None: ...  # fmt: skip
    def look(
        self,
        groups: Sequence[tuple[str, Sequence[int], Sequence[int], Sequence[int]]],
        in_backward: bool,
        line_text: Callable[[str, int], str],
        /,
    ) -> tuple[str, str] | None: ...
    def end(self) -> None: ...

# Together: locus/bridge/ranks.cc
def judge_ranks(
    folder: str,
    fates: Mapping[int, tuple[int, str, str]],
    line_text: Callable[[str, int], str],
    setting_of: Callable[[Sequence[Location]], str],
    /,
) -> None: ...
def take_in_processes(reports: Mapping[str, str | bytes], passes: Mapping[str, str | bytes], /) -> list[str]: ...
def compare_journals(
    texts: Mapping[str, str | bytes],
    fates: Mapping[int, tuple[int, str, str]],
    line_text: Callable[[str, int], str],
    setting_of: Callable[[Sequence[Location]], str],
    /,
) -> list[str]: ...
def journal_traffic(texts: Mapping[str, str | bytes], line_text: Callable[[str, int], str], /) -> str: ...
def bring_flight(path: str, data: bytes, ahead: float, /) -> bool: ...
def have_met(folder: str, /) -> bool: ...
def sample(tensor: torch.Tensor, most: int, /) -> list[float] | None: ...
def find_drifts(folder: str, /) -> list[str]: ...
def add_seen(facts: str, /) -> None: ...
def tell_seen(facts: str, /) -> str: ...
