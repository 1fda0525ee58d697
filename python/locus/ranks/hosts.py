"""The hosts on which the ranks of a job run, and where the report of all of them is made. Ranks tell each other over
the group's own store: each says where it is, rank 0 says where reports are taken in. Only what the store answers at
once is asked, so that nobody waits for a rank that does not speak."""

from __future__ import annotations

import json
import os
import socket
import time
from typing import TYPE_CHECKING, NamedTuple

from locus import scratch
from locus.program import alone
from locus.ranks import collector, membership

if TYPE_CHECKING:
    from torch._C._distributed_c10d import Store

    from locus.ranks.membership import Address

GATHER_VARIABLE = "LOCUS_GATHER"
"""Set where one report is made of several hosts'."""

_LOCAL = ("", "localhost", "127.0.0.1", "::1")
_PATIENCE = 5.0
"""Seconds that a rank which leaves gives rank 0 to have said where reports are taken in."""


class _Known:
    """What this rank knows of its job."""

    def __init__(self, job: str, is_spread: bool):
        self.job, self.is_spread = job, is_spread
        self.address: Address | None = None
        self.hosts: dict[str, str] = {}
        self.is_deaf = False
        """The store has gone: nothing more will be heard."""

    def lacks(self) -> bool:
        """Whether something is yet to be heard."""
        if self.is_deaf:
            return False
        if membership.rank() == 0:
            return self.is_spread and len(self.hosts) < membership.world()
        return self.is_spread and self.address is None

    def write(self) -> None:
        membership.write(
            {
                "rank": membership.rank() or 0,
                "world": membership.world(),
                "job": self.job,
                "host": name(),
                "is_spread": self.is_spread,
                "address": self.address,
                "hosts": self.hosts,
            }
        )


class Reach(NamedTuple):
    """How other hosts of the job are reached."""

    job: str
    address: Address


_known: _Known | None = None
_started: Address | None = None


def name() -> str:
    """This host's."""
    return socket.gethostname()


def expect() -> None:
    """This process was started as a rank: it is missed when it does not come to meet the others."""
    member = membership.expected(name())
    if member is not None and os.environ.get(GATHER_VARIABLE):
        membership.write(member)


def meet(job: str, is_child: bool) -> None:
    """This process has met the other ranks. `is_child`: it reports into the folder of a check that others share."""
    global _known, _started
    if membership.world() < 2 or not os.environ.get(GATHER_VARIABLE) or alone.is_alone():
        return
    store = _store()
    _known = _Known(job, _is_spread(store, is_child))
    if _known.is_spread:
        store.set(f"locus/{job}/host/{membership.rank()}", name())
        if membership.rank() == 0:
            is_local = _host_of(store) in _LOCAL
            _started = _started or collector.start(scratch.of_check(), is_local)
            _known.address = {**_started, "names": [_host_of(store), *_started["names"]]}
            store.set(f"locus/{job}/address", json.dumps(_known.address))
    _known.write()
    look()


def look() -> None:
    """Hears what the others have said since the last time; costs next to nothing when there is nothing more to hear."""
    if _known is None or not _known.lacks():
        return
    try:
        store, before = _store(), (_known.address, len(_known.hosts))
        if membership.rank() == 0:
            keys = {str(rank): f"locus/{_known.job}/host/{rank}" for rank in range(membership.world())}
            if store.check(list(keys.values())):
                _known.hosts = {rank: store.get(key).decode() for rank, key in keys.items()}
        elif store.check([f"locus/{_known.job}/address"]):
            _known.address = json.loads(store.get(f"locus/{_known.job}/address"))
        if (_known.address, len(_known.hosts)) != before:
            _known.write()
    except Exception:  # the group has gone, and its store with it
        _known.is_deaf = True


def leave() -> None:
    """The group is about to go, or the process: the last time that anything can be heard."""
    end = time.monotonic() + (_PATIENCE if membership.rank() else 0.5)
    look()
    while _known is not None and _known.lacks() and time.monotonic() < end:
        time.sleep(0.05)
        look()


def meeting_folder(folder: str, is_child: bool) -> str:
    """Where the ranks of this machine leave their calls for each other: one folder, though each may be a check of its
    own with a folder of its own."""
    if is_child or _known is None:
        return folder
    agreed = _store().compare_set(f"locus/{_known.job}/folder/{scratch.machine()}", "", folder).decode()
    return agreed if scratch.is_own(agreed) else folder


def reach() -> Reach | None:
    """Who knows what the ranks of other hosts have called; None: there are none, or it is not known."""
    if _known is None or _known.address is None:
        return None
    return Reach(_known.job, _known.address)


def _is_spread(store: Store, is_child: bool) -> bool:
    """Whether there may be ranks that report into another folder than this one."""
    if alone.ONE_MACHINE_VARIABLE in os.environ:
        return False
    local = os.environ.get("LOCAL_WORLD_SIZE", "")
    if not is_child:
        return True
    return int(local) < membership.world() if local.isdecimal() else _host_of(store) not in _LOCAL


def _store() -> Store:
    from torch.distributed import distributed_c10d as c10d

    store: Store = c10d._get_default_store()
    return store


def _host_of(store: object) -> str:
    """The name by which this rank reaches the store, which is on rank 0's host."""
    while (inner := getattr(store, "underlying_store", None)) is not None:
        store = inner
    return str(getattr(store, "host", "") or os.environ.get("MASTER_ADDR", ""))
