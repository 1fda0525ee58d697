"""The C++ functions that torch.cuda's Python code calls (`torch._C._cuda_*`), answered by the bridge.

On a CUDA build they replace the real ones, which would ask the driver. No torch.cuda function is rewritten here
unless it asks NVML.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import torch
from torch._utils import _LazySeedTracker

from locus.errors import NotSimulated
from locus.surface import comm, not_simulated, saying, streams

if TYPE_CHECKING:
    from locus._bridge import Bridge


# What a release of PyTorch for CUDA is built for; the simulated card must be among them.
_ARCHITECTURES = "sm_75 sm_80 sm_86 sm_90 sm_100 sm_120"
_CUDA_VERSION = "13.0"


class DeviceProperties:
    """What torch.cuda.get_device_properties() returns."""

    name: str
    uuid: str
    major: int
    minor: int
    total_memory: int
    multi_processor_count: int
    pci_bus_id: int
    pci_device_id: int
    pci_domain_id: int
    L2_cache_size: int

    def __init__(self, values: Mapping[str, object]):
        self.__dict__.update(values)

    def __repr__(self) -> str:
        mib = 1 << 20
        return (
            f"_CudaDeviceProperties(name='{self.name}', major={self.major}, minor={self.minor}, "
            f"total_memory={self.total_memory // mib}MB, multi_processor_count={self.multi_processor_count}, "
            f"uuid={self.uuid}, pci_bus_id={self.pci_bus_id}, pci_device_id={self.pci_device_id}, "
            f"pci_domain_id={self.pci_domain_id}, L2_cache_size={self.L2_cache_size // mib}MB)"
        )


DeviceProperties.__name__ = DeviceProperties.__qualname__ = "_CudaDeviceProperties"


class cudaError(int):
    """A status of the CUDA runtime."""

    success: cudaError

    @property
    def value(self) -> int:
        """The status as a number."""
        return int(self)


cudaError.success = cudaError(0)


_Error = cudaError


class Cudart:
    """The few functions of the CUDA runtime that make sense on a simulated device."""

    cudaError = cudaError

    def __init__(self, bridge: Bridge):
        self.cudaMemGetInfo = bridge.memory_info

    @staticmethod
    def cudaProfilerStart() -> _Error:
        """Does nothing: no profiler watches a simulated device."""
        return cudaError.success

    cudaProfilerStop = cudaProfilerStart

    @staticmethod
    def cudaGetErrorString(error: int) -> str:
        """The runtime's words for a status."""
        return {0: "no error", 34: "CUDA driver is a stub library", 600: "device not ready"}.get(
            int(error), "unrecognized error code"
        )

    def __getattr__(self, name: str) -> object:
        if name.startswith("_"):
            raise AttributeError(name)
        raise not_simulated.error("torch.cuda.cudart", f"torch.cuda.cudart().{name}")


class _Setting:
    """A value that can be set and read back, and changes nothing on a simulated device."""

    def __init__(self, value: object):
        self._value = value

    def get(self) -> object:
        return self._value

    def set(self, value: object) -> None:
        self._value = value


def _nothing(*args: object, **kwargs: object) -> None:
    """For calls that only matter to a real device."""


def _device_functions(bridge: Bridge) -> dict[str, Callable[..., object]]:
    def initialize() -> None:
        bridge.mark_used()
        if bridge.devices() == 0:  # the program hides them all
            raise RuntimeError("No CUDA GPUs are available")
        if bridge.read_allocator_environment():
            saying.once("backend:cudaMallocAsync is counted as PyTorch's own allocator on simulated devices")
        made = tuple(bridge.default_generator(i) for i in range(bridge.devices()))
        torch.cuda.default_generators = made  # type: ignore[assignment]

    def device_count() -> int:
        bridge.mark_used()  # asking the runtime starts it, so a later fork is as bad as after real use
        return bridge.devices()

    def get_device() -> int:
        torch.cuda._lazy_init()
        return bridge.get_device()

    def set_device(index: int) -> None:
        torch.cuda._lazy_init()
        bridge.set_device(index)

    def exchange_device(index: int) -> int:
        if index < 0:
            return -1
        torch.cuda._lazy_init()
        return bridge.exchange_device(index)

    def maybe_exchange_device(index: int) -> int:
        if index < 0:
            return -1
        torch.cuda._lazy_init()
        return bridge.maybe_exchange_device(index)

    sync_debug_mode = _Setting(0)
    return {
        "_cuda_init": initialize,
        "_cuda_isInBadFork": bridge.in_bad_fork,
        "_cuda_getDeviceCount": device_count,
        "_cuda_getDevice": get_device,
        "_cuda_setDevice": set_device,
        "_cuda_exchangeDevice": exchange_device,
        "_cuda_maybeExchangeDevice": maybe_exchange_device,
        "_cuda_synchronize": lambda: bridge.synchronize(-1),
        "_cuda_hasPrimaryContext": lambda index: torch.cuda.is_initialized(),
        "_cuda_canDeviceAccessPeer": lambda device, peer: device != peer,
        "_cuda_getArchFlags": lambda: _ARCHITECTURES,
        "_cuda_getCompiledVersion": lambda: 13000,
        "_cuda_set_sync_debug_mode": sync_debug_mode.set,
        "_cuda_get_sync_debug_mode": sync_debug_mode.get,
        "_cuda_sleep": _nothing,
        "_cuda_ipc_collect": _nothing,
        "_cuda_isCurrentStreamCapturing": bridge.is_capturing,
    }


def _stream_functions(bridge: Bridge) -> dict[str, Callable[..., object]]:
    def set_stream(stream_id: int, device_index: int, device_type: int) -> None:
        torch.cuda._lazy_init()
        if bridge.get_device() != device_index:  # as in PyTorch: a stream brings its device along
            bridge.set_device(device_index)
        bridge.set_stream(stream_id, device_index, device_type)

    return {
        "_cuda_getCurrentStream": bridge.current_stream,
        "_cuda_getDefaultStream": bridge.default_stream,
        "_cuda_getCurrentRawStream": bridge.raw_stream,
        "_cuda_getStreamFromExternal": streams.stream_from_handle,
        "_cuda_setStream": set_stream,
    }


def _memory_functions(bridge: Bridge) -> dict[str, Callable[..., object]]:
    def snapshot(pool: tuple[int, ...] | None = None) -> dict[str, object]:
        wanted = (pool or (0, 0))[:2]  # from 2.11 on with a third element: whether traces are wanted
        return {
            "segments": [s for s in bridge.memory_snapshot() if wanted in ((0, 0), s["segment_pool_id"])],
            "device_traces": bridge.memory_traces(),
            "allocator_settings": bridge.allocator_settings(),
            "external_annotations": [],
        }

    def record(
        enabled: str | None, context: str | None, stacks: str, most: int, clear: bool = False, *rest: object
    ) -> None:
        if enabled not in (None, "state", "all"):
            raise RuntimeError(f"expected state to be 'state', 'all', or None, but got {enabled}")
        if context not in (None, "state", "alloc", "all"):
            raise RuntimeError("expected context to be 'state', 'alloc', 'all', or None")
        if stacks not in ("python", "all"):
            raise RuntimeError("expected stacks to be 'python', or 'all'")
        skipped = rest[-1] if rest and isinstance(rest[-1], list) else []
        most = min(most, sys.maxsize)
        bridge.record_memory_history(enabled is not None, enabled == "all", context is not None, most, clear, skipped)

    def record_legacy(enabled: bool, context: bool = True, most: int = 1, *rest: object) -> None:
        bridge.record_memory_history(enabled, most > 1, context, most, False, [])

    caching, metadata = _Setting(True), _Setting("")
    workspace, lt_workspace = _Setting(0), _Setting(0)
    return {
        "_cuda_memoryStats": bridge.memory_stats,
        "_cuda_resetPeakMemoryStats": bridge.reset_peak_memory_stats,
        "_cuda_resetAccumulatedMemoryStats": bridge.reset_accumulated_memory_stats,
        "_cuda_setMemoryFraction": bridge.set_memory_fraction,
        "_cuda_getMemoryFraction": bridge.get_memory_fraction,
        "_cuda_emptyCache": bridge.empty_cache,
        "_cuda_memorySnapshot": snapshot,
        "_cuda_cudaCachingAllocator_raw_alloc": bridge.raw_alloc,
        "_cuda_cudaCachingAllocator_raw_delete": bridge.raw_delete,
        "_cuda_cudaCachingAllocator_enable": caching.set,
        "_cuda_cudaCachingAllocator_is_enabled": caching.get,
        "_cuda_getAllocatorBackend": lambda: "native",
        "_cuda_record_memory_history": record,
        "_cuda_record_memory_history_legacy": record_legacy,
        "_cuda_isHistoryEnabled": bridge.records_memory_history,
        "_cuda_attach_out_of_memory_observer": bridge.attach_out_of_memory_observer,
        "_cuda_memoryMetadataSupported": lambda: False,
        "_cuda_setMemoryMetadata": metadata.set,
        "_cuda_getMemoryMetadata": metadata.get,
        "_cuda_annotateMemory": _nothing,
        "_cuda_cudaCachingAllocator_set_allocator_settings": bridge.set_allocator_settings,
        "_accelerator_setAllocatorSettings": bridge.set_allocator_settings,
        "_cuda_lock_mutex": _nothing,
        "_cuda_unlock_mutex": _nothing,
        "_cuda_clearCublasWorkspaces": bridge.clear_blas_workspaces,
        "_cuda_setCublasWorkspaceSize": workspace.set,
        "_cuda_getCublasWorkspaceSize": workspace.get,
        "_cuda_resetCublasWorkspaceSize": lambda: workspace.set(0),
        "_cuda_setCublasLtWorkspaceSize": lt_workspace.set,
        "_cuda_getCublasLtWorkspaceSize": lt_workspace.get,
        "_cuda_resetCublasLtWorkspaceSize": lambda: lt_workspace.set(0),
        "_host_emptyCache": bridge.empty_host_cache,
        "_accelerator_emptyHostCache": bridge.empty_host_cache,
        "_cuda_hostMemoryStats": bridge.host_memory_stats,
        "_cuda_resetPeakHostMemoryStats": bridge.reset_peak_host_memory_stats,
        "_cuda_resetAccumulatedHostMemoryStats": bridge.reset_accumulated_host_memory_stats,
    }


# Pure settings of a CUDA build that need no device; left as they are.
_LEFT_ALONE = ("_cuda_get_cudnn_benchmark_limit", "_cuda_set_cudnn_benchmark_limit", "_cuda_tunableop_is_enabled")


def _refuse_the_rest(provided: dict[str, Callable[..., object]]) -> None:
    """On a CUDA build, what is not provided would reach for the driver: refuse it by name instead."""
    for name in dir(torch._C):
        if not name.startswith("_cuda_") or name in provided or name in _LEFT_ALONE:
            continue
        if callable(getattr(torch._C, name)) and not isinstance(getattr(torch._C, name), type):
            setattr(torch._C, name, _refusal(f"torch._C.{name}"))


def _refusal(name: str) -> Callable[..., object]:
    def refuse(*args: object, **kwargs: object) -> object:
        raise NotSimulated(f"{name} is not simulated by Locus: call the public torch.cuda function instead.")

    return refuse


def install(bridge: Bridge) -> None:
    """Supplies torch._C's CUDA functions and puts torch.cuda back to "not initialized yet"."""
    provided = {
        **_device_functions(bridge),
        **_stream_functions(bridge),
        **_memory_functions(bridge),
        **comm.functions(),
    }
    _refuse_the_rest(provided)
    for name, function in provided.items():
        setattr(torch._C, name, function)
    torch._C._has_cuda = True
    torch._C._CudaDeviceProperties = DeviceProperties  # type: ignore[assignment, misc]
    torch.cuda._CudaDeviceProperties = DeviceProperties  # type: ignore[assignment]
    torch._C._cudart = torch.cuda._cudart = Cudart(bridge)  # type: ignore[attr-defined]
    if torch.version.cuda is None:
        torch.version.cuda = _CUDA_VERSION

    cuda = torch.cuda
    properties: list[DeviceProperties | None] = [None] * bridge.devices()

    def get_properties(index: int) -> DeviceProperties:
        known = properties[index]
        if known is None:
            known = properties[index] = DeviceProperties(bridge.properties(index))
        return known

    # Names that torch.cuda took from torch._C when it was imported, or had made up for lack of them.
    cuda._get_device_properties = get_properties  # type: ignore[attr-defined]
    cuda._is_in_bad_fork = bridge.in_bad_fork
    cuda._exchange_device = provided["_cuda_exchangeDevice"]  # type: ignore[assignment]
    cuda._maybe_exchange_device = provided["_cuda_maybeExchangeDevice"]  # type: ignore[assignment]
    capturing = provided["_cuda_isCurrentStreamCapturing"]
    cuda.graphs._cuda_isCurrentStreamCapturing = capturing  # type: ignore[attr-defined, assignment]
    # NVML, which needs no runtime, is asked first; it must not see the real machine.
    cuda._device_count_nvml = bridge.devices
    cuda._cached_device_count = None
    _install_without_nvml(bridge)


def share_seeds() -> None:
    """Seeds the one generator that CPU and devices share when asked to, not once more when CUDA is first used."""

    def manual_seed(seed: int) -> None:
        torch.default_generator.manual_seed(int(seed))

    for module in (torch.cuda, torch.cuda.random):
        module.manual_seed = module.manual_seed_all = manual_seed  # type: ignore[attr-defined]
    # Seeds that wait for CUDA's first use were given to the CPU's generator already.
    torch.cuda._lazy_seed_tracker = _LazySeedTracker()


def _install_without_nvml(bridge: Bridge) -> None:
    def index_of(device: streams.Device) -> int:
        torch.cuda._lazy_init()
        return torch.cuda._utils._get_device_index(device, optional=True)

    def device_memory_used(device: streams.Device = None) -> int:
        """Bytes in use on the device."""
        free, total = bridge.memory_info(index_of(device))
        return total - free

    def list_gpu_processes(device: streams.Device = None) -> str:
        """The processes on the device: this one, if it has used any memory."""
        index = index_of(device)
        used = device_memory_used(index) / (1 << 20)
        line = f"process {os.getpid():>10d} uses {used:>12.3f} MB GPU memory" if used else "no processes are running"
        return f"GPU:{index}\n{line}"

    torch.cuda.device_memory_used = device_memory_used
    torch.cuda.list_gpu_processes = torch.cuda.memory.list_gpu_processes = list_gpu_processes
