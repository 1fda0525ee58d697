"""Explains what PyTorch refuses as a whole, without an operator: wrapping a module that is elsewhere, a CPU tensor for
NCCL, pinning a CUDA tensor, loading a checkpoint onto a device that is not there.

Each function gets the frames of the exception, innermost first, and gives a finding as data, or None.
"""

from __future__ import annotations

import re
from typing import Any

from locus.blame import findings, module_sources
from locus.program import expressions, places, source, values

Frames = list[Any]


def explain(kind: str, message: str, frames: Frames) -> dict[str, Any] | None:
    """The finding behind a refusal of this kind."""
    use = next((places.frame_location(f) for f in frames if places.is_user_file(f.f_code.co_filename)), None)
    if use is None:
        return None
    return _EXPLAINED[kind](message, frames, use)


def _local(frames: Frames, name: str, wanted: Any) -> Any:
    """What the innermost frame that has such a local variable calls by that name."""
    for frame in frames:
        value = frame.f_locals.get(name)
        if wanted(value):
            return value
    return None


def _wrapped(message: str, frames: Frames, use: dict[str, Any]) -> dict[str, Any] | None:
    """DistributedDataParallel: the module is not where device_ids say, or it is in several places."""
    module = _local(frames, "module", values.is_module)
    named = findings.named(module) if module is not None else []
    if not named:
        return None
    kind = type(module).__name__
    devices = sorted({str(tensor.device) for _, tensor, _ in named})
    given = re.search(r"device_ids \[(?:device\([^)]*index=)?(\d+)", message)
    cards = [str(tensor.device) for _, tensor, _ in named if tensor.is_cuda]
    wanted = f"cuda:{given[1]}" if given else max(cards, key=cards.count, default="")
    left = [entry for entry in named if str(entry[1].device) != wanted]
    if not left:
        return None
    name, tensor, what = left[0]
    facts = findings.operand(tensor, name, what, True)
    shared = {"op": "DistributedDataParallel", "operands": [facts], "culprit": findings.culprit_of(facts, wanted)}
    if len(devices) > 1:
        names = findings.listed([entry[0] for entry in left])
        return findings.make(
            "scattered-module", f"DistributedDataParallel was given {kind}, which is on {' and '.join(devices)}",
            f"{names} {'is' if len(left) == 1 else 'are'} on {tensor.device}, the rest on another device", use,
            notes=["move the whole module right before it is wrapped"], **shared,
        )  # fmt: skip
    return findings.make(
        "device-ids", f"device_ids names {wanted}, but {kind} is on {tensor.device}",
        f"with device_ids inputs are moved to {wanted}; the parameters, `{name}` among them, are on {tensor.device}",
        use,
        notes=[f"move the module to {wanted} before it is wrapped"], **shared,
    )  # fmt: skip


def _collective(message: str, frames: Frames, use: dict[str, Any]) -> dict[str, Any] | None:
    """A CPU tensor in a collective of an NCCL group, or in a module that is wrapped over one."""
    inner = [f for f in frames if not places.is_user_file(f.f_code.co_filename)]
    for frame in inner:
        module = frame.f_locals.get("module")
        tensors = [frame.f_locals.get(name) for name in ("tensor", "input", "output", "tensor_list", "input_list")]
        flat = [t for value in tensors for t in (value if isinstance(value, (list, tuple)) else [value])]
        if values.is_module(module):
            flat = [t for _, t, _ in findings.named(module)]
        tensor = next((t for t in flat if values.is_tensor(t) and t.device.type == "cpu"), None)
        if tensor is None:
            continue
        if values.is_module(module):
            op, what = "DistributedDataParallel", "parameter"
            name = next(n for n, t, _ in findings.named(module) if t is tensor)
        else:
            op, what, name = frame.f_code.co_name, "variable", _variable(frames, tensor)
        facts = findings.operand(tensor, name, what, True)
        return findings.make(
            "cpu-collective", f"{op}() of an NCCL group got a tensor on the CPU",
            f"`{name or 'the tensor'}` is on the CPU; NCCL moves the memory of CUDA devices only", use, op=op,
            operands=[facts], culprit=findings.culprit_of(facts, "cuda"),
            notes=["move it to the rank's device first, or use a group with Gloo for CPU tensors "
                   '("cpu:gloo,cuda:nccl")'],
        )  # fmt: skip
    return None


def _variable(frames: Frames, tensor: Any) -> str:
    """What the program calls a tensor."""
    for frame in frames:
        if places.is_user_file(frame.f_code.co_filename):
            return next((name for name, value in frame.f_locals.items() if value is tensor), "")
    return ""


def _pinned(message: str, frames: Frames, use: dict[str, Any]) -> dict[str, Any] | None:
    """A CUDA tensor that is to be pinned: pinning is for host memory that will be copied to a device."""
    file = source.load(frames[0].f_code.co_filename)
    node = file.at(*places.positions(frames[0].f_code, frames[0].f_lasti)) if file is not None else None
    called = [values.evaluate(part, frames[0]) for part in expressions.parts(node)] if node is not None else []
    tensor = next((t for t in called if _is_on_cuda(t)), None)
    facts = findings.operand(tensor, _variable(frames, tensor), "variable", True) if tensor is not None else None
    device = facts["device"] if facts else "a CUDA device"
    in_loader = any(f.f_code.co_filename.endswith("pin_memory.py") for f in frames)
    note = "leave the dataset's tensors on the CPU, or give the loader pin_memory=False"
    return findings.make(
        "other", f"pin_memory() got a tensor on {device}; only the host's memory can be pinned",
        "a tensor that is on a device already needs no pinned copy on the host", use, op="pin_memory",
        operands=[facts] if facts else [], culprit=findings.culprit_of(facts, "cpu") if facts else None,
        notes=[note if in_loader else "leave pin_memory() out"],
    )  # fmt: skip


def _is_on_cuda(value: Any) -> bool:
    return values.is_tensor(value) and value.is_cuda


def _checkpoint(message: str, frames: Frames, use: dict[str, Any]) -> dict[str, Any] | None:
    """torch.load() of what was saved on a device that is not here."""
    import torch

    here = torch.cuda.device_count() if torch.cuda.is_available() else 0
    number = re.search(r"CUDA device (\d+)", message)
    saved = f"cuda:{number[1]}" if number else "a CUDA device"
    place = "cuda:0" if here else "cpu"
    path = _local(frames, "f", lambda value: isinstance(value, str))
    fix = module_sources.with_argument(use, f'map_location="{place}"') if "map_location" not in use["text"] else None
    return findings.make(
        "checkpoint", f"{path or 'a checkpoint'} was saved on {saved}, which this machine has not",
        "torch.load() puts each tensor back on the device it was saved from unless map_location says otherwise; here "
        f"{'there is no CUDA device' if not here else f'are {here} CUDA devices' if here > 1 else 'is cuda:0 only'}",
        use, op="load", fixes=[fix],
    )  # fmt: skip


_EXPLAINED = {"wrapped": _wrapped, "collective": _collective, "pinned": _pinned, "checkpoint": _checkpoint}
KINDS = frozenset(_EXPLAINED)
