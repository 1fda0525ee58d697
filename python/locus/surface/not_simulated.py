"""The one table of what simulated devices don't have, and the errors that say so by name.

A name that the installed PyTorch doesn't know is passed over.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from typing import NoReturn

from locus.errors import NotSimulated

_EAGER = "run the same code without a graph; a simulated device has no launch overhead to save."
_DUMP = "a simulated graph is a list of operators; there is no cudaGraph_t behind it."
_POOL = "allocate without it; torch.cuda.memory_allocated() and max_memory_allocated() are simulated."
_SENSOR = "there is no card to measure; guard the call, or read it on a real GPU."
_COLLECTIVE = "use torch.cuda.comm or torch.nn.DataParallel, which are simulated."
_HANDLE = "there is no such library behind a simulated device; call the PyTorch operator instead."
_KERNEL = "write the kernel with PyTorch operators, or test it on a real GPU."
_TUNING = "leave it off; results are those of the CPU kernels, whatever is tuned."
_STORAGE = "use torch.save() and torch.load()."
_SHARING = (
    "a process can't share a simulated device's memory with another; send tensor.cpu() and move it there, "
    "or use one process."
)

NOT_SIMULATED: dict[str, str] = {
    "torch.cuda.CUDAGraph.debug_dump": _DUMP,
    "torch.cuda.CUDAGraph.raw_cuda_graph": _DUMP,
    "torch.cuda.CUDAGraph.raw_cuda_graph_exec": _DUMP,
    "torch.cuda.export_dot": _EAGER,
    "torch.cuda.export_graph_data": _EAGER,
    "torch.cuda.graphs.register_graph_capture_start_hook": _EAGER,
    "torch.cuda.graphs.register_graph_capture_end_hook": _EAGER,
    "torch.cuda.graphs.register_graph_instantiate_hook": _EAGER,
    "torch.cuda.graphs.register_graph_destroy_hook": _EAGER,
    "torch.cuda.graphs.register_graph_replay_end_hook": _EAGER,
    "torch.cuda.graphs.register_graph_replay_start_hook": _EAGER,
    "torch.accelerator.Graph.debug_dump": _DUMP,
    "torch.cuda.MemPoolContext": _POOL,
    "torch.cuda.CUDAPluggableAllocator": _POOL,
    "torch.cuda.change_current_allocator": _POOL,
    "torch.cuda.memory._get_current_allocator": _POOL,
    "torch.cuda.memory._host_allocator": _POOL,
    "torch.cuda.utilization": _SENSOR,
    "torch.cuda.memory_usage": _SENSOR,
    "torch.cuda.temperature": _SENSOR,
    "torch.cuda.power_draw": _SENSOR,
    "torch.cuda.clock_rate": _SENSOR,
    "torch.cuda.current_blas_handle": _HANDLE,
    "torch.cuda.current_solver_handle": _HANDLE,
    "torch.cuda.GreenContext": "use torch.cuda.Stream; a simulated device has no multiprocessors to share out.",
    "torch.cuda._compile_kernel": _KERNEL,
    # Making one is harmless, and libraries do so when they are imported; launching it is not simulated.
    "torch.cuda.jiterator._JittedFunction.__call__": _KERNEL,
    "torch.cuda.tunable.*": _TUNING,
    "torch.cuda.gds.gds_register_buffer": _STORAGE,
    "torch.cuda.gds.gds_deregister_buffer": _STORAGE,
    "torch.cuda.gds.GdsFile": _STORAGE,
    "torch.cuda.nccl.*": _COLLECTIVE,
    "torch.cuda.nccl.unique_id": _COLLECTIVE,
    "torch.cuda.nccl.init_rank": _COLLECTIVE,
    "torch.UntypedStorage._share_cuda_": _SHARING,
    "torch.UntypedStorage._new_shared_cuda": _SHARING,
    "torch.cuda.Event.ipc_handle": _SHARING,
    "torch.cuda.Event.from_ipc_handle": _SHARING,
    "torch.cuda.ExternalStream": "only a simulated stream's own handle is; pass the torch.cuda.Stream itself.",
    "torch.cuda.cudart": "only profiling, error strings and cudaMemGetInfo are; call the torch.cuda function instead.",
}
"""What is not simulated -> what to do instead. `module.*` means all public names of the module."""

# torch.cuda re-exports names of its parts; whoever imported them from there must meet the same error.
_PARTS = ("torch.cuda.graphs", "torch.cuda.memory", "torch.cuda.green_contexts")
# Kept by hand: a part of these is simulated.
_PARTLY = ("torch.cuda.ExternalStream", "torch.cuda.cudart")


def error(name: str, what: str = "") -> NotSimulated:
    """The error for an entry of the table; `what` names the call more closely where that helps."""
    advice = NOT_SIMULATED.get(name) or NOT_SIMULATED[name.rpartition(".")[0] + ".*"]
    return NotSimulated(f"{what or name} is not simulated by Locus: {advice}")


def _stand_in(name: str, original: object) -> object:
    """Something with the name and, for a class, the methods of the original, of which every call raises."""
    short_name = name.rpartition(".")[2]
    if not isinstance(original, type):
        return _refusal(name, name, original)
    members: dict[str, object] = {"__module__": original.__module__, "__doc__": original.__doc__}
    for method in (each for each in dir(original) if not each.startswith("_")):
        members[method] = staticmethod(_refusal(name, f"{name}.{method}", None))
    members["__new__"] = _refusal(name, name, None)
    return type(short_name, (), members)


def _refusal(entry: str, called: str, original: object) -> Callable[..., object]:
    def refuse(*args: object, **kwargs: object) -> NoReturn:
        raise error(entry, called)

    refuse.__name__ = refuse.__qualname__ = called.rpartition(".")[2]
    refuse.__doc__ = getattr(original, "__doc__", None)
    refuse.__dict__.update(getattr(original, "__dict__", {}))  # PyTorch's compiler looks for `__wrapped__`
    return refuse


def _owner_of(dotted: str) -> object:
    """The module or class with that name, or None where this PyTorch has none."""
    try:
        return importlib.import_module(dotted)
    except ImportError:
        outer, _, name = dotted.rpartition(".")
        return getattr(importlib.import_module(outer), name, None)


def _entries() -> Iterator[tuple[object, str, str]]:
    """(owner, attribute, full name) of everything in the table that this PyTorch has."""
    for name in NOT_SIMULATED:
        owner_name, _, attribute = name.rpartition(".")
        owner = _owner_of(owner_name)
        if owner is None or name in _PARTLY:
            continue
        for each in owner.__all__ if attribute == "*" else (attribute,):  # type: ignore[attr-defined]
            if hasattr(owner, each):
                yield owner, each, f"{owner_name}.{each}"


def install() -> None:
    """Puts a stand-in that raises in the place of everything that is not simulated."""
    parts = [part for part in map(_owner_of, _PARTS) if part is not None]
    for owner, attribute, name in list(_entries()):
        original = getattr(owner, attribute)
        stand_in = _stand_in(name, original)
        for place in (owner, *parts):
            if getattr(place, attribute, None) is original:
                setattr(place, attribute, stand_in)
