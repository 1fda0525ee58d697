"""Typed tensors and storages on simulated devices: torch.cuda.FloatTensor & co, torch.UntypedStorage(device="cuda").

A CUDA build has working typed tensors of its own; only a CPU build's are replaced.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from locus._bridge import Bridge


_TENSOR_NAMES = ("Float", "Double", "Half", "BFloat16", "Byte", "Char", "Short", "Int", "Long", "Bool")


class _TensorType(type):
    """The type of torch.cuda.FloatTensor: a name for a dtype on CUDA that can be called and tested against."""

    native: type
    dtype: torch.dtype
    cpu: Callable[..., torch.Tensor]

    def __call__(cls, *args: Any, **kwargs: Any) -> torch.Tensor:
        torch.cuda._lazy_init()
        device = kwargs.pop("device", None) or "cuda"
        if torch.device(device).type != "cuda":
            raise RuntimeError(f"legacy constructor expects device type: cuda but device type: {device} was passed")
        if len(args) == 1 and isinstance(args[0], torch.Tensor):
            return cls._checked(args[0]).detach()
        if len(args) == 1 and isinstance(args[0], (torch.UntypedStorage, torch.TypedStorage)):
            return torch.empty(0, dtype=cls.dtype, device=args[0].device).set_(args[0])
        return cls.cpu(*args, **kwargs).to(device)

    def _checked(cls, tensor: torch.Tensor) -> torch.Tensor:
        if not isinstance(tensor, cls):
            raise TypeError(f"expected {cls!r} (got {tensor.type()})")
        return tensor

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, cls.native)

    # PyTorch reads a type's C name, "torch.cuda.FloatTensor"; Python code expects the last part of it.
    @property
    def __name__(cls) -> str:  # type: ignore[override]
        return cls.__qualname__

    def __repr__(cls) -> str:
        return f"<class 'torch.cuda.{cls.__qualname__}'>"


def _make_tensor_type(name: str) -> _TensorType:
    native = getattr(torch.cuda, name)
    members = {
        "__module__": "torch.cuda",
        "__qualname__": name,
        "native": native,
        "cpu": getattr(torch, name),
        "dtype": native.dtype,
        "layout": native.layout,
        "is_cuda": True,
        "is_sparse": False,
    }
    return _TensorType(f"torch.cuda.{name}", (), members)


def _install_tensor_types() -> None:
    types: dict[str, _TensorType] = {}
    for kind in _TENSOR_NAMES:
        name = f"{kind}Tensor"
        if hasattr(torch.cuda, name):
            types[f"torch.cuda.{name}"] = _make_tensor_type(name)
            setattr(torch.cuda, name, types[f"torch.cuda.{name}"])

    set_native_default = torch.set_default_tensor_type
    default_is_cuda = False

    def set_default_tensor_type(t: type[torch.Tensor] | str, /) -> None:
        nonlocal default_is_cuda
        chosen = types.get(t) if isinstance(t, str) else t
        if isinstance(chosen, _TensorType):
            if not chosen.dtype.is_floating_point:
                raise TypeError("only floating-point types are supported as the default type")
            torch.set_default_dtype(chosen.dtype)
            torch.set_default_device("cuda")
            default_is_cuda = True
            return
        set_native_default(t)
        if default_is_cuda:
            torch.set_default_device(None)
            default_is_cuda = False

    set_default_tensor_type.__doc__ = set_native_default.__doc__
    torch.set_default_tensor_type = set_default_tensor_type


def _install_storage(bridge: Bridge) -> None:
    storage_type = torch.UntypedStorage
    make_native: Callable[..., torch.UntypedStorage] = storage_type.__new__

    def make_storage(cls: type, *args: Any, **kwargs: Any) -> torch.UntypedStorage:
        device = kwargs.get("device")
        if device is None or torch.device(device).type != "cuda":
            return make_native(cls, *args, **kwargs)
        torch.cuda._lazy_init()
        index = torch.device(device).index
        index = bridge.get_device() if index is None else index
        if not args:
            return bridge.new_storage(0, index)
        if isinstance(args[0], int):
            return bridge.new_storage(args[0], index)
        values = make_native(cls, *args)
        storage = bridge.new_storage(values.nbytes(), index)
        storage.copy_(values, False)
        return storage

    storage_type.__new__ = staticmethod(make_storage)  # type: ignore[assignment]
    if hasattr(bridge, "resize_storage"):
        resize_native: Callable[[torch.UntypedStorage, int], torch.UntypedStorage] = storage_type.resize_

        def resize(self: torch.UntypedStorage, size: int, /) -> torch.UntypedStorage:
            if self.device.type != "cuda":
                return resize_native(self, size)
            bridge.resize_storage(self, size)
            return self

        storage_type.resize_ = resize  # type: ignore[assignment]


def install(bridge: Bridge, is_cuda_build: bool) -> None:
    """Makes the typed names work on simulated devices."""
    _install_storage(bridge)
    if not is_cuda_build:
        _install_tensor_types()
