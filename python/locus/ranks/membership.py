"""Which rank this process is, and of how many."""

from __future__ import annotations

import os
import time

_rank: int | None = None
_world = _times = 0


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
