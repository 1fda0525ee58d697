"""DataParallel refuses, before any operator is called, a module that is not on its first device. While a program is
checked this is a finding, the module is brought there, and the program goes on; otherwise PyTorch's own error stands.
"""

from __future__ import annotations

import functools
import itertools
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from locus._bridge import Bridge
    from locus.program.raw_shapes import RawCase


@functools.cache
def install(bridge: Bridge) -> None:
    """Wraps DataParallel.forward, once a process."""
    original = torch.nn.DataParallel.forward

    @functools.wraps(original)
    def forward(self: torch.nn.DataParallel[torch.nn.Module], *inputs: object, **options: object) -> object:
        if self.device_ids and bridge.policy_state() > 0:
            _check(bridge, self)
        return original(self, *inputs, **options)

    torch.nn.DataParallel.forward = forward  # type: ignore[assignment]


def _check(bridge: Bridge, wrapper: torch.nn.DataParallel[torch.nn.Module]) -> None:
    home = wrapper.src_device_obj
    held = itertools.chain(wrapper.module.parameters(), wrapper.module.buffers())
    elsewhere = [tensor for tensor in held if tensor.device != home]
    if not elsewhere:
        return
    if bridge.report_outside(_raw(elsewhere[0], home)) is None:
        return  # the program gets DataParallel's own error
    for tensor in elsewhere:
        tensor.data = bridge.move_unseen(tensor.data, str(home))


def _raw(tensor: torch.Tensor, home: torch.device) -> RawCase:
    return {
        "kind": "operator", "overload": "DataParallel", "device": str(home),
        "error": f"module must have its parameters and buffers on device {home} (device_ids[0]) but found one of them "
        f"on device: {tensor.device}",
        "operands": [{"argument": "module", "position": 0, "index": -1, "tensor": tensor, "odd": True, "rule": "same",
                      "written": False}],
    }  # fmt: skip
