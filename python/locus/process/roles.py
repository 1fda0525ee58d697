"""`--ranks auto`: which ranks stand for all. First and last of each dimension of the meshes that the program makes, all
stages of a pipeline, ranks that the program's text tells from others, and those that a rank exchanges messages with."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator

from locus.program import rank_text
from locus.ranks.record import Mesh, Record, label_of

MOST = 64
"""Ranks that are taken; the rest is said to be left out."""

_PIPELINE = ("pp", "pipe", "pipeline", "stage", "stages", "pipeline_parallel")


class Roles:
    """The ranks to run, and why each of them; grows as ranks say what they have seen."""

    def __init__(self, world: int, per_host: int):
        self.world, self.per_host = world, per_host
        self.why: dict[int, str] = {}
        self.left_out: set[int] = set()
        self.unknown: list[str] = []
        self.stuck = ""
        """That ranks waited for each other's messages, none of which was sent; empty: none have."""
        self.meshes: list[Mesh] = []
        self._texts: dict[str, rank_text.Read] = {}
        self._by_dimension: list[tuple[str, int, str]] = []

    def add(self, rank: int, why: str) -> None:
        """A rank that is to run, for a reason; the first one is said."""
        if not 0 <= rank < self.world or rank in self.why:
            return
        if len(self.why) >= MOST:
            self.left_out.add(rank)
            return
        self.why[rank] = why

    def hear(self, record: Record) -> None:
        """What a rank has said."""
        for mesh in record["meshes"]:
            if mesh not in self.meshes:
                self.meshes.append(mesh)
                for rank, why in of_mesh(mesh):
                    self.add(rank, why)
        for members in record["groups"]:
            if len(members) < self.world and not label_of(members, self.meshes):
                self.add(members[-1], f"last of a group of {len(members)}")
        for of, coordinate, why in self._by_dimension:
            self._add_in_dimension(of, coordinate, why)

    def hear_calls(self, rank: int, text: bytes) -> None:
        """The calls that a rank has made: those it exchanges messages with are roles, too."""
        try:
            calls = json.loads(text)
            for kind in calls["kinds"]:
                if kind["name"] in ("send", "recv"):
                    members = calls["groups"][kind["group"]]["members"]
                    peer = members[kind["root"]] if members else kind["root"]
                    if self.stand_in(peer, rank) is None:
                        self.add(peer, f"exchanges messages with rank {rank}")
        except (ValueError, KeyError, IndexError, TypeError):
            return

    def stand_in(self, rank: int, beside: int) -> int | None:
        """The rank that does for all what one does that another exchanges messages with: it is at the same place of
        the one dimension in which they differ. None: that rank itself has to run, or runs."""
        if rank in self.why:
            return None
        for mesh in self.meshes:
            if rank not in mesh["ranks"] or beside not in mesh["ranks"]:
                continue
            at, other = mesh["ranks"].index(rank), mesh["ranks"].index(beside)
            apart = [(size, step) for _, size, step in dimensions(mesh) if at // step % size != other // step % size]
            if len(apart) != 1:
                continue
            size, step = apart[0]
            same = [
                each
                for each in self.why
                if each in mesh["ranks"] and mesh["ranks"].index(each) // step % size == at // step % size
            ]
            if same:
                return min(same)
        return None

    def read(self, file: str, shown: str, text: str) -> None:
        """What a file of the program says of ranks."""
        if file in self._texts:
            return
        found = self._texts[file] = rank_text.read(text)
        for of, rank, line in found.compared:
            why = f"named at {shown}:{line}"
            if of in ("", "local"):
                last = self.world - 1 if of == "" else self.per_host - 1
                self.add(last if rank == rank_text.LAST else rank, why)
            else:
                self._by_dimension.append((of, rank, why))
                self._add_in_dimension(of, rank, why)
        self.unknown += [f"a rank is compared with what is no constant at {shown}:{line}" for line in found.unknown]
        self.unknown += [f"a file is opened by its rank at {shown}:{line}" for line in found.files]

    def _add_in_dimension(self, of: str, coordinate: int, why: str) -> None:
        for mesh in self.meshes:
            for name, size, step in dimensions(mesh):
                if name.lower() == of and coordinate < size:
                    at = (size - 1 if coordinate == rank_text.LAST else coordinate) * step
                    self.add(mesh["ranks"][at], why)

    def as_cluster(self, hosts: int, traffic: str) -> dict[str, object]:
        """For the report: the ranks that ran, why, and what they could not know."""
        unknown = list(self.unknown)
        if self.left_out:
            unknown.append(f"{len(self.left_out)} more ranks have a role of their own; {MOST} at most are run")
        ranks = [
            {"rank": rank, "role": why, "coordinates": coordinates(rank, self.meshes)}
            for rank, why in sorted(self.why.items())
        ]
        return {"world": self.world, "hosts": hosts, "ranks": ranks, "unknown": unknown, **json.loads(traffic)}


def dimensions(mesh: Mesh) -> Iterator[tuple[str, int, int]]:
    """Name, size and step (in the list of ranks) of each dimension."""
    for number, name in enumerate(mesh["names"]):
        yield name, mesh["shape"][number], math.prod(mesh["shape"][number + 1 :])


def of_mesh(mesh: Mesh) -> Iterator[tuple[int, str]]:
    """The ranks that stand for a mesh, and why."""
    ranks = mesh["ranks"]
    yield ranks[0], "first of each dimension"
    for name, size, step in dimensions(mesh):
        if name.lower() in _PIPELINE:
            for stage in range(1, size):
                yield ranks[stage * step], f"stage {stage} of {name}"
        elif size > 1:
            yield ranks[(size - 1) * step], f"last of {name}"
    yield ranks[-1], "last of each dimension"


def coordinates(rank: int, meshes: Iterable[Mesh]) -> str:
    """ "dp 0, tp 7", in the mesh with most dimensions of those that have the rank; "" where there is none. Dimensions
    of one rank do not count, and are not said."""
    mine = [mesh for mesh in meshes if rank in mesh["ranks"] and mesh["shape"]]
    if not mine:
        return ""
    mesh = max(mine, key=_splits)  # the first of several
    at = mesh["ranks"].index(rank)
    return ", ".join(
        f"{name} {at // step % size}" for name, size, step in dimensions(mesh) if size > 1 or not _splits(mesh)
    )


def _splits(mesh: Mesh) -> int:
    """In how many dimensions there is more than one rank."""
    return sum(size > 1 for size in mesh["shape"])
