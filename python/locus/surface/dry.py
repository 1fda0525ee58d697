"""What a dry run changes in PyTorch's Python code: places where values pass by the operators."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from locus._bridge import Bridge

_PASSED_THROUGH = 1 << 20
"""Bytes; files with larger tensors are written and read without them."""


def install(bridge: Bridge) -> None:
    """Counts host reads that no operator sees, and lets large tensors pass through copies and files without bytes."""
    _count_reads(bridge, torch.Tensor)
    _copy_without_bytes(bridge, torch.Tensor)
    _make_new_of_plain(bridge, torch.Tensor)
    _save_without_bytes(bridge)
    _load_without_bytes()


def _count_reads(bridge: Bridge, kind: type[torch.Tensor]) -> None:
    """tolist() and numpy() of a host tensor read its memory."""
    for name in ("tolist", "numpy"):
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


def _save_without_bytes(bridge: Bridge) -> None:
    """torch.save(): what has no values leaves a hole in the file."""
    skip = getattr(torch.serialization, "skip_data", None)
    if skip is None:
        return
    plain = torch.save

    @functools.wraps(plain)
    def save(obj: object, f: object, *arguments: object, **named: object) -> object:
        if not _has_large_unknown(bridge, obj):
            return plain(obj, f, *arguments, **named)  # type: ignore[arg-type]
        with skip():
            return plain(obj, f, *arguments, **named)  # type: ignore[arg-type]

    torch.save = save  # type: ignore[assignment]


def _load_without_bytes() -> None:
    """torch.load(): a file is mapped, not read, where that is possible."""
    plain = torch.load

    @functools.wraps(plain)
    def load(f: object, *arguments: object, **named: object) -> object:
        if isinstance(f, (str, os.PathLike)) and "mmap" not in named and _is_large_archive(f):
            named["mmap"] = True
        return plain(f, *arguments, **named)  # type: ignore[arg-type]

    torch.load = load


def _is_large_archive(path: str | os.PathLike[str]) -> bool:
    try:
        name = os.fspath(path)
        with open(name, "rb") as file:
            return file.read(4) == b"PK\x03\x04" and os.path.getsize(name) > _PASSED_THROUGH
    except OSError:
        return False


def _has_large_unknown(bridge: Bridge, value: object, depth: int = 6) -> bool:
    if isinstance(value, torch.Tensor):
        return value.nbytes > _PASSED_THROUGH and not bridge.is_known(value)
    if isinstance(value, torch.nn.Module):
        return any(_has_large_unknown(bridge, each, 0) for each in value.state_dict().values())
    if depth == 0:
        return False
    if isinstance(value, dict):
        return any(_has_large_unknown(bridge, each, depth - 1) for each in value.values())
    if isinstance(value, (list, tuple)):
        return any(_has_large_unknown(bridge, each, depth - 1) for each in value)
    return False
