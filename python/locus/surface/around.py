"""The places outside torch.cuda that would ask for a real GPU: torch.compile, the profiler, NVTX, NCCL.

Each is made to do nothing harmful; what that means is said once on stderr where a program could notice.
"""

from __future__ import annotations

import atexit
import faulthandler
import functools
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import torch
import torch.autograd.profiler

from locus.surface import saying

if TYPE_CHECKING:
    from locus._bridge import Bridge


def _install_compile() -> None:
    original = torch.compile

    @functools.wraps(original)
    def compile(model: Callable[..., object] | None = None, *, disable: bool = False, **kwargs: object) -> object:
        if not disable:
            saying.once("torch.compile runs eagerly on simulated devices")
        if model is None:
            return lambda decorated: decorated
        if not callable(model):
            raise RuntimeError("Unknown model type: torch.compile needs a function or a module")
        return model

    torch.compile = compile  # type: ignore[assignment]


def _install_cudnn() -> None:
    """The kernels are the CPU's. A CPU build warns where it is asked for cuDNN's; a machine with a card does not."""
    if not torch.backends.cudnn.is_available():
        torch.backends.cudnn.is_acceptable = lambda tensor: False


def _install_attention() -> None:
    """None of a card's fused kernels is there to be used; a CUDA build would ask the missing driver."""
    for name in ("_can_use_flash_attention", "_can_use_mem_efficient_attention", "_can_use_cudnn_attention"):
        if hasattr(torch._C, name):
            setattr(torch._C, name, lambda params, debug=False: False)


class _Nvtx:
    """NVTX ranges that nobody records; the depths and numbers are as the real ones."""

    def __init__(self) -> None:
        self._thread = threading.local()
        self._ranges = 0

    def rangePushA(self, message: str) -> int:
        depth = getattr(self._thread, "depth", 0)
        self._thread.depth = depth + 1
        return depth

    def rangePop(self) -> int:
        depth = getattr(self._thread, "depth", 0) - 1
        self._thread.depth = max(depth, 0)
        return depth

    def rangeStartA(self, message: str) -> int:
        self._ranges += 1
        return self._ranges

    def rangeEnd(self, number: int) -> None:
        pass

    def markA(self, message: str) -> None:
        pass

    def deviceRangeStart(self, message: str, stream: int) -> object:
        return object()

    def deviceRangeEnd(self, handle: object, stream: int) -> None:
        pass


def _install_profiler() -> None:
    profile = torch.autograd.profiler.profile
    prepare: Callable[..., None] = profile.__init__

    @functools.wraps(prepare)
    def prepare_for_cpu(self: object, enabled: bool = True, **kwargs: object) -> None:
        # Kernels run on the CPU, where the profiler sees them; CUPTI would look for a driver.
        if kwargs.get("use_cuda") or kwargs.get("use_device") == "cuda":
            if enabled:
                saying.once("the profiler shows CPU time only on simulated devices")
            kwargs.update(use_device=None, use_cpu=True)
            kwargs.pop("use_cuda", None)
        prepare(self, enabled, **kwargs)

    profile.__init__ = prepare_for_cpu

    emit_nvtx = torch.autograd.profiler.emit_nvtx
    prepare_nvtx: Callable[..., None] = emit_nvtx.__init__

    @functools.wraps(prepare_nvtx)
    def prepare_disabled(self: object, enabled: bool = True, record_shapes: bool = False) -> None:
        prepare_nvtx(self, False, record_shapes)

    emit_nvtx.__init__ = prepare_disabled


def _let_backward_threads_finish() -> None:
    """PyTorch's threads for backward() let go of Python objects a moment after they are done.

    A program that ends in that very moment would be aborted ("terminate called without an active exception").
    """
    if torch.cuda.is_initialized():
        time.sleep(0.005)


def _install_faults(bridge: Bridge) -> None:
    """A program that asks for Python's own fault handler gets it below Locus's, which would not hear of the address
    from it."""
    for name in ("enable", "disable"):
        original = getattr(faulthandler, name)

        @functools.wraps(original)
        def change(*given: object, original: Callable[..., object] = original, **named: object) -> object:
            bridge.install_fault_handler(False)
            try:
                return original(*given, **named)
            finally:
                bridge.install_fault_handler(True)

        setattr(faulthandler, name, change)


def _install_script() -> None:
    """TorchScript must not compile kernels for a chip that is not there (CUDA builds would)."""
    import torch

    torch._C._jit_override_can_fuse_on_gpu(False)


def install(bridge: Bridge) -> None:
    """Quiets everything that would look for a real GPU."""
    _install_faults(bridge)
    _install_script()
    atexit.register(_let_backward_threads_finish)
    _install_compile()
    _install_cudnn()
    _install_attention()
    _install_profiler()
    torch.cuda.nvtx._nvtx = _Nvtx()  # type: ignore[attr-defined, assignment]
    # torch.cuda.comm asks first and adds up without NCCL when told no.
    torch.cuda.nccl.is_available = lambda tensors: False
    torch.cuda.tunable.is_enabled = torch.cuda.tunable.tuning_is_enabled = lambda: False
