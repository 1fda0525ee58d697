"""An optimizer that trains nothing: it holds parameters that are no longer the model's, because it was made before the
model was sharded, filled from the meta device, or given other parameters. Judged by identity, at its steps.

Holds no reference to a parameter, not even a weak one: PyTorch refuses to swap tensors that have one.
"""

from __future__ import annotations

import dataclasses
import weakref

import torch
from torch import nn
from torch.nn.modules.module import (
    register_module_module_registration_hook,
    register_module_parameter_registration_hook,
)
from torch.optim.optimizer import register_optimizer_step_post_hook

from locus.blame import findings, statement_order
from locus.blame.seen import Facts
from locus.program import hand_updates, histories, identity, moments
from locus.program.shapes import Location
from locus.ranks import seen
from locus.watch import hooks
from locus.watch.session import Session

_EVERY_STEP = 64  # after so many steps only one in sixteen is looked at
_MAX_NAMES = 64

Named = list[tuple[str, nn.Parameter]]


@dataclasses.dataclass
class _Held:
    """What an optimizer's parameters were to the program's models when it got them."""

    names: dict[int, str]
    """By a parameter's number: what its model calls it."""
    known: set[int]
    """The numbers of all parameters that those models had."""
    slots: list[tuple[weakref.ref[nn.Module], str, int]]
    """(module, name in it, number) of each parameter and each part: while nothing has changed there, all is well."""
    models: list[weakref.ref[nn.Module]]
    count: int
    trains: bool = False
    """One of its parameters has had a gradient at a step."""
    steps: int = 0
    wait: int = 0
    """Steps that are not looked at, since something had changed and was no mistake."""
    patience: int = 1


_held: identity.ByIdentity[torch.optim.Optimizer, _Held] = identity.ByIdentity()


def install(session: Session) -> None:
    """Looks at every optimizer that is made from here on, and at its steps."""
    hooks.on_optimizer(lambda optimizer: session.safely("an optimizer", _note, optimizer))
    register_optimizer_step_post_hook(lambda optimizer, *_: session.safely("a step", _after_step, session, optimizer))
    for register in (register_module_parameter_registration_hook, register_module_module_registration_hook):
        register(lambda *bound: session.safely("a part of a module", _note_binding, *bound))


def _note_binding(module: nn.Module, name: str, part: object) -> None:
    """What a module is given before there is an optimizer comes too late for none."""
    if _held:
        moments.note_binding(module, name, part)


def _note(optimizer: torch.optim.Optimizer) -> None:
    """Remembers whose parameters an optimizer has got."""
    mine = {id(p) for p in _parameters(optimizer)}
    held = _Held({}, set(), [], [], len(mine))
    for model in moments.outermost_modules():
        named = _named_parameters(model)
        if not any(id(p) in mine for _, p in named):
            continue
        held.models.append(weakref.ref(model))
        held.known.update(id(p) for _, p in named)
        held.names.update((id(p), name) for name, p in named if id(p) in mine)
        for part in model.modules():
            if not isinstance(part._parameters, dict):
                continue  # compiled by TorchScript
            reference = weakref.ref(part)
            held.slots += [(reference, name, id(p)) for name, p in part._parameters.items() if id(p) in mine]
            held.slots += [(reference, name, id(inner)) for name, inner in part._modules.items() if inner is not None]
    _held[optimizer] = held


def _after_step(session: Session, optimizer: torch.optim.Optimizer) -> None:
    held = _held.get(optimizer)
    if held is None:
        return
    held.steps += 1
    if held.wait or (held.steps > _EVERY_STEP and held.steps % 16):
        held.wait = max(held.wait - 1, 0)
        return
    if held.models and _is_unchanged(held):
        mine = _parameters(optimizer)
        if len(mine) != held.count:
            _note(optimizer)
        held.trains = held.trains or any(p.grad is not None for p in mine)
        if held.trains:
            return
    found = _judge(optimizer, held)
    if found is None or hand_updates.in_program():
        held.wait, held.patience = held.patience, min(held.patience * 2, 1024)
        return
    seen.report(session, found)
    _held.pop(optimizer)


def _is_unchanged(held: _Held) -> bool:
    for reference, name, number in held.slots:
        module = reference()
        if module is None or (id(module._parameters.get(name)) != number and id(module._modules.get(name)) != number):
            return False
    return True


def _judge(optimizer: torch.optim.Optimizer, held: _Held) -> Facts | None:
    """A finding, where the model has got parameters that are trained by nobody in place of the optimizer's."""
    mine = _parameters(optimizer)
    trains_nothing = bool(mine) and all(p.grad is None for p in mine)
    modules = moments.outermost_modules()
    for model in _models_now(held, modules):
        named = _named_parameters(model)
        theirs = {id(p) for _, p in named}
        stale = [p for p in mine if id(p) in held.names and id(p) not in theirs and p.grad is None]
        if not stale and not trains_nothing:
            continue
        fresh = [(name, p) for name, p in named if id(p) not in held.known and _is_left_alone(p)]
        if fresh:
            return _facts(optimizer, model, [held.names[id(p)] for p in stale], len(mine), fresh)
    if not trains_nothing:
        return None
    shapes = sorted(tuple(p.shape) for p in mine)
    for model in modules:
        named = [(name, p) for name, p in _named_parameters(model) if p.requires_grad]
        if any(id(p) in held.known for _, p in named) or not any(p.grad is not None for _, p in named):
            continue
        if sorted(tuple(p.shape) for _, p in named) == shapes and not moments.is_optimized([p for _, p in named]):
            return _facts(optimizer, model, [], len(mine), named)
    return None


def _is_left_alone(parameter: nn.Parameter) -> bool:
    return parameter.requires_grad and parameter.grad is not None and not moments.is_optimized([parameter])


def _models_now(held: _Held, modules: list[nn.Module]) -> list[nn.Module]:
    """What became of the models that had the optimizer's parameters: themselves, or what they are a part of now."""
    origins = [model for model in (reference() for reference in held.models) if model is not None]
    if not origins:  # taken apart: whatever has a part of them
        origins = [part for part in (reference() for reference, _, _ in held.slots) if part is not None]
    wanted = {id(model) for model in origins}
    return [outer for outer in modules if any(id(part) in wanted for part in outer.modules())]


def _facts(optimizer: torch.optim.Optimizer, model: nn.Module, stale: list[str], count: int, fresh: Named) -> Facts:
    made = moments.optimizer_place(optimizer)
    origins = [place for place in (_origin(p) for _, p in fresh) if place is not None]
    replaced = origins[-1] if origins else None
    edit = statement_order.moved_after(made, _ways_in(model, fresh)) if made is not None and stale else None
    kind = type(model).__name__.removeprefix("FSDP")  # fully_shard() makes a class of its own
    return Facts(
        "optimizer-before", findings.here(5), made, "step", fixes=[edit] if edit else [],
        subject=kind, wrapper=type(optimizer).__name__, names=stale[:_MAX_NAMES], count=count, made=replaced,
        output=fresh[0][0],
    )  # fmt: skip


def _ways_in(model: nn.Module, fresh: Named) -> list[list[Location]]:
    """By what calls each of the new parameters came into the model; under all names that it has there."""
    mine = {id(p) for _, p in fresh}
    found = []
    for name, p in nn.Module.named_parameters(model, remove_duplicate=False):
        if id(p) in mine:
            origin = _origin(p)
            found.append(moments.bound_at(model, name) or ([origin] if origin is not None else []))
    return found


def _origin(parameter: nn.Parameter) -> Location | None:
    """Where the values of a parameter that a model has got come from."""
    local = getattr(parameter, "_local_tensor", parameter)
    steps = histories.history(local)
    return steps[-1].facts["at"] if steps and steps[-1].facts["at"]["line"] else None


def _parameters(optimizer: torch.optim.Optimizer) -> list[nn.Parameter]:
    return [p for group in optimizer.param_groups for p in group["params"]]


def _named_parameters(model: nn.Module) -> Named:
    """The parameters as they are in the module, whatever its class makes of them."""
    return list(nn.Module.named_parameters(model))
