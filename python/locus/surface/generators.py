"""torch.Generator(device="cuda"), where PyTorch asks its own build for CUDA's generators: before 2.7."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch.torch_version import TorchVersion

if TYPE_CHECKING:
    from locus._bridge import Bridge


def install(bridge: Bridge) -> None:
    """Puts a class that knows simulated devices in the place of torch.Generator; later versions need none."""
    if TorchVersion(torch.__version__) >= (2, 7):  # type: ignore[operator]
        return
    native = torch.Generator

    class GeneratorType(type):
        """Makes PyTorch's own objects, which are its instances."""

        def __call__(cls, device: str | int | torch.device = "cpu") -> torch.Generator:
            wanted = torch.device(device)
            if wanted.type != "cuda":
                return native(device=device)
            torch.cuda._lazy_init()
            return bridge.new_generator(torch.cuda.current_device() if wanted.index is None else wanted.index)

        def __instancecheck__(cls, instance: object) -> bool:
            return isinstance(instance, native)

        def __subclasscheck__(cls, subclass: type) -> bool:
            return issubclass(subclass, native)

    members = {"__module__": "torch", "__qualname__": "Generator", "__doc__": native.__doc__}
    torch.Generator = GeneratorType("Generator", (), members)  # type: ignore[assignment, misc]
