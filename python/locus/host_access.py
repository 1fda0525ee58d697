"""Host code that looks into a CUDA tensor without an operator: .numpy() and what calls it. While a program is checked
this is a finding and the program goes on with a copy; otherwise PyTorch's own error stands.
"""

from __future__ import annotations

import functools
from typing import Any

_installed = False


def install(session: Any) -> None:
    """Wraps Tensor.numpy and Tensor.tolist, once a process."""
    global _installed
    if _installed:
        return
    _installed = True
    import torch

    original = torch.Tensor.numpy

    @functools.wraps(original)
    def numpy(self: Any, *arguments: Any, **options: Any) -> Any:
        bridge = session.bridge
        if bridge is None or not bridge.door_is_open() or options.get("force"):
            return original(self, *arguments, **options)
        if self.is_cuda:
            raising, _ = session.report(_raw(bridge, self, "host-access"))
            return original(self if raising else self.detach().cpu(), *arguments, **options)
        if not self.requires_grad:
            bridge.check_host_read(self)
        return original(self, *arguments, **options)

    torch.Tensor.numpy = numpy

    original_list = torch.Tensor.tolist

    @functools.wraps(original_list)
    def tolist(self: Any) -> Any:
        if not self.is_cuda and session.bridge is not None and session.bridge.door_is_open():
            session.bridge.check_host_read(self)
        return original_list(self)

    torch.Tensor.tolist = tolist


def _raw(bridge: Any, tensor: Any, kind: str) -> dict[str, Any]:
    return {
        "kind": kind, "overload": "numpy", "device": str(tensor.device), "in_backward": False, "forward_site": 0,
        "site": bridge.current_site(), "step": bridge.steps(), "key": 0,
        "error": f"can't convert {tensor.device} device type tensor to numpy. Use Tensor.cpu() to copy the tensor to "
        "host memory first.",
        "operands": [{"argument": "self", "position": 0, "index": -1, "tensor": tensor, "odd": True, "rule": "same",
                      "written": False}],
    }  # fmt: skip
