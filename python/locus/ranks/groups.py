"""Groups that ranks make in another order. PyTorch tells groups apart by how many were made before: ranks that differ
in that wait for each other without an end, when a group is made or at its first call. Compared in the job's own store.
"""

from __future__ import annotations

import functools
import json
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from locus.blame import findings
from locus.blame.seen import Facts
from locus.program import alone
from locus.ranks import seen

if TYPE_CHECKING:
    from torch.distributed.distributed_c10d import Store

    from locus.watch.session import Session

Result = TypeVar("Result")
_PATIENCE = 600.0
"""Seconds that the other members have to come: as long as the group itself would wait for them."""


def install(session: Session) -> None:
    """Looks at every group that is made, also those that this rank is no member of."""
    from torch.distributed import distributed_c10d as c10d

    helper = getattr(c10d, "_new_process_group_helper", None)
    if helper is not None and not alone.is_alone():
        c10d._new_process_group_helper = _compared(session, helper)


def _compared(session: Session, helper: Callable[..., Result]) -> Callable[..., Result]:
    @functools.wraps(helper)
    def compared(*arguments: object, **named: object) -> Result:
        words = session.safely("comparing groups", _compare, session, *arguments[2:6])
        if words:
            raise RuntimeError(words)
        return helper(*arguments, **named)

    return compared


def _compare(session: Session, members: list[int], backend: object, store: Store, name: str) -> str:
    """What to give up with, where a member of the group has made another one as the same number."""
    import torch.distributed as dist

    if not members or not str(name).isdecimal() or not dist.is_initialized():
        return ""  # the first group of all, or one that has its name by its members
    own, use = dist.get_rank(), findings.here(4)
    store.set(_key(name, own), json.dumps([sorted(members), use]))
    waiting, deadline = sorted(set(members) - {own}) if own in members else [], time.monotonic() + _PATIENCE
    while waiting and time.monotonic() < deadline:
        try:
            if not store.check([_key(name, waiting[0])]):
                time.sleep(0.005)
                continue
            theirs, made = json.loads(store.get(_key(name, waiting[0])))
        except RuntimeError:
            return ""  # whoever had the store is gone, which is what the program is told
        other = waiting.pop(0)
        if theirs == sorted(members):
            continue
        (low, first, at), (high, second, there) = sorted([(own, sorted(members), use), (other, theirs, made)])
        names = [str(first), str(second)]
        seen.report(
            session,
            Facts("other-group", at, op="new_group", ranks=[low, high], names=names, count=int(name), made=there),
        )
        return f"locus: rank {low} called new_group({first}) where rank {high} called new_group({second})"
    return ""


def _key(name: str, rank: int) -> str:
    return f"locus/group/{name}/{rank}"
