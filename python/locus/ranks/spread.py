"""How the parameters of a rank are spread over the cluster: split and replicated, along which dimension of which mesh.
Looked at once, when an optimizer has made its first step; keeps no tensor."""

from __future__ import annotations

import math
from typing import Any, TypedDict

import torch

from locus import faults
from locus.program import names

_LARGE = 64 << 20
"""Bytes on each rank from which a parameter that several ranks hold alike is worth a line."""
_MOST = 20
_NOT_SPLIT = "on each rank by itself"


class Placement(TypedDict):
    """Parameters that are spread in the same way; locus/engine/cluster.h."""

    placement: str
    count: int
    bytes: int
    whole: int
    ranks: list[int]


class Replica(TypedDict):
    """A large parameter that several ranks hold alike."""

    name: str
    placement: str
    bytes: int
    copies: int


class Spread:
    """What is known of the parameters so far."""

    def __init__(self, rank: int):
        self.rank = rank
        self.placements: dict[str, Placement] = {}
        self.replicas: list[Replica] = []
        self.bytes = 0
        self._seen: set[int] = set()

    def at_step(self, optimizer: torch.optim.Optimizer, *_: object) -> None:
        """After an optimizer's step: its parameters, where they were not seen before."""
        try:
            with torch._C.DisableTorchFunctionSubclass():
                self._look(optimizer)
        except Exception as error:
            faults.note("looking at how parameters are spread", error)

    def _look(self, optimizer: torch.optim.Optimizer) -> None:
        fresh = [p for group in optimizer.param_groups for p in group["params"] if id(p) not in self._seen]
        if not fresh:
            return
        self._seen.update(id(p) for p in fresh)
        called, wrapped = _names()
        for parameter in fresh:
            words, local, whole, copies = _spread_of(parameter)
            if id(parameter) in wrapped:
                words, copies = "replicated by DistributedDataParallel", wrapped[id(parameter)]
            row = self.placements.setdefault(
                words, {"placement": words, "count": 0, "bytes": 0, "whole": 0, "ranks": [self.rank]}
            )
            row["count"] += 1
            row["bytes"] += local
            row["whole"] += whole
            self.bytes += local
            if local >= _LARGE and copies > 1:
                name = called.get(id(parameter), "a parameter")
                self.replicas.append({"name": name, "placement": words, "bytes": local, "copies": copies})
        self.replicas.sort(key=lambda each: each["bytes"], reverse=True)
        del self.replicas[_MOST:]


def _names() -> tuple[dict[int, str], dict[int, int]]:
    """Parameters by what the program calls them, and those that DDP keeps alike, with on how many ranks."""
    called: dict[int, str] = {}
    wrapped: dict[int, int] = {}
    for root in names.outermost(torch.nn.Module):
        if not isinstance(root, torch.nn.Module):
            continue
        for name, parameter in root.named_parameters():
            called.setdefault(id(parameter), name)
        for module in root.modules():
            if isinstance(module, torch.nn.parallel.DistributedDataParallel):
                size = int(module.process_group.size())
                wrapped.update((id(parameter), size) for parameter in module.parameters())
    return called, wrapped


def _spread_of(parameter: Any) -> tuple[str, int, int, int]:
    """In words; the bytes here, and of the whole; how many ranks hold the same."""
    size = parameter.numel() * parameter.element_size()
    placements, local = getattr(parameter, "placements", None), getattr(parameter, "_local_tensor", None)
    if placements is None or local is None:
        return _NOT_SPLIT, size, size, 1
    mesh = parameter.device_mesh
    sizes = list(mesh.shape)
    dimensions = list(mesh.mesh_dim_names or [f"dimension {number}" for number in range(len(sizes))])
    words, copies = [], 1
    for number, placement in enumerate(placements):
        if placement.is_replicate():
            copies *= sizes[number]
            words.append(f"{dimensions[number]}: replicated")
        elif hasattr(placement, "dim"):
            words.append(f"{dimensions[number]}: split along {placement.dim}")
        else:
            words.append(f"{dimensions[number]}: partial")
    return (
        ", ".join(words),
        local.numel() * local.element_size(),
        math.prod(parameter.shape) * local.element_size(),
        copies,
    )
