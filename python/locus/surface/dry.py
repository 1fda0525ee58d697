"""What a dry run changes in PyTorch's Python code: places where values pass by the operators."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING

import torch

from locus.program import loops
from locus.surface import dry_files

if TYPE_CHECKING:
    from locus._bridge import Bridge


def install(bridge: Bridge) -> None:
    """Counts host reads that no operator sees, and lets large tensors pass through copies and files without bytes."""
    _count_reads(bridge, torch.Tensor)
    _copy_without_bytes(bridge, torch.Tensor)
    _make_new_of_plain(bridge, torch.Tensor)
    dry_files.install(bridge)
    bridge.judge_dry_loops(loops.is_stuck)
    if torch.distributed.is_available():
        _keep_bookkeeping(bridge)


def _count_reads(bridge: Bridge, kind: type[torch.Tensor]) -> None:
    """tolist(), numpy() and what takes a tensor by its address read a host tensor's memory."""
    for name in ("tolist", "numpy", "__dlpack__"):
        plain = getattr(kind, name)

        @functools.wraps(plain)
        def read(
            self: torch.Tensor, *arguments: object, _plain: Callable[..., object] = plain, **named: object
        ) -> object:
            if not self.is_cuda:
                bridge.dry_read(self)
            return _plain(self, *arguments, **named)

        setattr(kind, name, read)


def _copy_without_bytes(bridge: Bridge, kind: type[torch.Tensor]) -> None:
    """copy.deepcopy() copies storages, byte by byte; a clone is the same here."""
    plain: Callable[[torch.Tensor, dict[int, object]], object] = kind.__deepcopy__

    @functools.wraps(plain)
    def deepcopy(self: torch.Tensor, memo: dict[int, object]) -> object:
        ordinary = type(self) in (torch.Tensor, torch.nn.Parameter) and self.is_leaf
        if not ordinary or id(self) in memo or bridge.is_known(self):
            return plain(self, memo)
        with torch.no_grad():
            copy: torch.Tensor = self.detach().clone()
        if type(self) is torch.nn.Parameter:
            copy = torch.nn.Parameter(copy, self.requires_grad)
        else:
            copy.requires_grad_(self.requires_grad)
        copy.__dict__.update(self.__dict__)
        memo[id(self)] = copy
        if self.grad is not None:
            copy.grad = self.grad.__deepcopy__(memo)
        return copy

    kind.__deepcopy__ = deepcopy


def _make_new_of_plain(bridge: Bridge, kind: type[torch.Tensor]) -> None:
    """new_tensor() and new() take a tensor's device from its dispatch keys, where an unknown one of the host has a key
    that stands for no device."""
    for name in ("new_tensor", "new"):
        plain = getattr(kind, name)

        @functools.wraps(plain)
        def new(
            self: torch.Tensor, *arguments: object, _plain: Callable[..., object] = plain, **named: object
        ) -> object:
            if not self.is_cuda and not bridge.is_known(self):
                self = torch.empty(0, dtype=self.dtype, device=self.device)
            return _plain(self, *arguments, **named)

        setattr(kind, name, new)


def _keep_bookkeeping(bridge: Bridge) -> None:
    """DistributedDataParallel compares sizes of parameters over the ranks, and agrees on buckets, in tensors."""
    reducer = torch._C._distributed_c10d.Reducer
    for owner, name in ((torch.distributed, "_verify_params_across_processes"), (reducer, "_rebuild_buckets")):
        plain: Callable[..., object] | None = getattr(owner, name, None)
        if plain is None:
            continue

        @functools.wraps(plain)
        def exactly(*arguments: object, _plain: Callable[..., object] = plain, **named: object) -> object:
            return bridge.dry_exactly(functools.partial(_plain, *arguments, **named))

        setattr(owner, name, exactly)
