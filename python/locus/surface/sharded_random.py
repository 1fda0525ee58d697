"""Random numbers for sharded tensors: DTensor moves a card's generator on by an offset, so that each shard draws its
own part of one sequence. A simulated generator has no offset; a state for each offset is made of the state before.
"""

from __future__ import annotations

import hashlib
import sys

import torch

_MODULE = "torch.distributed.tensor._random"


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
        seen = bytes(self._start.numpy()) + int(self._offset).to_bytes(8, "little", signed=True)
        seed = int.from_bytes(hashlib.blake2b(seen, digest_size=8).digest(), "little") >> 1
        return torch.Generator("cpu").manual_seed(seed).get_state()

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


def install() -> None:
    """Puts it in the place of the card's, where this PyTorch has that."""
    module = sys.modules[_MODULE]
    if hasattr(module, "_PhiloxState"):
        module._PhiloxState = OffsetState
