"""The shape of the cluster that `--nproc`, `--nnodes` and `--ranks` ask for, and what a rank finds around itself."""

from __future__ import annotations

import argparse
import os
import re
from typing import NamedTuple

from locus.errors import UsageError
from locus.process import simulation
from locus.program import alone

OPTIONS = ("nproc", "nnodes", "node_rank", "master_addr", "master_port", "ranks")
"""What a cluster is made of."""
_PORT = "29500"  # torchrun's
_NUMBER = re.compile(r"\d+")
_CARDS_OF_A_HOST = 8
"""What most hosts have; taken where ranks are more than one host can have."""


class Shape(NamedTuple):
    """Ranks on hosts of the same size."""

    ranks: int
    hosts: int
    host: int | None = None
    """Which of them this machine is; None: all of them."""

    @property
    def here(self) -> range:
        """The ranks that this machine starts."""
        if self.host is None:
            return range(self.ranks)
        return range(self.host * self.per_host, (self.host + 1) * self.per_host)

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
            "MASTER_ADDR": "127.0.0.1" if self.host is None else os.environ["MASTER_ADDR"], "MASTER_PORT": str(port),
        }  # fmt: skip
        if self.hosts > 1 and self.host is None:
            found[alone.ONE_MACHINE_VARIABLE] = "1"
        if self.ranks > 1 and "OMP_NUM_THREADS" not in os.environ:
            found["OMP_NUM_THREADS"] = "1"  # as torchrun does
        return found


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declares what a cluster is made of."""
    parser.add_argument("--nproc", metavar="N", help="start N ranks of a distributed program, as torchrun would")
    parser.add_argument("--nnodes", metavar="M", help="the N ranks are those of M hosts (default: 1; 8 a host past 64)")
    parser.add_argument("--node-rank", metavar="K", help="this machine is host K of the M, and starts its ranks only")
    parser.add_argument("--master-addr", metavar="HOST", help="with --node-rank: the host of rank 0")
    parser.add_argument("--master-port", metavar="PORT", help="with --node-rank: a free port there (default: 29500)")
    parser.add_argument("--ranks", metavar="auto|0,1,…", help="dry: only these ranks run, and stand for all N")


def parse(arguments: argparse.Namespace) -> Shape | None:
    """The cluster; None where there are no ranks. A UsageError that names the way out."""
    text, hosts_text = arguments.nproc, arguments.nnodes
    for name in OPTIONS:
        if getattr(arguments, name) is not None and text is None:
            option = f"--{name.replace('_', '-')}"
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
    shape = Shape(ranks, hosts, _host(arguments, hosts))
    if shape.per_host > simulation.MAX_DEVICES:
        raise UsageError(
            f"--nproc {ranks} on {hosts} host{'s' * (hosts > 1)} makes {shape.per_host} devices on each; Locus "
            f"simulates at most {simulation.MAX_DEVICES}. Use --nnodes."
        )
    return shape


def _host(arguments: argparse.Namespace, hosts: int) -> int | None:
    """Which host this machine is, after the others were told where rank 0 is; None: all of them."""
    text, address, port = arguments.node_rank, arguments.master_addr, arguments.master_port
    if text is None:
        if address is not None or port is not None:
            raise UsageError("--master-addr and --master-port are about several machines. Give --node-rank too.")
        return None
    if arguments.nnodes is None:
        raise UsageError("--node-rank is about one of --nnodes machines. Say how many there are.")
    if arguments.ranks is not None:
        raise UsageError("--ranks runs ranks on this machine alone; --node-rank can't be had with it.")
    if not text.isdecimal() or int(text) >= hosts:
        raise UsageError(f"--node-rank {text} is not one of {hosts} hosts. Use a number from 0 to {hosts - 1}.")
    if port is not None and not (port.isdecimal() and 0 < int(port) < 65536):
        raise UsageError(f"--master-port {port} is not a port. Use a number from 1 to 65535.")
    if address is None and "MASTER_ADDR" not in os.environ:
        raise UsageError("--node-rank needs --master-addr: the host of rank 0, by a name that all hosts know.")
    os.environ["MASTER_ADDR"] = address or os.environ["MASTER_ADDR"]
    os.environ["MASTER_PORT"] = port or os.environ.get("MASTER_PORT") or _PORT
    return int(text)


def ranks_here(shape: Shape | None) -> int:
    """How many ranks of the program run on this machine, as far as options and launchers say; 0: nobody does."""
    if shape is not None:
        return shape.per_host
    for name in ("LOCAL_WORLD_SIZE", "SLURM_STEP_TASKS_PER_NODE"):  # the latter: "4", "4(x2)"
        found = _NUMBER.match(os.environ.get(name, ""))
        if found is not None:
            return min(int(found.group()), simulation.MAX_DEVICES)
    return 0


def is_elsewhere(shape: Shape | None) -> bool:
    """Whether there are ranks that this command does not start."""
    if shape is not None:
        return shape.host is not None
    world = os.environ.get("WORLD_SIZE", "")
    return "RANK" in os.environ and world.isdecimal() and int(world) > 1


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
