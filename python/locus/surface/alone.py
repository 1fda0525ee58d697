"""torch.distributed in a rank that runs without the rest of its world: groups, stores and objects that wait for nobody.

The groups themselves are locus/bridge/lone_group.h; here PyTorch is led to them.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import os
import types
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import torch

from locus.program import alone

if TYPE_CHECKING:
    from torch.distributed.distributed_c10d import ProcessGroup, Store

    from locus._bridge import Bridge

_Function = Callable[..., Any]

_members: dict[str, list[int]] = {}


def install(bridge: Bridge) -> None:
    """Once, after the class ProcessGroupNCCL is there."""
    from torch.distributed import distributed_c10d as c10d

    bridge.begin_alone(alone.folder(), int(os.environ["RANK"]), alone.running(), alone.is_open(), members_of)
    group, store = bridge.LoneGroup, bridge.LoneStore
    own = property(lambda self: self.__dict__.setdefault("_own_options", types.SimpleNamespace()))
    setattr(group, "options", own)  # noqa: B010  # its stub has only what C++ defines
    for module in (c10d, torch.distributed, torch._C._distributed_c10d):
        module.ProcessGroupGloo = group  # type: ignore[attr-defined]
        for name in ("TCPStore", "FileStore", "HashStore"):
            if hasattr(module, name):
                setattr(module, name, store)

    def rendezvous(url: str, rank: int = -1, world_size: int = -1, **_: object) -> Iterator[tuple[Store, int, int]]:
        number = rank if rank >= 0 else int(os.environ["RANK"])
        yield store(), number, world_size if world_size > 0 else int(os.environ["WORLD_SIZE"])

    for module in (c10d, torch.distributed):
        module.rendezvous = rendezvous  # type: ignore[attr-defined]
    c10d._store_based_barrier = lambda *_, **__: None
    _answer_objects(bridge, c10d)


def members_of(group: str) -> list[int]:
    """The ranks of a group by their global numbers, in the group's own order; none: not known."""
    from torch.distributed import distributed_c10d as c10d

    if group not in _members:
        for each, numbers in c10d._world.pg_group_ranks.items():
            if str(getattr(each, "group_name", "")) == group and numbers:
                _members[group] = sorted(numbers, key=lambda number: numbers[number])
    return _members.get(group, [])


def _answer_objects(bridge: Bridge, c10d: types.ModuleType) -> None:
    """Objects of ranks that do not run are not known; what this rank has stands for them, and the report says where."""

    def is_member(group: ProcessGroup | None) -> bool:
        return not c10d._rank_not_in_group(group)

    def begin(name: str, group: ProcessGroup | None) -> None:
        bridge.note_other_ranks()
        with contextlib.suppress(Exception):  # a group of another kind: its calls are not compared
            backend: Any = (group or c10d._get_default_group())._get_backend(torch.device("cuda"))
            backend._announce(name)

    def all_gather_object(object_list: list[Any], obj: object, group: ProcessGroup | None = None) -> None:
        if is_member(group):
            begin("all_gather_object", group)
            object_list[:] = [_as_received(obj)] * len(object_list)

    def gather_object(
        obj: object,
        object_gather_list: list[Any] | None = None,
        dst: int | None = None,
        group: ProcessGroup | None = None,
        group_dst: int | None = None,
    ) -> None:
        if is_member(group):
            begin("gather_object", group)
            if object_gather_list is not None:
                object_gather_list[:] = [_as_received(obj)] * len(object_gather_list)

    def sent_by(plain: _Function, position: int) -> _Function:
        """Objects that one rank sends: the real ones where it runs, else those that are here already."""

        @functools.wraps(plain)
        def receive(*arguments: Any, **named: Any) -> Any:
            source = named.get("src", arguments[position] if len(arguments) > position else None)
            group = named.get("group", arguments[position + 1] if len(arguments) > position + 1 else None)
            if source is None and named.get("group_src") is not None:
                whole = group if group is not None else c10d._get_default_group()
                source = c10d.get_global_rank(whole, named["group_src"])
            source = 0 if source is None else source
            on_demand = plain.__name__ == "recv_object_list" and alone.is_open()
            if source == c10d.get_rank() or source in alone.running() or on_demand:
                try:
                    return plain(*arguments, **named)
                except Exception:
                    if source == c10d.get_rank():
                        raise
            begin(plain.__name__, group)
            return source if plain.__name__ == "recv_object_list" else None

        return receive

    replaced = {
        "all_gather_object": functools.wraps(c10d.all_gather_object)(all_gather_object),
        "gather_object": functools.wraps(c10d.gather_object)(gather_object),
        "broadcast_object_list": sent_by(c10d.broadcast_object_list, 1),
        "scatter_object_list": sent_by(c10d.scatter_object_list, 2),
        "recv_object_list": sent_by(c10d.recv_object_list, 1),
    }
    for name, function in replaced.items():
        for module in (c10d, torch.distributed):
            setattr(module, name, function)


def _as_received(obj: object) -> object:
    """An object of its own, as one that has come over the wire."""
    with contextlib.suppress(Exception):
        return copy.deepcopy(obj)
    return obj
