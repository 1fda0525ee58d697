"""torch.cuda.MemPool: device memory that is kept apart from the rest."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

import torch

from locus.surface import not_simulated

if TYPE_CHECKING:
    from locus._bridge import Bridge
    from locus.program.raw_shapes import Segment
    from locus.surface.streams import Device

_bridge: Bridge


class MemPool:
    """A pool of the caching allocator; `with torch.cuda.use_mem_pool(pool)` allocates from it."""

    def __init__(
        self, allocator: object = None, use_on_oom: bool = False, no_split: bool = False, symmetric: bool = False
    ):
        if allocator is not None:
            raise not_simulated.error("torch.cuda.CUDAPluggableAllocator", "torch.cuda.MemPool(allocator)")
        torch.cuda._lazy_init()
        self._device = torch.cuda.current_device()
        self._pool = _bridge.MemoryPool(self._device, use_on_oom, no_split)

    @property
    def id(self) -> tuple[int, int]:
        """The pool's number."""
        return self._pool.id()

    @property
    def allocator(self) -> None:
        """None: memory comes from where all comes from."""
        return

    @property
    def device(self) -> int:
        """The device that was current when the pool was made."""
        return self._device

    def use_count(self) -> int:
        """How many hold it: whoever made it, and each `with` that is open."""
        return self._pool.users()

    def snapshot(self, include_traces: bool = True) -> list[Segment]:
        """The pool's segments, as torch.cuda.memory_snapshot() tells them."""
        return [segment for segment in _bridge.memory_snapshot() if segment["segment_pool_id"] == self.id]


@contextlib.contextmanager
def use_mem_pool(pool: MemPool, device: Device = None) -> Iterator[None]:
    """What this thread allocates on the device comes from the pool."""
    index = torch.cuda.current_device() if device is None else torch.cuda._utils._get_device_index(device)
    pool._pool.enter(index)
    try:
        yield
    finally:
        pool._pool.leave(index)


def install(bridge: Bridge) -> None:
    """Puts both where programs look for them, where this PyTorch has them."""
    global _bridge
    _bridge = bridge
    MemPool.__module__ = use_mem_pool.__module__ = "torch.cuda.memory"
    for module in (torch.cuda, torch.cuda.memory):
        for replacement in (MemPool, use_mem_pool):
            if hasattr(module, replacement.__name__):
                setattr(module, replacement.__name__, replacement)
    torch._C._MemPool = MemPool  # type: ignore[assignment, misc]
