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
    from types import FrameType, ModuleType

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
    def parallelize_module(root: nn.Module, *arguments: object, **named: object) -> nn.Module:
        global _depth
        _depth += 1
        try:
            made = plain(root, *arguments, **named)
        finally:
            _depth -= 1
        if _depth == 0:  # it calls itself for each part
            mesh = arguments[0] if arguments else named.get("device_mesh")
            session.safely("parallelize_module()", _note, root, cast("_Mesh | None", mesh))
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
            for name, parameter in nn.Module.named_parameters(model):
                if id(parameter) in mine and parameter.grad is not None:
                    _look(session, model, name, parameter, plans)


def _planned() -> Iterator[tuple[nn.Module, list[_Plan]]]:
    """Whole models with the plans for them and their parts."""
    modules = moments.made_modules()
    inner = {id(part) for module in modules for part in module._modules.values()}
    for model in modules:
        if id(model) not in inner:
            parts = {id(part) for part in model.modules()}
            plans = [plan for plan in _plans if id(plan.root()) in parts]
            if plans:
                yield model, plans


def _look(session: Session, model: nn.Module, name: str, parameter: nn.Parameter, plans: list[_Plan]) -> None:
    """Takes samples of a parameter for each group over which others are split and it is not."""
    mesh = getattr(parameter, "device_mesh", None)
    own = _groups(mesh) if mesh is not None else []
    for plan in [*(plan for plan in plans if _is_in(parameter, plan)), *plans]:
        for group in plan.groups:
            if any(len(set(group) & set(each)) > 1 for each in own):
                continue
            key = (name, tuple(group))
            entry = _left_out.get(key)
            if entry is None:
                values = _sample(session, parameter)
                if values is None or len(_left_out) >= _MAX_PARAMETERS:
                    continue
                facts = _facts(model, name, parameter, plan)
                entry = _left_out[key] = _LeftOut(name, group, facts, values, [])
            if plan.at == entry.facts.cause and len(entry.gradients) < _STEPS and parameter.grad is not None:
                entry.gradients.append(_sample(session, parameter.grad) or [])


def _is_in(parameter: nn.Parameter, plan: _Plan) -> bool:
    root = plan.root()
    return root is not None and any(each is parameter for each in root.parameters())


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
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and not places.is_user_file(frame.f_code.co_filename):
        if any(part in frame.f_code.co_filename for part in _OF_PYTORCH):
            return
        frame = frame.f_back
    while frame is not None:
        if isinstance(frame.f_locals.get("self"), nn.Module) or frame.f_code.co_name in ("forward", "backward"):
            _by_hand.add(tuple(members(group)))
            return
        frame = frame.f_back
