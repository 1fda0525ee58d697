"""What a rank that runs without the rest of its world says of itself: the meshes that the program makes, its groups and
its files. Whoever started it finds the other roles by that, while it still runs."""

from __future__ import annotations

import functools
import json
import math
import os
import sys
from typing import TYPE_CHECKING, NamedTuple, TypedDict

from locus import faults, scratch
from locus.after_import import after_import
from locus.program import alone, places

if TYPE_CHECKING:
    from types import ModuleType

_MAX_MESHES = 64


class Mesh(TypedDict):
    """A device mesh: names and sizes of its dimensions, and its ranks in order."""

    names: list[str]
    shape: list[int]
    ranks: list[int]


class Record(TypedDict):
    """One rank's word."""

    rank: int
    meshes: list[Mesh]
    groups: list[list[int]]
    files: list[str]


class Group(NamedTuple):
    """A process group, for people."""

    label: str
    members: list[int]


_meshes: list[Mesh] = []


def install() -> None:
    """Hears of every mesh from here on, and of groups before they are gone."""
    after_import("torch.distributed.device_mesh", _watch)
    after_import("torch.distributed", _watch_groups)


def _watch_groups(module: ModuleType) -> None:
    c10d = getattr(module, "distributed_c10d", None)
    if c10d is None:
        return  # PyTorch without torch.distributed
    plain = c10d.destroy_process_group

    @functools.wraps(plain)
    def destroy(*arguments: object, **named: object) -> object:
        try:
            groups()
        except Exception as error:
            faults.note("looking at process groups", error)
        return plain(*arguments, **named)

    module.destroy_process_group = c10d.destroy_process_group = destroy  # type: ignore[attr-defined]


def _watch(module: ModuleType) -> None:
    plain = module.DeviceMesh.__init__

    def init(self: object, *arguments: object, **named: object) -> None:
        plain(self, *arguments, **named)
        try:
            _keep(self)
        except Exception as error:
            faults.note("looking at a device mesh", error)

    module.DeviceMesh.__init__ = init


def _keep(mesh: object) -> None:
    import torch

    with torch._C.DisableTorchFunctionSubclass():
        whole = mesh.mesh  # type: ignore[attr-defined]
        shape, ranks = list(whole.shape), whole.reshape(-1).tolist()
    names = list(getattr(mesh, "mesh_dim_names", None) or [f"dimension {i}" for i in range(len(shape))])
    made: Mesh = {"names": names, "shape": shape, "ranks": ranks}
    covered = any(set(ranks) <= set(each["ranks"]) and set(names) <= set(each["names"]) for each in _meshes)
    if len(ranks) > 1 and not covered and len(_meshes) < _MAX_MESHES:
        _meshes.append(made)
        leave(final=False)


def meshes() -> list[Mesh]:
    """Those that the program has made so far; all ranks by number are not listed."""
    plain = [{**mesh, "ranks": []} if mesh["ranks"] == list(range(len(mesh["ranks"]))) else mesh for mesh in _meshes]
    return plain  # type: ignore[return-value]  # a part of a TypedDict is one


def leave(final: bool) -> None:
    """Writes it down, again where there is more to say."""
    number = os.environ.get("RANK", "")
    if not alone.is_alone() or not os.path.isdir(alone.folder()):
        return
    said: Record = {
        "rank": int(number),
        "meshes": _meshes,
        "groups": [group.members for group in groups().values()] if final else [],
        "files": _files() if final else [],
    }
    scratch.write(os.path.join(alone.folder(), number + alone.RECORD), json.dumps(said).encode())


_groups: dict[str, Group] = {}
"""Also those that the program has destroyed since."""


def groups() -> dict[str, Group]:
    """The groups that this rank is or was in, by name. To be asked before groups are destroyed, too."""
    from torch.distributed import distributed_c10d as c10d

    for pg, numbers in c10d._world.pg_group_ranks.items():
        members = sorted(numbers, key=lambda number: numbers[number])
        if members:
            _groups[str(getattr(pg, "group_name", ""))] = Group(label_of(members, _meshes), members)
    return _groups


def label_of(members: list[int], meshes: list[Mesh]) -> str:
    """The dimension of a mesh along which a group lies; "" where there is none."""
    for mesh in meshes:
        shape, ranks = mesh["shape"], mesh["ranks"]
        if members == ranks and len(shape) > 1:
            return "world"
        for dimension, size in enumerate(shape):
            step = math.prod(shape[dimension + 1 :])
            if size == len(members) and members[0] in ranks:
                start = ranks.index(members[0])
                if ranks[start : start + size * step : step] == members:
                    return mesh["names"][dimension]
    return ""


def _files() -> list[str]:
    """The program's own files."""
    found = {getattr(module, "__file__", None) for module in list(sys.modules.values())}
    return sorted(
        file for file in found if isinstance(file, str) and file.endswith(".py") and places.is_user_file(file)
    )
