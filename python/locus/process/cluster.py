"""The shape of the cluster that `--nproc`, `--nnodes` and `--ranks` ask for, and what a rank finds around itself."""

from __future__ import annotations

import argparse
import os
from typing import NamedTuple

from locus.errors import UsageError
from locus.process import simulation
from locus.program import alone

_CARDS_OF_A_HOST = 8
"""What most hosts have; taken where ranks are more than one host can have."""


class Shape(NamedTuple):
    """Ranks on hosts of the same size."""

    ranks: int
    hosts: int

    @property
    def per_host(self) -> int:
        """The ranks, and so the devices at least, of one host."""
        return self.ranks // self.hosts

    def environment(self, rank: int, port: int) -> dict[str, str]:
        """What torchrun would tell a rank."""
        host, local = divmod(rank, self.per_host)
        found = {
            "RANK": str(rank), "LOCAL_RANK": str(local), "WORLD_SIZE": str(self.ranks),
            "LOCAL_WORLD_SIZE": str(self.per_host), "GROUP_RANK": str(host), "GROUP_WORLD_SIZE": str(self.hosts),
            "ROLE_RANK": str(rank), "ROLE_WORLD_SIZE": str(self.ranks),
            "MASTER_ADDR": os.environ.get("MASTER_ADDR", "127.0.0.1"), "MASTER_PORT": str(port),
        }  # fmt: skip
        if self.hosts > 1:
            found[alone.ONE_MACHINE_VARIABLE] = "1"
        if self.ranks > 1 and "OMP_NUM_THREADS" not in os.environ:
            found["OMP_NUM_THREADS"] = "1"  # as torchrun does
        return found


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declares what a cluster is made of."""
    parser.add_argument("--nproc", metavar="N", help="start N ranks of a distributed program, as torchrun would")
    parser.add_argument("--nnodes", metavar="M", help="the N ranks are those of M hosts (default: 1; 8 a host past 64)")
    parser.add_argument("--ranks", metavar="auto|0,1,…", help="dry: only these ranks run, and stand for all N")


def parse(arguments: argparse.Namespace) -> Shape | None:
    """The cluster; None where there are no ranks. A UsageError that names the way out."""
    text, hosts_text = arguments.nproc, arguments.nnodes
    for option, given in (("--nnodes", hosts_text), ("--ranks", arguments.ranks)):
        if given is not None and text is None:
            raise UsageError(f"{option} is about the ranks of --nproc. Say how many there are, or leave it out.")
    if text is None:
        return None
    if not text.isdecimal() or int(text) == 0:
        raise UsageError(f"--nproc {text} is not a number of ranks. Use a whole number from 1 on.")
    ranks = int(text)
    if hosts_text is None:
        few = ranks <= simulation.MAX_DEVICES
        hosts = 1 if few or ranks % _CARDS_OF_A_HOST else ranks // _CARDS_OF_A_HOST
    elif not hosts_text.isdecimal() or int(hosts_text) == 0:
        raise UsageError(f"--nnodes {hosts_text} is not a number of hosts. Use a whole number from 1 on.")
    else:
        hosts = int(hosts_text)
    if ranks % hosts:
        raise UsageError(f"--nproc {ranks} can't be spread evenly over --nnodes {hosts}. Use a number that divides it.")
    shape = Shape(ranks, hosts)
    if shape.per_host > simulation.MAX_DEVICES:
        raise UsageError(
            f"--nproc {ranks} on {hosts} host{'s' * (hosts > 1)} makes {shape.per_host} devices on each; Locus "
            f"simulates at most {simulation.MAX_DEVICES}. Use --nnodes."
        )
    return shape


def check_devices(shape: Shape, devices: int) -> None:
    """A UsageError where a host has fewer devices than ranks."""
    if shape.per_host > devices:
        raise UsageError(
            f"--nproc {shape.ranks} needs a device for each rank, but --devices is {devices}. "
            f"Use --devices {shape.per_host}, or fewer ranks."
        )


class Chosen(NamedTuple):
    """The ranks that run, of all that there are."""

    ranks: list[int]
    is_auto: bool


def parse_ranks(text: str | None, shape: Shape | None, is_dry: bool) -> Chosen | None:
    """What --ranks asks for; None where all ranks run."""
    if text is None or shape is None:
        return None
    if not is_dry:
        raise UsageError("--ranks needs --dry: ranks that do not run have no values to give. Add --dry.")
    if text.strip() == "auto":
        return Chosen([0], True)
    words = [word.strip() for word in text.split(",")]
    if not all(word.isdecimal() and int(word) < shape.ranks for word in words):
        raise UsageError(
            f"--ranks {text} is not known. Use auto, or numbers from 0 to {shape.ranks - 1} with commas between them."
        )
    return Chosen(sorted({int(word) for word in words}), False)
