"""Random numbers for sharded tensors: DTensor moves a card's generator on by an offset, so that each shard draws its
own part of one sequence. A simulated generator has no offset; a state for each offset is made of the state before.
"""

from __future__ import annotations

import functools
import hashlib
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from types import ModuleType


class OffsetState:
    """A generator's state with an offset, as torch.distributed.tensor._random._PhiloxState has it: the same state and
    offset give the same numbers on every rank, another offset gives others.
    """

    def __init__(self, state: torch.Tensor):
        self._start = state.to("cpu")
        self._offset = torch.zeros(1, dtype=torch.int64)

    @property
    def state(self) -> torch.Tensor:
        """What the generator is set to."""
        if not int(self._offset):
            return self._start
        return _state_of(bytes(self._start.numpy()) + int(self._offset).to_bytes(8, "little", signed=True))

    @property
    def offset(self) -> torch.Tensor:
        """How far from the state that it began with."""
        return self._offset

    @offset.setter
    def offset(self, offset: torch.Tensor) -> None:
        self._offset = offset.reshape(1).to(torch.int64).clone()

    @property
    def seed(self) -> torch.Tensor:
        """The seed's eight bytes."""
        return self._start[:8].view(dtype=torch.uint64)

    @seed.setter
    def seed(self, seed: torch.Tensor) -> None:
        self._start, self._offset = torch.Generator("cpu").manual_seed(int(seed)).get_state(), self._offset * 0


class _Device:
    """torch.cuda for a PyTorch that has the seed and the offset in one tensor of 16 bytes (2.6)."""

    def __init__(self, module: ModuleType):
        self._module = module

    def __getattr__(self, name: str) -> object:
        return getattr(self._module, name)

    def set_rng_state(self, seed_and_offset: torch.Tensor) -> None:
        """As on a card, whose generator takes such a state."""
        self._module.set_rng_state(_state_of(bytes(seed_and_offset.numpy())))


def _seed_of(seen: bytes) -> int:
    return int.from_bytes(hashlib.blake2b(seen, digest_size=8).digest(), "little") >> 1


def _state_of(seen: bytes) -> torch.Tensor:
    return torch.Generator("cpu").manual_seed(_seed_of(seen)).get_state()


def install(module: ModuleType) -> None:
    """Puts it in the place of the card's."""
    if hasattr(module, "_PhiloxState"):
        module._PhiloxState = OffsetState  # type: ignore[attr-defined]
        return
    original = module.OffsetBasedRNGTracker.__init__

    @functools.wraps(original)
    def __init__(self: Any, *arguments: object, **options: object) -> None:
        original(self, *arguments, **options)
        for name, state in list(self.rng_states.items()):
            self.set_seed(name, _seed_of(bytes(state.numpy())))
        self._device_handle = _Device(self._device_handle)

    module.OffsetBasedRNGTracker.__init__ = __init__
