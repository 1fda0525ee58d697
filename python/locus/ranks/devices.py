"""The classic device mistakes of distributed code: ranks that share a device, checkpoints that all land on one, CPU
tensors for NCCL, modules that are wrapped in pieces, with the wrong number, or moved afterwards.
"""

from __future__ import annotations

import dataclasses
import functools
import os
import sys
import threading
from collections.abc import Callable, Mapping
from typing import TypeVar

import torch

from locus.blame import findings, module_sources, own_device
from locus.blame.findings import Named
from locus.blame.seen import Facts
from locus.program import histories, identity, moments, places, values
from locus.program.shapes import Location
from locus.ranks import membership, seen
from locus.watch import handlers, hooks
from locus.watch.session import Session

Result = TypeVar("Result")
_chosen: Location | None = None
"""Where the program chooses the device of its rank."""
_call = threading.local()
"""The arguments of the collective that the program has called last."""
Copies = list[tuple[torch.Tensor, torch.Tensor]]

_COLLECTIVES = (
    "all_reduce", "broadcast", "reduce", "all_gather", "all_gather_into_tensor", "all_gather_single", "reduce_scatter",
    "reduce_scatter_tensor", "reduce_scatter_single", "all_to_all", "all_to_all_single", "gather", "scatter", "send",
    "recv", "isend", "irecv", "all_reduce_coalesced", "all_gather_coalesced",
)  # fmt: skip

_wrapped: identity.ByIdentity[torch.nn.Module, tuple[str, Location]] = identity.ByIdentity()
_moved: identity.ByIdentity[torch.nn.Module, Location] = identity.ByIdentity()


def install(session: Session) -> None:
    """Looks at collectives, loads and moves."""
    import torch.distributed as dist
    from torch.distributed import distributed_c10d as c10d

    for name in _COLLECTIVES:
        if hasattr(c10d, name):
            wrapper = _checked(session, name, getattr(c10d, name))
            setattr(c10d, name, wrapper)
            if hasattr(dist, name):
                setattr(dist, name, wrapper)
    choose = torch.cuda.set_device

    @functools.wraps(choose)
    def set_device(device: torch.device | str | int | None) -> None:
        global _chosen
        choose(device)
        if _chosen is None:
            _chosen = session.safely("set_device", findings.here, 3)

    torch.cuda.set_device = set_device
    hooks.on_load(functools.partial(session.safely, "a load", _after_load, session))
    hooks.on_move(functools.partial(session.safely, "a move", _after_move, session))


def install_replicas(session: Session) -> None:
    """Looks at what DataParallel refuses: a module in pieces. One elsewhere as a whole: locus.watch.replicas."""
    wrapper = torch.nn.DataParallel
    forward = wrapper.forward

    @functools.wraps(forward)
    def noted_forward(self: torch.nn.DataParallel[torch.nn.Module], *args: object, **kwargs: object) -> object:
        session.safely("DataParallel", _gather_parts, session, self)
        return forward(self, *args, **kwargs)

    wrapper.forward = noted_forward  # type: ignore[assignment]


def _gather_parts(session: Session, wrapped: torch.nn.DataParallel[torch.nn.Module]) -> None:
    """A finding about parts that are not on the first device, where the rest is; then they are brought there."""
    if not wrapped.device_ids:
        return
    home = torch.device("cuda", wrapped.device_ids[0])
    named = findings.named(wrapped.module)
    left = [each for each in named if each.tensor.device != home]
    if not left or len(left) == len(named) or handlers.find_handler(None, RuntimeError)[0] == handlers.RAISE:
        return
    _report_scattered(session, wrapped.module, left, home, findings.here(4), "DataParallel")
    _bring(wrapped.module, home)


def _checked(session: Session, name: str, original: Callable[..., Result]) -> Callable[..., Result]:
    @functools.wraps(original)
    def collective(*args: object, **kwargs: object) -> Result:
        _call.arguments = (*args, *kwargs.values())
        plan = session.safely("a collective", _plan, session, name, args, kwargs)
        if plan is None:
            return original(*args, **kwargs)
        args, kwargs, copies = plan
        work = original(*args, **kwargs)
        wait = getattr(work, "wait", None)
        if wait is not None:
            wait()
        for host, device in copies:
            host.copy_(device)
        return work

    return collective


def _plan(
    session: Session, name: str, args: tuple[object, ...], kwargs: dict[str, object]
) -> tuple[tuple[object, ...], dict[str, object], Copies] | None:
    """None for a call that NCCL takes; else the call with CPU tensors moved, after a finding."""
    tensors = [t for value in (*args, *kwargs.values()) for t in _flat(value) if t.device.type == "cpu"]
    if not tensors or not _is_nccl_only(_group(args, kwargs)):
        return None
    wanted, _ = handlers.find_handler(None, RuntimeError)
    if wanted == handlers.RAISE:
        return None
    device = torch.device("cuda", torch.cuda.current_device())
    use = findings.here(3)
    operand = findings.operand(tensors[0], _expression(use, tensors[0]), "variable")
    fix = session.safely("an edit", module_sources.made_on_device, tensors[0], str(device))
    fixes = [fix] if fix else []
    seen.report(session, Facts("cpu-tensor", use, op=name, operands=[operand], fixes=fixes, expected=str(device)))
    copies: Copies = []

    def moved(value: object) -> object:
        if isinstance(value, torch.Tensor) and value.device.type == "cpu":
            copies.append((value, value.detach().to(device)))
            return copies[-1][1]
        return [moved(item) for item in value] if isinstance(value, list) else value

    return tuple(moved(value) for value in args), {key: moved(value) for key, value in kwargs.items()}, copies


def _flat(value: object) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    return [t for item in value for t in _flat(item)] if isinstance(value, (list, tuple)) else []


def _group(args: tuple[object, ...], kwargs: Mapping[str, object]) -> object:
    """The group of a call, by position or by name; None: the default one."""
    kind = torch.distributed.ProcessGroup
    return kwargs.get("group") or next((value for value in args if isinstance(value, kind)), None)


def _is_nccl_only(group: object) -> bool:
    import torch.distributed as dist

    if not dist.is_initialized():
        return False
    group = group if group is not None else dist.group.WORLD
    if not isinstance(group, dist.ProcessGroup):
        return False  # this rank is not one of its members
    types = {torch.device(each).type for each in getattr(group, "_device_types", [])}
    return types == {"cuda"} and dist.get_backend(group) == "nccl"


def _expression(use: Location, tensor: torch.Tensor) -> str:
    """What the program calls a tensor at a line: a variable of that frame."""
    for frame in places.walk(sys._getframe(1)):
        if frame.f_code.co_filename == use["file"]:
            return next((name for name, value in values.at_rest(frame.f_locals).items() if value is tensor), "")
    return ""


def report_sharing(session: Session, device: str, sharing: list[int]) -> None:
    """Ranks of one group on one device."""
    use = findings.here(4)
    if _chosen is not None:
        facts = _written_down(use, device, sharing)
        if facts is not None:
            seen.report(session, facts)
            return
    moves = sorted(entry for entry in moments.all_moves() if entry[1] == device)
    cause = places.location(*moves[0][2]) if moves and moves[0][2] else use
    variable = "LOCAL_RANK" if "LOCAL_RANK" in os.environ else "the rank"
    literal = own_device.written_down(cause, device, own_device.rank_words(cause, _own_device()))
    facts = Facts("shared-device", use, cause, "collective", ranks=sharing, device=device, subject=variable)
    if literal is not None:
        at, edit = literal
        facts = dataclasses.replace(facts, cause=at, made=at, fixes=[edit] if edit else [])
    seen.report(session, facts)


def _written_down(use: Location, device: str, sharing: list[int]) -> Facts | None:
    """The rank has chosen a device of its own, and the collective was given a tensor that is elsewhere."""
    given = [t for value in getattr(_call, "arguments", ()) for t in _flat(value) if str(t.device) == device]
    steps = [s for s in histories.history(given[0]) if s.facts["device"] == device] if given else []
    if not steps:
        return None
    made = steps[0].facts["at"]
    literal = own_device.written_down(made, device)
    cause, edit = literal if literal is not None else (made, None)
    operand = findings.operand(given[0], _expression(use, given[0]), "variable")
    return Facts(
        "shared-device", use, cause, "collective", [operand], [edit] if edit else [], sharing, device=device,
        made=cause, used=_chosen,
    )  # fmt: skip


def _own_device() -> int:
    """The device that this rank should use."""
    current = torch.cuda.current_device()
    local = os.environ.get("LOCAL_RANK", "")
    return current if current else int(local) if local.isdecimal() else (membership.rank() or 0)


def _after_load(session: Session, result: object, args: tuple[object, ...], kwargs: dict[str, object]) -> None:
    """A checkpoint without map_location lands where it was saved: on every rank the same."""
    number = membership.rank()
    count = max(membership.world(), int(os.environ.get("WORLD_SIZE", "0") or 0))
    given = kwargs.get("map_location", args[1] if len(args) > 1 else None)
    if given is not None or not number or count < 2:
        return
    own = _own_device()
    strangers = [t for t in hooks.tensors_in(result) if t.device.type == "cuda" and t.device.index != own]
    if not strangers or strangers[0].device.index >= count:
        return
    device = str(strangers[0].device)
    if any(entry[1] == device for entry in moments.all_moves()):
        return  # this rank uses that device too, on purpose
    use = findings.here(4)
    path = args[0] if args else kwargs.get("f", "")
    name = os.path.basename(path) if isinstance(path, (str, os.PathLike)) else "the checkpoint"
    words = own_device.device_words(use, own)
    fix = module_sources.with_argument(use, f"map_location={words}") if words else None
    seen.report(session, Facts(
        "shared-checkpoint", use, op="load", fixes=[fix] if fix else [], subject=name, device=device,
        expected=f"cuda:{own}", count=len(strangers),
    ))  # fmt: skip


def before_wrapping(session: Session, module: torch.nn.Module, kwargs: dict[str, object]) -> dict[str, object]:
    """A module is about to become a DistributedDataParallel: is it in one place, and in the place that is named?"""
    use = findings.here(4)
    named = findings.named(module)
    cuda = [each.tensor.device for each in named if each.tensor.device.type == "cuda"]
    left = [each for each in named if each.tensor.device.type == "cpu"]
    group, wrapper, kind = kwargs.get("process_group"), "DistributedDataParallel", type(module).__name__
    if cuda and left and _is_nccl_only(group):
        home = max(set(cuda), key=cuda.count)
        _report_scattered(session, module, left, home, use, wrapper)
        _bring(module, home)
    elif left and not cuda and _is_nccl_only(group):
        seen.report(session, Facts(
            "cpu-module", use, op=wrapper, operands=[left[0].operand()], subject=kind, names=[left[0].name],
            expected=f"cuda:{_own_device()}",
        ))  # fmt: skip
    index = _first_index(kwargs.get("device_ids"))
    if index is not None and len(set(cuda)) == 1 and not left and index != cuda[0].index:
        words = own_device.index_words(use, cuda[0].index)
        fix = module_sources.with_argument(use, f"device_ids=[{words}]") if words and index != _own_device() else None
        seen.report(session, Facts(
            "device-ids", use, op=wrapper, operands=[named[0].operand()], subject=kind, names=[named[0].name],
            device=str(cuda[0]), expected=f"cuda:{index}", fixes=[fix] if fix else [], output=words,
        ))  # fmt: skip
        kwargs = {**kwargs, "device_ids": [cuda[0].index]}
        if kwargs.get("output_device") is not None:
            kwargs["output_device"] = cuda[0].index
    return kwargs


def _first_index(device_ids: object) -> int | None:
    """The number of the first of `device_ids`, where there is one."""
    first = device_ids[0] if isinstance(device_ids, (list, tuple)) and device_ids else None
    index = first.index if isinstance(first, torch.device) else first
    return index if isinstance(index, int) else None


def after_wrapping(wrapped: torch.nn.parallel.DistributedDataParallel, place: Location) -> None:
    """Remembers where a module was when it was wrapped."""
    first = next(iter(wrapped.module.parameters()), None)
    if first is not None:
        _wrapped[wrapped] = (str(first.device), place)


def _report_scattered(
    session: Session, module: torch.nn.Module, left: list[Named], home: torch.device, use: Location, wrapper: str
) -> None:
    seen.report(session, Facts(
        "scattered-module", use, module_sources.definition(module, left[0].name), wrapper, wrapper=wrapper,
        operands=[each.operand() for each in left[:4]], subject=type(module).__name__,
        names=[each.name for each in left], device=str(left[0].tensor.device), expected=str(home),
    ))  # fmt: skip


def _bring(module: torch.nn.Module, home: torch.device) -> None:
    """Goes on as if nothing had been left elsewhere."""
    for part in module.modules():
        for table in (part._parameters, part._buffers):
            for tensor in table.values():
                if tensor is not None and tensor.device != home:
                    tensor.data = tensor.data.to(home)


def _after_move(session: Session, module: torch.nn.Module, device: str) -> None:
    """Remembers that a wrapped module was moved: harmless, to save it for one, until it is used again."""
    for wrapped, (home, _) in list(_wrapped.items()):
        if device != home and (module is wrapped or any(part is module for part in wrapped.modules())):
            _moved[wrapped] = findings.here(5)


def before_forward(session: Session, wrapped: torch.nn.parallel.DistributedDataParallel) -> None:
    """A wrapped module that was moved elsewhere has left its buckets behind."""
    if wrapped not in _moved or not torch.is_grad_enabled():
        return
    cause = _moved.pop(wrapped)
    home, place = _wrapped[wrapped]
    device = str(next(wrapped.module.parameters()).device)
    if device != home:
        seen.report(session, Facts(
            "moved-after-wrapping", findings.here(4), cause, "forward", subject=type(wrapped.module).__name__,
            device=device, expected=home, made=place,
        ))  # fmt: skip
        _wrapped[wrapped] = (device, place)  # said once
        if wrapped.device_ids and device != "cpu":  # and on with it: the inputs follow the module
            wrapped.device_ids = [torch.device(device).index]
