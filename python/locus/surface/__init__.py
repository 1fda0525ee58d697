"""What torch.cuda looks like on a simulated machine: installs the parts, in order.

Supplies what torch.cuda's own Python code asks of the C++ side and replaces as little of that code as possible.
Holds no state of devices; the bridge does.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from locus.errors import UsageError
from locus.surface import not_simulated

if TYPE_CHECKING:
    from locus._bridge import Bridge


def install(bridge: Bridge, shared_rng: bool) -> None:
    """Makes torch.cuda show the bridge's devices. PyTorch must be complete, CUDA not in use yet.

    With `shared_rng`, the devices draw from the CPU's generator.
    """
    import torch

    from locus.surface import around, collectives, dry, generators, graphs, legacy, native, pools, streams

    is_cuda_build = hasattr(torch._C, "_cuda_init")  # asked before the answer changes
    native.install(bridge)
    streams.install(bridge)
    graphs.install(bridge)
    pools.install(bridge)
    legacy.install(bridge, is_cuda_build)
    generators.install(bridge)
    not_simulated.install()
    around.install(bridge)
    collectives.install(bridge)
    if shared_rng:
        native.share_seeds()
    if bridge.is_dry():
        dry.install(bridge)


def hide_cuda() -> None:
    """Makes this a machine without CUDA, also where the real one has a GPU."""
    import torch

    if torch.cuda.is_initialized():
        raise UsageError(
            "devices=0 asks for a machine without CUDA, but this process has used a real GPU already. "
            "Call simulate() before the program uses CUDA."
        )
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    if not torch.backends.cuda.is_built():
        return

    def no_devices() -> None:
        raise RuntimeError("No CUDA GPUs are available")

    # The variable alone is too late when the driver was asked before, by is_available() for one.
    torch._C._cuda_getDeviceCount = lambda: 0
    torch._C._cuda_init = no_devices
    torch.cuda._cached_device_count = None
