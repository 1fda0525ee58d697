"""Host code that looks into a CUDA tensor without an operator: .numpy(), what calls it, numpy.from_dlpack().

Under a policy that goes on this is a mistake like any other and the program goes on with a copy; else PyTorch's own
error stands.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from locus._bridge import Bridge
    from locus.program.raw_shapes import RawCase


@functools.cache
def install(bridge: Bridge) -> None:
    """Wraps Tensor.numpy, Tensor.tolist and numpy.from_dlpack, once a process."""
    original: Callable[..., object] = torch.Tensor.numpy

    @functools.wraps(original)
    def numpy(self: torch.Tensor, *arguments: object, **options: object) -> object:
        if bridge.policy_state() <= 0 or options.get("force"):
            return original(self, *arguments, **options)
        if self.is_cuda:
            target = bridge.report_outside(_raw(self, "numpy"))
            copy = self if target is None else bridge.move_unseen(self.detach(), "cpu")
            return original(copy, *arguments, **options)
        if not self.requires_grad:
            bridge.check_host_read(self, "numpy")
        return original(self, *arguments, **options)

    torch.Tensor.numpy = numpy  # type: ignore[assignment]

    original_list = torch.Tensor.tolist

    @functools.wraps(original_list)
    def tolist(self: torch.Tensor) -> object:
        if not self.is_cuda and bridge.policy_state() > 0:
            bridge.check_host_read(self, "tolist")
        return original_list(self)

    torch.Tensor.tolist = tolist  # type: ignore[assignment]

    library = sys.modules.get("numpy")
    original_dlpack = getattr(library, "from_dlpack", None)
    if library is None or original_dlpack is None:
        return

    @functools.wraps(original_dlpack)
    def from_dlpack(x: object, *arguments: object, **options: object) -> object:
        if isinstance(x, torch.Tensor) and bridge.policy_state() > 0:
            if x.is_cuda and bridge.report_outside(_raw(x, "from_dlpack")) is not None:
                x = bridge.move_unseen(x.detach(), "cpu")
            elif not x.is_cuda:
                bridge.check_host_read(x, "from_dlpack")
        return original_dlpack(x, *arguments, **options)

    library.from_dlpack = from_dlpack  # type: ignore[attr-defined]


def _raw(tensor: torch.Tensor, op: str) -> RawCase:
    return {
        "kind": "host-access", "overload": op, "device": str(tensor.device),
        "error": f"can't convert {tensor.device} device type tensor to numpy. Use Tensor.cpu() to copy the tensor to "
        "host memory first.",
        "operands": [{"argument": "self", "position": 0, "index": -1, "tensor": tensor, "odd": True, "rule": "same",
                      "written": False}],
    }  # fmt: skip
