"""What a program may ask and say in a dry run, where most tensors have no values. Harmless in any other run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from locus._load import load_bridge

if TYPE_CHECKING:
    import torch


def is_known(tensor: torch.Tensor) -> bool:
    """Whether the values of a tensor are those of a run with values. False only in a dry run."""
    bridge = load_bridge()
    return not bridge.is_dry() or bridge.is_known(tensor)


def known(tensor: torch.Tensor, value: float) -> torch.Tensor:
    """Says which value every element of a tensor has, for a dry run that does not know; returns the tensor.

        while locus.known(error, 0.0).item() > tolerance: ...

    Where the values are known, and in any run with values, it does nothing.
    """
    load_bridge().set_known(tensor, float(value))
    return tensor
