"""DataParallel refuses, before any operator is called, a module that is not on its first device. While a program is
checked this is a finding, the module is brought there, and the program goes on; otherwise PyTorch's own error stands.
"""

from __future__ import annotations

import functools
import itertools
from typing import Any

_installed = False


def install(session: Any) -> None:
    """Wraps DataParallel.forward, once a process."""
    global _installed
    if _installed:
        return
    _installed = True
    import torch

    original = torch.nn.DataParallel.forward

    @functools.wraps(original)
    def forward(self: Any, *inputs: Any, **options: Any) -> Any:
        bridge = session.bridge
        if bridge is not None and self.device_ids and bridge.door_is_open():
            _check(session, self)
        return original(self, *inputs, **options)

    torch.nn.DataParallel.forward = forward


def _check(session: Any, wrapper: Any) -> None:
    home = wrapper.src_device_obj
    held = itertools.chain(wrapper.module.parameters(), wrapper.module.buffers())
    elsewhere = [tensor for tensor in held if tensor.device != home]
    if not elsewhere:
        return
    raising, _ = session.report(_raw(session.bridge, elsewhere[0], home))
    if raising:
        return
    import torch

    with torch.no_grad():
        for tensor in elsewhere:
            tensor.data = tensor.data.to(home)


def _raw(bridge: Any, tensor: Any, home: Any) -> dict[str, Any]:
    return {
        "kind": "operator", "overload": "DataParallel", "device": str(home), "in_backward": False, "forward_site": 0,
        "site": bridge.current_site(), "step": bridge.steps(), "key": 0,
        "error": f"module must have its parameters and buffers on device {home} (device_ids[0]) but found one of them "
        f"on device: {tensor.device}",
        "operands": [{"argument": "module", "position": 0, "index": -1, "tensor": tensor, "odd": True, "rule": "same",
                      "written": False}],
    }  # fmt: skip
