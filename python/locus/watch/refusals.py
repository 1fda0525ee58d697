"""Explains what PyTorch refuses as a whole, without an operator: wrapping a module that is elsewhere, a CPU tensor for
NCCL, pinning a CUDA tensor, loading a checkpoint onto a device that is not there.

Each function gets the frames of the exception, innermost first, and gives what it saw, or None.
"""

from __future__ import annotations

import json
import re
import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from locus._load import load_bridge
from locus.blame import findings, module_sources
from locus.blame.seen import Facts
from locus.program import expressions, moments, places, source, values
from locus.program.shapes import Finding, Location

if TYPE_CHECKING:
    import torch

    from locus.vocabulary import Kind


Frames = list[types.FrameType]
_DDP = "DistributedDataParallel"


def explain(kind: str, message: str, frames: Frames) -> Finding | None:
    """The finding behind a refusal of this kind."""
    use = next((places.frame_location(f) for f in frames if places.is_user_file(f.f_code.co_filename)), None)
    if use is None:
        return None
    facts = _EXPLAINED[kind](message, frames, use)
    return json.loads(load_bridge().tell_seen(facts.as_json())) if facts is not None else None


def _local(frames: Frames, name: str, wanted: Callable[[object], bool]) -> Any:
    """What the innermost frame that has such a local variable calls by that name."""
    for frame in frames:
        value = frame.f_locals.get(name)
        if wanted(value):
            return value
    return None


def _wrapped(message: str, frames: Frames, use: Location) -> Facts | None:
    """DistributedDataParallel: the module is not where device_ids say, or it is in several places."""
    module = _local(frames, "module", values.is_module)
    named = findings.named(module) if module is not None else []
    given = re.search(r"device_ids \[(?:device\([^)]*index=)?(\d+)", message)
    cards = [str(each.tensor.device) for each in named if each.tensor.is_cuda]
    wanted = f"cuda:{given[1]}" if given else max(cards, key=cards.count, default="")
    left = [each for each in named if str(each.tensor.device) != wanted]
    if not left:
        return None
    devices = sorted({str(each.tensor.device) for each in named})
    several = len(devices) > 1
    return Facts(
        "several-devices" if several else "device-ids", use, op=_DDP, wrapper=_DDP, operands=[left[0].operand()],
        subject=type(module).__name__, names=[each.name for each in (left if several else left[:1])],
        device=str(left[0].tensor.device), devices=devices, expected=wanted,
    )  # fmt: skip


def _collective(message: str, frames: Frames, use: Location) -> Facts | None:
    """A CPU tensor in a collective of an NCCL group, or in a module that is wrapped over one."""
    inner = [f for f in frames if not places.is_user_file(f.f_code.co_filename)]
    for frame in inner:
        module = frame.f_locals.get("module")
        tensors = [frame.f_locals.get(name) for name in ("tensor", "input", "output", "tensor_list", "input_list")]
        flat = [t for value in tensors for t in (value if isinstance(value, (list, tuple)) else [value])]
        if values.is_module(module):
            flat = [each.tensor for each in findings.named(module)]
        tensor = next((t for t in flat if values.is_tensor(t) and t.device.type == "cpu"), None)
        if tensor is None:
            continue
        what: Kind
        if values.is_module(module):
            op, what = _DDP, "parameter"
            name = next(each.name for each in findings.named(module) if each.tensor is tensor)
        else:
            op, what, name = frame.f_code.co_name, "variable", _variable(frames, tensor)
        return Facts("cpu-tensor", use, op=op, operands=[findings.operand(tensor, name, what)], expected="cuda")
    return None


def _variable(frames: Frames, tensor: object) -> str:
    """What the program calls a tensor."""
    for frame in frames:
        if places.is_user_file(frame.f_code.co_filename):
            return next((name for name, value in values.at_rest(frame.f_locals).items() if value is tensor), "")
    return ""


def _pinned(message: str, frames: Frames, use: Location) -> Facts | None:
    """A CUDA tensor that is to be pinned: pinning is for host memory that will be copied to a device."""
    file = source.load(frames[0].f_code.co_filename)
    node = file.at(*places.positions(frames[0].f_code, frames[0].f_lasti)) if file is not None else None
    called = [values.evaluate(part, frames[0]) for part in expressions.parts(node)] if node is not None else []
    tensor = next((t for t in called if _is_on_cuda(t)), None)
    in_loader = any(f.f_code.co_filename.endswith("pin_memory.py") for f in frames)
    facts = Facts("pinned", use, op="pin_memory", expected="cpu", wrapper="DataLoader" if in_loader else "")
    if tensor is not None:
        facts.operands = [findings.operand(tensor, _variable(frames, tensor), "variable")]
        facts.device = str(tensor.device)
    return facts


def _is_on_cuda(value: object) -> bool:
    return values.is_tensor(value) and value.is_cuda


def _checkpoint(message: str, frames: Frames, use: Location) -> Facts | None:
    """torch.load() of what was saved on a device that is not here."""
    import torch

    here = torch.cuda.device_count() if torch.cuda.is_available() else 0
    number = re.search(r"CUDA device (\d+)", message)
    place = "cuda:0" if here else "cpu"
    path = _local(frames, "f", lambda value: isinstance(value, str))
    fix = module_sources.with_argument(use, f'map_location="{place}"') if "map_location" not in use["text"] else None
    return Facts(
        "saved-elsewhere", use, op="load", fixes=[fix] if fix else [], subject=path or "", count=here,
        device=f"cuda:{number[1]}" if number else "",
    )  # fmt: skip


def _mixed(message: str, frames: Frames, use: Location) -> Facts | None:
    """A DTensor and a plain tensor in one call."""
    user = next((f for f in frames if places.is_user_file(f.f_code.co_filename)), None)
    if user is None:
        return None
    file = source.load(user.f_code.co_filename)
    if file is None:
        return None
    node = file.at(*places.positions(user.f_code, user.f_lasti))
    plain: dict[str, torch.Tensor] = {}
    shared: dict[str, str] = {}
    for part in expressions.parts(node) if node is not None else []:
        value = values.evaluate(part, user)
        if values.is_module(value):
            for name, parameter in value.named_parameters():
                _sort_out(f"{file.flat(part)}.{name}", parameter, plain, shared)
        elif values.is_tensor(value):
            _sort_out(file.flat(part), value, plain, shared)
    said = re.search(r"(?:aten\.)?(\w+)(?:\.\w+)? got mixed", message)
    facts = Facts("mixed-tensors", use, op=said[1] if said else "")
    what: Kind = "variable"
    if not plain and (given := _given_to_library(frames)) is not None:
        facts.wrapper, facts.op = given.optimizer, given.call
        facts.subject = _by_model(given.parameters, plain, shared)
        what = "parameter"
    facts.operands = [findings.operand(tensor, name, what) for name, tensor in list(plain.items())[:4]]
    facts.names = list(plain)
    most = 2 if facts.subject else 4
    facts.devices = [f"`{name}` is a DTensor ({words})" for name, words in list(shared.items())[:most]]
    return facts


class _Given(NamedTuple):
    """The parameters of a model that a function of PyTorch's goes through, all at once."""

    parameters: list[torch.Tensor]
    call: str
    """What the program has called: "step", "clip_grad_norm_"."""
    optimizer: str
    """Its class; "" where it is none."""


def _given_to_library(frames: Frames) -> _Given | None:
    import torch

    for frame in frames:
        if places.is_user_file(frame.f_code.co_filename):
            return None
        owner, listed = frame.f_locals.get("self"), frame.f_locals.get("parameters")
        if isinstance(owner, torch.optim.Optimizer):
            every = [each for group in owner.param_groups for each in group["params"]]
            return _Given(every, "step", type(owner).__name__)
        if frame.f_code.co_name == "clip_grad_norm_" and isinstance(listed, list):
            return _Given(listed, "clip_grad_norm_", "")
    return None


def _by_model(parameters: list[torch.Tensor], plain: dict[str, torch.Tensor], shared: dict[str, str]) -> str:
    """Sorts parameters by the names that they have in their models; the class of the one that the plain ones are of, ""
    where no model is known."""
    wanted = {id(each) for each in parameters}
    subject = ""
    for model in moments.outermost_modules():
        before = len(plain)
        for name, each in model.named_parameters():
            if id(each) in wanted:
                _sort_out(name, each, plain, shared)
        if len(plain) > before and not subject:
            subject = type(model).__name__.removeprefix("FSDP")
    return subject


def _sort_out(name: str, tensor: torch.Tensor, plain: dict[str, torch.Tensor], shared: dict[str, str]) -> None:
    placements = getattr(tensor, "placements", None)
    if placements is None:
        plain[name] = tensor
    else:
        shared[name] = ", ".join(map(repr, placements))


def _state_dict(message: str, frames: Frames, use: Location) -> Facts | None:
    """A state dict whose tensors are not sharded as the model's are."""
    said = re.search(r"loading state_dict for (\w+)", message)
    names = re.findall(r'parameter named "([^"]+)"[^\n]*got mixed', message)
    saved = _local(frames, "state_dict", lambda value: isinstance(value, dict))
    side = ""
    if saved is not None and names and names[0] in saved:
        side = "the state dict" if getattr(saved[names[0]], "placements", None) is not None else "the model"
    kind = said[1].removeprefix("FSDP") if said else ""
    return Facts("other-sharding", use, op="load_state_dict", subject=kind, names=names, wrapper=side)


def _mesh(message: str, frames: Frames, use: Location) -> Facts | None:
    """A mesh that is larger than the job."""
    said = re.search(r"world size (\d+), but found (\d+)", message)
    return Facts("mesh-size", use, op="init_device_mesh", expected=said[1], count=int(said[2])) if said else None


def _parent_first(message: str, frames: Frames, use: Location) -> Facts | None:
    """fully_shard() of a module whose parameters were sharded with one around it."""
    if not any(f.f_code.co_filename.replace("\\", "/").endswith("_fsdp_param.py") for f in frames):
        return None  # another library's invariant
    module = _local(frames, "module", values.is_module)
    named = findings.named(module) if module is not None else []
    names = [each.name for each in named if getattr(each.tensor, "placements", None) is not None]
    if not names:
        return None
    kind = type(module).__name__.removeprefix("FSDP")
    return Facts("parent-first", use, op="fully_shard", subject=kind, names=names)


_EXPLAINED = {
    "wrapped": _wrapped, "collective": _collective, "pinned": _pinned, "checkpoint": _checkpoint, "dtensor": _mixed,
    "state-dict": _state_dict, "mesh": _mesh, "parent-first": _parent_first,
}  # fmt: skip
KINDS = frozenset(_EXPLAINED)
OF_SHARDING = frozenset(("dtensor", "state-dict", "mesh", "parent-first"))
"""They are about no device: a sentence that is not explained is no finding."""
