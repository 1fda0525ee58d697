"""torch.distributed on simulated devices: the backend "nccl" is there, and PyTorch's Gloo carries its bytes.

What NCCL accepts and how its calls are made of Gloo's is decided in C++ (locus/bridge/distributed/carrier.cc); here the
names that programs use get their meaning.
"""

from __future__ import annotations

import contextlib
import datetime
import functools
import os
from typing import TYPE_CHECKING, Any

import torch

from locus.after_import import after_import
from locus.program import alone
from locus.surface import alone as alone_surface
from locus.surface import sharded_random

if TYPE_CHECKING:
    from types import ModuleType

    from torch.distributed.distributed_c10d import Backend, ProcessGroup, Store

    from locus._bridge import Bridge, ProcessGroupNCCL


_VERSION = (2, 27, 5)
_LOCAL = ("localhost", "127.0.0.1", "::1")


def install(bridge: Bridge) -> None:
    """Makes `init_process_group("nccl")` work; nothing where PyTorch was built without torch.distributed."""
    if not torch.distributed.is_available() or not torch.distributed.is_gloo_available():
        return
    from torch.distributed import distributed_c10d as c10d

    try:
        group = bridge.define_process_group(_make_gloo)
    except (ImportError, TypeError, RuntimeError):
        return  # a torch.distributed of another shape: without NCCL, as it was built
    group.__module__ = c10d.__name__
    _name_the_rest(group)
    for module in (c10d, torch.distributed, torch._C._distributed_c10d):
        module.ProcessGroupNCCL = group  # type: ignore[attr-defined]
    c10d._NCCL_AVAILABLE = True
    limit = datetime.timedelta(minutes=10)
    constants = torch.distributed.constants
    for module in (constants, c10d):
        if getattr(module, "default_pg_nccl_timeout", limit) is None:
            module.default_pg_nccl_timeout = limit  # type: ignore[attr-defined]
    if alone.is_alone():
        alone_surface.install(bridge)
    _let_gloo_have_device_tensors(c10d, group)
    after_import("torch.distributed.tensor._random", sharded_random.install)
    torch.cuda.nccl.version = lambda: _VERSION


def _make_gloo(store: Store, rank: int, size: int, timeout: datetime.timedelta) -> Backend:
    """The Gloo group that carries the bytes of one NCCL group."""
    from torch.distributed import distributed_c10d as c10d

    store = c10d.PrefixStore("locus", store)
    gloo = c10d.ProcessGroupGloo
    options_class = getattr(gloo, "_Options", None) or getattr(gloo, "Options", None)
    if options_class is not None and not os.environ.get("GLOO_SOCKET_IFNAME") and _is_local():
        with contextlib.suppress(Exception):  # a PyTorch that wants it otherwise: let it choose
            options = options_class()
            options._devices = [gloo.create_device(hostname="127.0.0.1")]
            options._timeout = timeout
            return gloo(store, rank, size, options)  # type: ignore[return-value]  # torch leaves its base out
    return gloo(store, rank, size, timeout=timeout)  # type: ignore[return-value]


def _is_local() -> bool:
    """Whether all ranks are on this machine, so that its name need not lead anywhere."""
    one_host = os.environ.get("GROUP_WORLD_SIZE", "1") in ("", "1") or alone.ONE_MACHINE_VARIABLE in os.environ
    return os.environ.get("MASTER_ADDR", "localhost") in _LOCAL and one_host


def _name_the_rest(group: Any) -> None:
    """What else programs and PyTorch itself ask of ProcessGroupNCCL."""
    group.uid = property(lambda self: 0)
    group._is_initialized = lambda self: True
    group._shutdown = group.abort = lambda self, *_: None
    group._group_start = group._group_end = lambda self: None
    group._add_ephemeral_timeout = lambda self, timeout: None
    group.perform_nocolor_split = lambda self, device: None
    group.comm_split_count = lambda self: 0
    group.get_build_nccl_version = group.get_runtime_nccl_version = staticmethod(lambda: _VERSION)
    group.NCCLConfig = type("NCCLConfig", (), {"blocking": 1, "cga_cluster_size": 0, "min_ctas": 0, "max_ctas": 0})
    group.Options.config = property(lambda self: self.__dict__.setdefault("_config", group.NCCLConfig()))
    # Collectives without copies from a pool's memory: nothing to be gained here, and nothing else changes.
    group.register_mem_pool = group.deregister_mem_pool = lambda self, *pool: None


def _let_gloo_have_device_tensors(c10d: ModuleType, group: type[ProcessGroupNCCL]) -> None:
    """Gloo follows pointers on the host: for CUDA tensors, it gets their host addresses."""
    register = c10d.ProcessGroup._register_backend

    @functools.wraps(register)
    def register_carried(
        self: ProcessGroup, device: torch.device, backend_type: ProcessGroup.BackendType, backend: Backend | None = None
    ) -> None:
        if torch.device(device).type == "cuda" and isinstance(backend, c10d.ProcessGroupGloo):
            # A type of its own: PyTorch keeps one backend for each type, and the CPU's stays Gloo itself.
            backend, backend_type = group.over_gloo(backend), c10d.ProcessGroup.BackendType.CUSTOM
        register(self, device, backend_type, backend)

    c10d.ProcessGroup._register_backend = register_carried
