"""Which rank this process is, and of how many; and the file in the folder of its check that says so, also when the
process is no more."""

from __future__ import annotations

import json
import os
import time
from typing import TypedDict

from locus import scratch

ENDING = ".member"
"""That of the files."""

_rank: int | None = None
_world = _times = 0


class Address(TypedDict):
    """Where the reports of other hosts are taken in: locus.ranks.collector."""

    names: list[str]
    """The host's, one of which leads there."""
    port: int
    secret: str
    """Only those who have met know it."""


class Member(TypedDict):
    """A process that is a rank, or that a launcher has started as one."""

    rank: int
    world: int
    job: str
    """Of the ranks that have met; empty: this one has not met them."""
    host: str
    is_spread: bool
    """Whether there may be ranks that report into other folders."""
    address: Address | None
    """Where these are taken in; None: not known."""
    hosts: dict[str, str]
    """By rank, what rank 0 knows of the others."""


def rank() -> int | None:
    """This process's rank, once it has joined a process group or a launcher has given it one."""
    if _rank is not None:
        return _rank
    text = os.environ.get("RANK", "")
    return int(text) if text.isdecimal() and os.environ.get("WORLD_SIZE", "").isdecimal() else None


def world() -> int:
    """How many ranks there are; 0 until a process group was made."""
    return _world


def join() -> None:
    """This process has become a member of the default group."""
    global _rank, _world, _times
    import torch.distributed as dist

    _rank, _world, _times = dist.get_rank(), dist.get_world_size(), _times + 1


def job() -> str:
    """A name that only the ranks that have just met share: not those of an earlier or later set of processes, nor the
    same processes before they left a group and made it anew.
    """
    from torch.distributed import distributed_c10d as c10d

    agreed = c10d._get_default_store().compare_set("locus/job", "", f"{os.getpid()}-{time.time_ns():x}")
    return f"{agreed.decode()}-{_times}"


def expected(host: str) -> Member | None:
    """What a launcher has told this process to be; None: nothing."""
    number, count = rank(), os.environ.get("WORLD_SIZE", "")
    if number is None or not count.isdecimal():
        return None
    return {
        "rank": number,
        "world": int(count),
        "job": "",
        "host": host,
        "is_spread": False,
        "address": None,
        "hosts": {},
    }


def write(member: Member) -> None:
    """Leaves word in the folder of the check, where there is one."""
    folder = scratch.of_check()
    if os.path.isdir(folder):
        scratch.write(os.path.join(folder, f"{os.getpid()}{ENDING}"), json.dumps(member))


def read(folder: str) -> dict[int, Member]:
    """All that have left word, by the number of their process where that is known, else by a number of its own."""
    found: dict[int, Member] = {}
    for name in sorted(os.listdir(folder) if os.path.isdir(folder) else []):
        stem = name.removesuffix(ENDING)
        if stem != name:
            try:
                member: Member = json.loads(scratch.read(os.path.join(folder, name)))
                found[int(stem) if stem.isdecimal() else -len(found) - 1] = member
            except (OSError, ValueError):
                continue
    return found
