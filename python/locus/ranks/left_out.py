"""Parameters that a tensor-parallel plan has left out: samples of them and of their gradients, taken before the first
steps. Whoever sees all ranks compares them (locus/engine/ranks/left_out.h).
"""

from __future__ import annotations

import dataclasses
import functools
import sys
import weakref
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Protocol, cast

import torch
from torch import nn
from torch.optim.optimizer import register_optimizer_step_pre_hook

from locus.after_import import after_import
from locus.blame import findings
from locus.blame.seen import Facts
from locus.program import moments, places
from locus.watch.session import Session

if TYPE_CHECKING:
    from types import ModuleType

    from locus.program.shapes import Location

_STEPS = 2
_MAX_PARAMETERS = 256
_SAMPLES = 16
_OF_PYTORCH = ("/torch/distributed/tensor/", "/torch/distributed/fsdp/", "/torch/nn/parallel/")


class _Mesh(Protocol):
    """A device mesh, as far as it is asked here."""

    ndim: int

    def get_group(self, mesh_dim: int) -> torch.distributed.ProcessGroup: ...


@dataclasses.dataclass
class _Plan:
    """One call of parallelize_module()."""

    root: weakref.ref[nn.Module]
    groups: list[list[int]]
    at: Location


@dataclasses.dataclass
class _LeftOut:
    """See locus/engine/ranks/left_out.h."""

    name: str
    group: list[int]
    facts: Facts
    values: list[float]
    gradients: list[list[float]]


_plans: list[_Plan] = []
_left_out: dict[tuple[str, tuple[int, ...]], _LeftOut] = {}
_by_hand: set[tuple[int, ...]] = set()
_steps: dict[int, int] = {}
"""By an optimizer's number, how many of its steps were looked at."""
_depth = 0


def install(session: Session) -> None:
    """Hears of every plan from here on, and looks at the optimizers' first steps after one."""
    after_import("torch.distributed.tensor.parallel.api", functools.partial(_watch, session))
    register_optimizer_step_pre_hook(lambda optimizer, *_: session.safely("a step", _before_step, session, optimizer))


def last_word() -> dict[str, object]:
    """What is left for whoever sees all ranks."""
    if not _left_out:
        return {}
    return {
        "left_out": [dataclasses.asdict(each) for each in _left_out.values()],
        "by_hand": [list(group) for group in _by_hand],
    }


def _watch(session: Session, module: ModuleType) -> None:
    plain: Callable[..., nn.Module] = module.parallelize_module

    @functools.wraps(plain)
    def parallelize_module(*arguments: object, **named: object) -> nn.Module:
        global _depth
        _depth += 1
        try:
            made = plain(*arguments, **named)
        finally:
            _depth -= 1
        if _depth == 0:  # it calls itself for each part
            given = {**dict(zip(("module", "device_mesh"), arguments, strict=False)), **named}
            mesh = cast("_Mesh | None", given.get("device_mesh"))
            session.safely("parallelize_module()", _note, cast("nn.Module", given["module"]), mesh)
        return made

    for each in (module, sys.modules.get("torch.distributed.tensor.parallel")):
        if getattr(each, "parallelize_module", None) is plain:
            each.parallelize_module = parallelize_module  # type: ignore[union-attr]


def _note(root: nn.Module, mesh: _Mesh | None) -> None:
    if mesh is None:  # the one of a `with`
        mesh = next((p.device_mesh for p in root.parameters() if hasattr(p, "device_mesh")), None)
    groups = _groups(mesh) if mesh is not None else []
    if groups:
        _plans.append(_Plan(weakref.ref(root), groups, findings.here(4)))


def _groups(mesh: _Mesh) -> list[list[int]]:
    """For each dimension of a mesh, the ranks along it from this one."""
    found = [torch.distributed.get_process_group_ranks(mesh.get_group(number)) for number in range(mesh.ndim)]
    return [ranks for ranks in found if len(ranks) > 1]


def _before_step(session: Session, optimizer: torch.optim.Optimizer) -> None:
    count = _steps.get(id(optimizer), 0)
    if not _plans or count >= _STEPS:
        return
    _steps[id(optimizer)] = count + 1
    mine = {id(p) for group in optimizer.param_groups for p in group["params"]}
    with torch._C.DisableTorchFunctionSubclass():
        for model, plans in _planned():
            nearest = _nearest(plans)
            for name, parameter in nn.Module.named_parameters(model):
                if id(parameter) in mine and parameter.grad is not None:
                    _look(session, model, name, parameter, [*nearest.get(id(parameter), []), *plans])


def _planned() -> Iterator[tuple[nn.Module, list[_Plan]]]:
    """Whole models with the plans for them and their parts."""
    for model in moments.outermost_modules():
        parts = {id(part) for part in model.modules()}
        plans = [plan for plan in _plans if id(plan.root()) in parts]
        if plans:
            yield model, plans


def _nearest(plans: list[_Plan]) -> dict[int, list[_Plan]]:
    """The plans of the modules that a parameter is in, by the parameter's number."""
    found: dict[int, list[_Plan]] = {}
    for plan in plans:
        root = plan.root()
        for parameter in root.parameters() if root is not None else ():
            found.setdefault(id(parameter), []).append(plan)
    return found


def _look(session: Session, model: nn.Module, name: str, parameter: nn.Parameter, plans: list[_Plan]) -> None:
    """Takes samples of a parameter for each group over which others are split and it is not. The first plan with that
    group is the one that has left it out."""
    mesh = getattr(parameter, "device_mesh", None)
    own = _groups(mesh) if mesh is not None else []
    left: dict[tuple[int, ...], _Plan] = {}
    for plan in plans:
        for group in plan.groups:
            if not any(len(set(group) & set(each)) > 1 for each in own):
                left.setdefault(tuple(group), plan)
    values = _sample(session, parameter) if left else None
    if values is None or parameter.grad is None:
        return
    gradient = _sample(session, parameter.grad) or []
    for members, plan in left.items():
        entry = _left_out.get((name, members))
        if entry is None:
            if len(_left_out) >= _MAX_PARAMETERS:
                return
            facts = _facts(model, name, parameter, plan)
            entry = _left_out[name, members] = _LeftOut(name, list(members), facts, values, [])
        if len(entry.gradients) < _STEPS:
            entry.gradients.append(gradient)


def _facts(model: nn.Module, name: str, parameter: nn.Parameter, plan: _Plan) -> Facts:
    local = getattr(parameter, "_local_tensor", parameter)
    kind = type(model).__name__.removeprefix("FSDP")
    operands = [findings.operand(local, name, "parameter")]
    return Facts("other-values", findings.here(6), plan.at, "step", operands, subject=kind)


def _sample(session: Session, tensor: torch.Tensor) -> list[float] | None:
    return session.bridge.sample(getattr(tensor, "_local_tensor", tensor), _SAMPLES)


def look_at_call(group: str, members: Callable[[str], list[int]]) -> None:
    """A collective: is it one that a module of the program's makes by hand? Then it splits its work in its own way, and
    what it holds on each rank may well differ."""
    if not _plans or (_steps and all(count >= _STEPS for count in _steps.values())):
        return
    frames = list(places.walk(sys._getframe(1)))
    users = places.user_frames(frames)
    between = frames[: frames.index(users[0])] if users else []
    if any(part in frame.f_code.co_filename for frame in between for part in _OF_PYTORCH):
        return
    try:
        for frame in users:
            if frame.f_code.co_name in ("forward", "backward") or isinstance(frame.f_locals.get("self"), nn.Module):
                _by_hand.add(tuple(members(group)))
                return
    finally:
        places.release_locals(users)
