"""The classic device mistakes of distributed code: ranks that share a device, checkpoints that all land on one, CPU
tensors for NCCL, modules that are wrapped in pieces, with the wrong number, or moved afterwards, stale optimizers.
"""

from __future__ import annotations

import functools
import os
from typing import Any

import torch

from locus import ranks
from locus.blame import findings, module_sources
from locus.program import identity, places
from locus.watch import handlers, hooks

_COLLECTIVES = (
    "all_reduce", "broadcast", "reduce", "all_gather", "all_gather_into_tensor", "all_gather_single", "reduce_scatter",
    "reduce_scatter_tensor", "reduce_scatter_single", "all_to_all", "all_to_all_single", "gather", "scatter", "send",
    "recv", "isend", "irecv", "all_reduce_coalesced", "all_gather_coalesced",
)  # fmt: skip

_wrapped: identity.ByIdentity[tuple[str, dict[str, Any]]] = identity.ByIdentity()
_moved: identity.ByIdentity[dict[str, Any]] = identity.ByIdentity()
_stepped: identity.ByIdentity[bool] = identity.ByIdentity()


def install(session: Any) -> None:
    """Looks at collectives, loads, moves and optimizers."""
    import torch.distributed as dist
    from torch.distributed import distributed_c10d as c10d
    from torch.optim.optimizer import register_optimizer_step_post_hook

    for name in _COLLECTIVES:
        if hasattr(c10d, name):
            wrapper = _checked(session, name, getattr(c10d, name))
            setattr(c10d, name, wrapper)
            if hasattr(dist, name):
                setattr(dist, name, wrapper)
    hooks.on_load(functools.partial(session.safely, "a load", _after_load, session))
    hooks.on_move(functools.partial(session.safely, "a move", _after_move, session))
    register_optimizer_step_post_hook(lambda optimizer, *_: session.safely("a step", _after_step, session, optimizer))


def install_replicas(session: Any) -> None:
    """Looks at what DataParallel refuses: a module in pieces. One elsewhere as a whole: locus.watch.replicas."""
    wrapper = torch.nn.DataParallel
    forward = wrapper.forward

    @functools.wraps(forward)
    def noted_forward(self: Any, *args: Any, **kwargs: Any) -> Any:
        session.safely("DataParallel", _mend_replicas, session, self)
        return forward(self, *args, **kwargs)

    wrapper.forward = noted_forward


def _mend_replicas(session: Any, wrapped: Any) -> None:
    """A finding about parts that are not on the first device, where the rest is; then they are brought there."""
    if not wrapped.device_ids:
        return
    home = torch.device("cuda", wrapped.device_ids[0])
    named = findings.named(wrapped.module)
    left = [entry for entry in named if entry[1].device != home]
    if not left or len(left) == len(named) or handlers.find_handler(None, RuntimeError)[0] == handlers.RAISE:
        return
    _report_scattered(session, wrapped.module, left, home, findings.here(4), "DataParallel")
    _bring(wrapped.module, home)


def _checked(session: Any, name: str, original: Any) -> Any:
    @functools.wraps(original)
    def collective(*args: Any, **kwargs: Any) -> Any:
        plan = session.safely("a collective", _plan, session, name, args, kwargs)
        if plan is None:
            return original(*args, **kwargs)
        args, kwargs, copies = plan
        work = original(*args, **kwargs)
        if work is not None and hasattr(work, "wait"):
            work.wait()
        for host, device in copies:
            host.copy_(device)
        return work

    return collective


def _plan(session: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """None for a call that NCCL takes; else the call with CPU tensors moved, after a finding."""
    tensors = [t for value in (*args, *kwargs.values()) for t in _flat(value) if t.device.type == "cpu"]
    if not tensors or not _is_nccl_only(_group(args, kwargs)):
        return None
    wanted, _ = handlers.find_handler(None, RuntimeError)
    if wanted == handlers.RAISE:
        return None
    device = torch.device("cuda", torch.cuda.current_device())
    use = findings.here(3)
    expression = _expression(use, tensors[0])
    facts = findings.operand(tensors[0], expression, "variable", True)
    fix = session.safely("an edit", module_sources.made_on_device, tensors[0], str(device))
    session.add_finding(findings.make(
        "cpu-collective", f"{name}() of an NCCL group got a tensor on the CPU",
        f"`{expression or 'the tensor'}` is on the CPU; NCCL moves the memory of CUDA devices only",
        use, op=name, operands=[facts], culprit=findings.culprit_of(facts, str(device)), fixes=[fix],
        notes=["move it to the rank's device first, or use a group with Gloo for CPU tensors (\"cpu:gloo,cuda:nccl\")"],
        step=session.bridge.steps(),
    ))  # fmt: skip
    copies: list[tuple[Any, Any]] = []

    def moved(value: Any) -> Any:
        if isinstance(value, torch.Tensor) and value.device.type == "cpu":
            copies.append((value, value.detach().to(device)))
            return copies[-1][1]
        return [moved(item) for item in value] if isinstance(value, list) else value

    return tuple(moved(value) for value in args), {key: moved(value) for key, value in kwargs.items()}, copies


def _flat(value: Any) -> list[Any]:
    if isinstance(value, torch.Tensor):
        return [value]
    return [t for item in value for t in _flat(item)] if isinstance(value, (list, tuple)) else []


def _group(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The group of a call, by position or by name; None: the default one."""
    kind = torch.distributed.ProcessGroup
    return kwargs.get("group") or next((value for value in args if isinstance(value, kind)), None)


def _is_nccl_only(group: Any) -> bool:
    import torch.distributed as dist

    if not dist.is_initialized():
        return False
    group = group if group is not None else dist.group.WORLD
    if not isinstance(group, dist.ProcessGroup):
        return False  # this rank is not one of its members
    types = {torch.device(each).type for each in getattr(group, "_device_types", [])}
    return types == {"cuda"} and dist.get_backend(group) == "nccl"


def _expression(use: dict[str, Any], tensor: Any) -> str:
    """What the program calls a tensor at a line: a variable of that frame."""
    import sys

    for frame in places.walk(sys._getframe(1)):
        if frame.f_code.co_filename == use["file"]:
            return next((name for name, value in frame.f_locals.items() if value is tensor), "")
    return ""


def report_sharing(session: Any, device: str, sharing: list[int]) -> None:
    """Ranks of one group on one device."""
    use = findings.here(4)
    moves = sorted(entry for entry in hooks.all_moves() if entry[1] == device)
    cause = places.location(*moves[0][2]) if moves and moves[0][2] else use
    names = ", ".join(str(number) for number in sharing)
    variable = "LOCAL_RANK" if "LOCAL_RANK" in os.environ else "the rank"
    session.add_finding(findings.make(
        "shared-device", f"ranks {names} of one group all use {device}; NCCL wants a device for each rank",
        f'"cuda" is {device} in every process until torch.cuda.set_device() chooses another; {variable} is not used '
        f'for it',
        use, cause, op="collective", ranks=sharing,
        notes=['call torch.cuda.set_device(int(os.environ["LOCAL_RANK"])) before anything is put on a device'],
    ))  # fmt: skip


def _own_device() -> int:
    """The device that this rank should use."""
    current = torch.cuda.current_device()
    local = os.environ.get("LOCAL_RANK", "")
    return current if current else int(local) if local.isdecimal() else (ranks.rank() or 0)


def _after_load(session: Any, result: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """A checkpoint without map_location lands where it was saved: on every rank the same."""
    number = ranks.rank()
    count = max(ranks.world(), int(os.environ.get("WORLD_SIZE", "0") or 0))
    given = kwargs.get("map_location", args[1] if len(args) > 1 else None)
    if given is not None or not number or count < 2:
        return
    own = _own_device()
    strangers = [t for t in hooks.tensors_in(result) if t.device.type == "cuda" and t.device.index != own]
    if not strangers or strangers[0].device.index >= count:
        return
    device = str(strangers[0].device)
    if any(entry[1] == device for entry in hooks.all_moves()):
        return  # this rank uses that device too, on purpose
    use = findings.here(4)
    path = args[0] if args else kwargs.get("f", "")
    name = os.path.basename(path) if isinstance(path, (str, os.PathLike)) else "the checkpoint"
    fix = module_sources.with_argument(use, f'map_location="cuda:{own}"')
    if fix:
        fix["new"] = fix["new"].replace(f'"cuda:{own}"', 'f"cuda:{torch.cuda.current_device()}"')
    session.add_finding(findings.make(
        "shared-checkpoint", f"every rank loads {name} onto {device}",
        f"torch.load() without map_location puts {len(strangers)} tensors back on {device}, where they were saved; "
        f"this rank's device is cuda:{own}",
        use, op="load",
        fixes=[fix], step=session.bridge.steps(),
    ))  # fmt: skip


def before_wrapping(session: Any, module: Any, kwargs: dict[str, Any]) -> dict[str, Any]:
    """A module is about to become a DistributedDataParallel: is it in one place, and in the place that is named?"""
    use = findings.here(4)
    named = findings.named(module)
    cuda = [t.device for _, t, _ in named if t.device.type == "cuda"]
    left = [(n, t, kind) for n, t, kind in named if t.device.type == "cpu"]
    group = kwargs.get("process_group")
    if cuda and left and _is_nccl_only(group):
        home = max(set(cuda), key=cuda.count)
        _report_scattered(session, module, left, home, use, "DistributedDataParallel")
        _bring(module, home)
    elif left and not cuda and _is_nccl_only(group):
        name, tensor, kind = left[0]
        facts = findings.operand(tensor, name, kind, True)
        session.add_finding(findings.make(
            "cpu-collective", f"DistributedDataParallel over an NCCL group was given {type(module).__name__}, which "
            f"is on the CPU",
            f"`{name}` and the rest of {type(module).__name__} were never moved to the rank's device", use,
            op="DistributedDataParallel", operands=[facts], culprit=findings.culprit_of(facts, f"cuda:{_own_device()}"),
            notes=["move the module to the rank's device before it is wrapped"],
        ))  # fmt: skip
    given = kwargs.get("device_ids")
    if given and len(set(cuda)) == 1 and not left:
        index = given[0].index if isinstance(given[0], torch.device) else given[0]
        if isinstance(index, int) and index != cuda[0].index:
            name, tensor, kind = named[0]
            facts = findings.operand(tensor, name, kind, True)
            session.add_finding(findings.make(
                "device-ids", f"device_ids names cuda:{index}, but {type(module).__name__} is on {cuda[0]}",
                f"inputs would be moved to cuda:{index}; the parameters, `{name}` among them, are on {cuda[0]}", use,
                op="DistributedDataParallel", operands=[facts], culprit=findings.culprit_of(facts, f"cuda:{index}"),
                notes=[f"move the module to cuda:{index} before wrapping, or give device_ids=[{cuda[0].index}]"],
            ))  # fmt: skip
            kwargs = {**kwargs, "device_ids": [cuda[0].index]}
            if kwargs.get("output_device") is not None:
                kwargs["output_device"] = cuda[0].index
    return kwargs


def after_wrapping(wrapped: Any, place: dict[str, Any]) -> None:
    """Remembers where a module was when it was wrapped."""
    first = next(iter(wrapped.module.parameters()), None)
    if first is not None:
        _wrapped[wrapped] = (str(first.device), place)


def _report_scattered(session: Any, module: Any, left: list[Any], home: Any, use: Any, wrapper: str) -> None:
    names = [name for name, _, _ in left]
    name, tensor, kind = left[0]
    facts = [findings.operand(t, n, k, True) for n, t, k in left[:4]]
    plural = "s" if len(left) > 1 else ""
    where = "the CPU" if tensor.device.type == "cpu" else str(tensor.device)
    session.add_finding(findings.make(
        "scattered-module", f"{wrapper} was given {type(module).__name__} with {len(left)} {kind}{plural} on {where} "
        f"and the rest on {home}",
        f"{findings.listed(names)} {'were' if plural else 'was'} left on {where}; the module must be on {home} as a "
        f"whole", use,
        module_sources.definition(module, name), op=wrapper, operands=facts,
        culprit=findings.culprit_of(facts[0], str(home)),
        notes=[f"move the whole module right before it is wrapped: model.to({str(home)!r})"],
    ))  # fmt: skip


def _bring(module: Any, home: Any) -> None:
    """Goes on as if nothing had been left elsewhere."""
    for part in module.modules():
        for table in (part._parameters, part._buffers):
            for tensor in table.values():
                if tensor is not None and tensor.device != home:
                    tensor.data = tensor.data.to(home)


def _after_move(session: Any, module: Any, device: str) -> None:
    """Remembers that a wrapped module was moved: harmless, to save it for one, until it is used again."""
    for wrapped, (home, _) in list(_wrapped.items()):
        if device != home and (module is wrapped or any(part is module for part in wrapped.modules())):
            _moved[wrapped] = findings.here(5)


def before_forward(session: Any, wrapped: Any) -> None:
    """A wrapped module that was moved elsewhere has left its buckets behind."""
    if wrapped not in _moved or not torch.is_grad_enabled():
        return
    cause = _moved.pop(wrapped)
    home, place = _wrapped[wrapped]
    device = str(next(wrapped.module.parameters()).device)
    if device != home:
        session.add_finding(findings.make(
            "moved-after-wrapping", f"{type(wrapped.module).__name__} was moved to {device} after it was wrapped on "
            f"{home}",
            f"DistributedDataParallel was made at {os.path.basename(place['file'])}:{place['line']}, with its buckets "
            f"on {home}; "
            f"the parameters were moved to {device} at {os.path.basename(cause['file'])}:{cause['line']}",
            findings.here(4), cause, op="forward",
            notes=["move first, then wrap"],
        ))  # fmt: skip
        _wrapped[wrapped] = (device, place)  # said once
        if wrapped.device_ids and device != "cpu":  # and on with it: the inputs follow the module
            wrapped.device_ids = [torch.device(device).index]


def _after_step(session: Any, optimizer: Any) -> None:
    """An optimizer none of whose parameters has a gradient, while a model's have, holds old parameters."""
    if optimizer in _stepped:
        return
    _stepped[optimizer] = True
    mine = [p for group in optimizer.param_groups for p in group["params"]]
    if any(p.grad is not None for p in mine) or not mine:
        return
    known = {id(p) for p in mine}
    shapes = sorted(tuple(p.shape) for p in mine)
    for module in [*(w.module for w in _wrapped), *hooks.moved_modules()]:
        theirs = [p for p in module.parameters() if p.requires_grad]
        if not theirs or any(id(p) in known for p in theirs) or not any(p.grad is not None for p in theirs):
            continue
        if sorted(tuple(p.shape) for p in theirs) != shapes or hooks.is_optimized(theirs):
            continue
        made = hooks.optimizer_place(optimizer)
        session.add_finding(findings.make(
            "optimizer-before", f"{type(optimizer).__name__} stepped, but none of its parameters has a gradient",
            f"none of its parameters is one of {type(module).__name__}'s, whose gradients no optimizer uses: it was "
            f"made before the "
            "model was copied, wrapped or sharded, and nothing is trained",
            findings.here(5), made, op="step",
            notes=["make the optimizer after the model is moved, wrapped or sharded"],
        ))  # fmt: skip
        return
