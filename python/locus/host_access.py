"""Host code that looks into a CUDA tensor without an operator: .numpy() and what calls it. Under a policy that goes on
this is a mistake like any other and the program goes on with a copy; else PyTorch's own error stands.
"""

from __future__ import annotations

import functools
from typing import Any

_installed = False


def install(bridge: Any) -> None:
    """Wraps Tensor.numpy and Tensor.tolist, once a process."""
    global _installed
    if _installed:
        return
    _installed = True
    import torch

    original = torch.Tensor.numpy

    @functools.wraps(original)
    def numpy(self: Any, *arguments: Any, **options: Any) -> Any:
        if bridge.policy_state() <= 0 or options.get("force"):
            return original(self, *arguments, **options)
        if self.is_cuda:
            target = bridge.report_outside(_raw(self))
            copy = self if target is None else bridge.move_unseen(self.detach(), "cpu")
            return original(copy, *arguments, **options)
        if not self.requires_grad:
            bridge.check_host_read(self)
        return original(self, *arguments, **options)

    torch.Tensor.numpy = numpy

    original_list = torch.Tensor.tolist

    @functools.wraps(original_list)
    def tolist(self: Any) -> Any:
        if not self.is_cuda and bridge.policy_state() > 0:
            bridge.check_host_read(self)
        return original_list(self)

    torch.Tensor.tolist = tolist


def _raw(tensor: Any) -> dict[str, Any]:
    return {
        "kind": "host-access", "overload": "numpy", "device": str(tensor.device),
        "error": f"can't convert {tensor.device} device type tensor to numpy. Use Tensor.cpu() to copy the tensor to "
        "host memory first.",
        "operands": [{"argument": "self", "position": 0, "index": -1, "tensor": tensor, "odd": True, "rule": "same",
                      "written": False}],
    }  # fmt: skip
