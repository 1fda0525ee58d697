"""A check of a distributed program: which rank this process is, and what is looked at because it is one."""

from __future__ import annotations

import functools
import json
import os
from typing import Any

_rank: int | None = None
_world = 0
_session: Any = None


def rank() -> int | None:
    """This process's rank, once it has joined a process group or a launcher has given it one."""
    if _rank is not None:
        return _rank
    text = os.environ.get("RANK", "")
    return int(text) if text.isdecimal() and os.environ.get("WORLD_SIZE", "").isdecimal() else None


def world() -> int:
    """How many ranks there are; 0 until a process group was made."""
    return _world


def sign(report: dict[str, Any]) -> None:
    """Puts this process's rank under its findings."""
    report["program"]["ranks"] = _world
    number = rank()
    if number is None:
        return
    for finding in report["findings"]:
        finding["ranks"] = finding.get("ranks") or [number]


_EXPLAIN_THE_REST = {"unfinished-reduction", "ready-twice", "ranks-part-ways", "rank-missing"}
"""Reasons after which ranks end at different places, which is then no finding of its own."""


def judge(session: Any, folder: str, codes: dict[int, int] | None = None) -> None:
    """What only somebody who has seen all ranks can say; before their reports are taken in."""
    from locus import children
    from locus.ranks import parting

    known = [finding["reason"] for text in children.reports(folder) for finding in json.loads(text)["findings"]]
    if not _EXPLAIN_THE_REST & {*known, *session.reasons()}:
        session.safely("judging the ranks", parting.judge, session, folder, codes)


def joined(session: Any) -> bool:
    """Whether any rank has made a process group."""
    return bool(session.so_far()["program"]["ranks"])


def install(session: Any) -> None:
    """Looks at torch.distributed, where PyTorch has it. Once a process."""
    global _session
    import torch

    is_first, _session = _session is None, session
    if not is_first:
        return
    from locus.ranks import devices

    devices.install_replicas(session)
    if not torch.distributed.is_available():
        return
    from torch.distributed import distributed_c10d as c10d

    from locus.ranks import reduction

    reduction.install(session)
    devices.install(session)
    original = c10d.init_process_group

    @functools.wraps(original)
    def init_process_group(*args: Any, **kwargs: Any) -> Any:
        result = original(*args, **kwargs)
        _joined()
        return result

    c10d.init_process_group = torch.distributed.init_process_group = init_process_group


def _joined() -> None:
    global _rank, _world
    import torch.distributed as dist

    _rank, _world = dist.get_rank(), dist.get_world_size()
    if _session is not None:
        from locus.ranks import parting

        _session.safely("listening to the ranks", parting.install, _session)
