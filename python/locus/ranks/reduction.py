"""The reduction that did not finish: which parameters of a DistributedDataParallel module got no gradient in a backward
pass, and why; said when that pass ends, an iteration before PyTorch would.
"""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

import torch
from torch.nn.parallel import DistributedDataParallel
from torch.optim.optimizer import register_optimizer_step_pre_hook

from locus.blame import findings, module_sources
from locus.blame.branches import Branch
from locus.blame.seen import Facts
from locus.program import identity
from locus.program.shapes import Location
from locus.ranks import devices, seen
from locus.watch.session import Session

if TYPE_CHECKING:
    from locus.program.shapes import Edit


_TWICE = "Expected to mark a variable ready only once"
_POSITIONAL = ("device_ids", "output_device", "dim", "broadcast_buffers", "init_sync", "process_group", "bucket_cap_mb")
_INDEX = re.compile(r"Parameter at index (\d+)")

_MAX_PARTIAL = 1024

Why = Literal["frozen", "lost", "unused"]

_states: identity.ByIdentity[DistributedDataParallel, _State] = identity.ByIdentity()
_depth = 0
_backward: Callable[..., None] = torch.autograd.backward


@dataclasses.dataclass
class _Lacking:
    """See locus/engine/ranks/together.h."""

    module: int
    forward: int
    names: list[str]
    is_unused: bool
    branch: Branch | None
    fix: Edit | None

    def as_json(self) -> dict[str, object]:
        return {
            "module": self.module, "pass": self.forward, "culprit": self.names[0], "names": self.names,
            "is_unused": self.is_unused, "branch": self.branch and dataclasses.asdict(self.branch),
            "fixes": [self.fix] if self.fix else [],
        }  # fmt: skip


class _State:
    """What is known of one wrapped module."""

    def __init__(self, wrapped: DistributedDataParallel):
        self.made_at = findings.here(4)
        self.names: list[str] = []
        self.parameters: list[torch.nn.Parameter] = []
        self.ready: set[int] = set()
        self.behind: list[tuple[str, set[int]]] = []
        self.armed = False
        self.synchronized = False
        self.deferred: tuple[list[int], Location] | None = None
        self.backwards = 0
        self.fresh = False  # the backward pass under way has brought a gradient
        self.passes = 0  # forward passes so far
        self.partial: dict[int, list[str]] = {}  # the passes in which not all gradients came: those that did
        self.lacking: list[_Lacking] = []  # what the findings are about, for whoever sees all ranks
        self.reported: set[object] = set()
        ignored: set[str] = getattr(wrapped, "parameters_to_ignore", set())
        for name, parameter in wrapped.module.named_parameters():
            if parameter.requires_grad and name not in ignored:
                self.names.append(name)
                self.parameters.append(parameter)
                parameter.register_post_accumulate_grad_hook(functools.partial(_note_ready, self, len(self.names) - 1))
        self.count = len(self.names)

    def ready_names(self) -> list[str]:
        return [self.names[number] for number in sorted(self.ready)]


def _note_ready(state: _State, number: int, parameter: torch.Tensor) -> None:
    state.ready.add(number)
    state.fresh = True


def install(session: Session) -> None:
    """Looks at every DistributedDataParallel module that is made from here on, and at every backward pass."""
    wrapper = DistributedDataParallel
    wrap: Callable[..., None] = wrapper.__init__
    forward: Callable[..., object] = wrapper.forward
    global _backward
    backward: Callable[..., None] = torch.autograd.backward
    _backward = backward

    @functools.wraps(wrap)
    def noted_wrap(self: DistributedDataParallel, module: torch.nn.Module, *args: object, **kwargs: object) -> None:
        kwargs.update(zip(_POSITIONAL, args))
        kwargs = session.safely("DistributedDataParallel", devices.before_wrapping, session, module, kwargs) or kwargs
        wrap(self, module, **kwargs)
        session.safely("DistributedDataParallel", _add, self)

    @functools.wraps(forward)
    def noted_forward(self: DistributedDataParallel, *args: object, **kwargs: object) -> object:
        if _states.get(self) is not None:
            session.safely("forward of DistributedDataParallel", _settle, session)
            session.safely("forward of DistributedDataParallel", devices.before_forward, session, self)
        output = forward(self, *args, **kwargs)
        state = _states.get(self)
        if state is not None:
            session.safely("forward of DistributedDataParallel", _begin, session, self, state, output)
        return output

    @functools.wraps(backward)
    def noted_backward(*args: object, **kwargs: object) -> None:
        global _depth
        _depth += 1
        try:
            backward(*args, **kwargs)
        except RuntimeError as error:
            if _TWICE in str(error) and _depth == 1:  # a reentrant pass inside another raises through both
                session.safely("ready twice", _report_twice, session, str(error))
            raise
        finally:
            _depth -= 1
        if _depth == 0 and len(_states):
            session.safely("backward", _end, session)

    register_optimizer_step_pre_hook(lambda *_: session.safely("a step", _settle, session))
    wrapper.__init__, wrapper.forward = noted_wrap, noted_forward
    torch.autograd.backward = noted_backward


def _add(wrapped: DistributedDataParallel) -> None:
    state = _states[wrapped] = _State(wrapped)
    devices.after_wrapping(wrapped, state.made_at)


def _begin(session: Session, wrapped: DistributedDataParallel, state: _State, output: object) -> None:
    """A forward pass has ended: which parameters are behind what it returned."""
    if not torch.is_grad_enabled():
        return
    state.armed = bool(wrapped.require_backward_grad_sync) and not wrapped.find_unused_parameters
    state.armed = state.armed and not wrapped.static_graph and not getattr(wrapped, "_use_python_reducer", False)
    state.synchronized = state.armed
    state.passes += 1
    state.ready.clear()
    if state.backwards or len(state.behind) > 64:
        state.behind = []  # else: another forward() of the same iteration
    state.backwards = 0
    if state.armed:
        for name, tensor in _tensors(output):
            if tensor.requires_grad:
                state.behind.append((name, set(session.bridge.parameters_behind(tensor, state.parameters))))


def _tensors(value: object, name: str = "the output", depth: int = 0) -> list[tuple[str, torch.Tensor]]:
    """The tensors in what forward() returned, where DistributedDataParallel itself looks for them, with their names."""
    if isinstance(value, torch.Tensor):
        return [(name, value)]
    root = "output" if depth == 0 else name
    inside: list[tuple[str, object]] = []
    if isinstance(value, dict):
        inside = [(f"{root}[{key!r}]", item) for key, item in value.items()]
    elif isinstance(value, (list, tuple)):
        inside = [(f"{root}[{number}]", item) for number, item in enumerate(value)]
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        inside = [(f"{root}.{each.name}", getattr(value, each.name)) for each in dataclasses.fields(value)]
    if depth > 8:
        return []
    return [found for label, item in inside for found in _tensors(item, label, depth + 1)]


def _end(session: Session) -> None:
    """A backward pass has ended: what did not get a gradient?"""
    use = findings.here(3)
    for wrapped, state in list(_states.items()):
        if not state.fresh:
            continue  # this pass did not go through it
        state.fresh = False
        state.backwards += 1
        if state.synchronized and not state.armed and state.backwards > 1 and state.deferred is None:
            _report_second(session, wrapped, state, use)
        if not state.armed:
            continue
        missing = [number for number in range(state.count) if number not in state.ready]
        if not missing:
            state.armed, state.deferred = False, None
            continue
        # What an output that was returned leads to may still get its gradient from another backward pass.
        certain = [number for number in missing if _why(state, number)[0] != "lost"]
        if certain:
            _report_missing(session, wrapped, state, certain, use)
            _finish(state, certain)
        if len(certain) < len(missing):
            state.deferred = ([number for number in missing if number not in certain], use)
        else:
            state.armed = False


def _settle(session: Session) -> None:
    """The iteration is over: what has no gradient now will not get one."""
    for wrapped, state in list(_states.items()):
        if state.deferred is not None and state.armed:
            numbers, use = state.deferred
            missing = [number for number in numbers if number not in state.ready]
            state.armed = False
            if missing:
                _report_missing(session, wrapped, state, missing, use)
                _finish(state, missing)
        state.deferred = None


def _finish(state: _State, missing: list[int]) -> None:
    """Goes on as if the gradients that did not come had been zero: the reduction waits for them, and PyTorch would
    refuse the next forward()."""
    missing = [number for number in missing if number not in state.ready]
    parameters = [state.parameters[number] for number in missing]
    frozen = [parameter for parameter in parameters if not parameter.requires_grad]
    for parameter in frozen:
        parameter.requires_grad_(True)
    try:
        with torch.enable_grad():
            _backward(sum((parameter * 0).sum() for parameter in parameters))
    finally:
        for parameter in frozen:
            parameter.requires_grad_(False)
            parameter.grad = None
    state.fresh = False


def _report_second(session: Session, wrapped: DistributedDataParallel, state: _State, use: Location) -> None:
    if "second" not in state.reported:
        state.reported.add("second")
        seen.report(session, Facts("second-backward", use, op="backward", subject=type(wrapped.module).__name__))


def _report_missing(
    session: Session, wrapped: DistributedDataParallel, state: _State, missing: list[int], use: Location
) -> None:
    if len(state.partial) < _MAX_PARTIAL:
        state.partial[state.passes] = state.ready_names()
    groups: dict[tuple[Why, str, int], list[int]] = {}
    for number in missing:
        why, output = _why(state, number)
        place = module_sources.definition(wrapped.module, state.names[number])
        groups.setdefault((why, output, place["line"] if why == "unused" else 0), []).append(number)
    for (why, output, _), numbers in groups.items():
        key = (why, output, tuple(numbers))
        if key not in state.reported:
            state.reported.add(key)
            seen.report(session, _facts(wrapped, state, why, output, numbers, use))


def _why(state: _State, number: int) -> tuple[Why, str]:
    if not state.parameters[number].requires_grad:
        return "frozen", ""
    outputs = [name for name, behind in state.behind if number in behind]
    return ("lost", outputs[0]) if outputs else ("unused", "")


def _facts(
    wrapped: DistributedDataParallel, state: _State, why: Why, output: str, numbers: list[int], use: Location
) -> Facts:
    names = [state.names[number] for number in numbers]
    operands = [findings.operand(state.parameters[number], state.names[number], "parameter") for number in numbers[:4]]
    edit = module_sources.with_argument(state.made_at, "find_unused_parameters=True")
    branch = module_sources.branch(wrapped.module, names[0]) if why == "unused" else None
    is_cut_off = why == "unused" and branch is None
    cause = {"frozen": state.made_at, "lost": use, "unused": branch.at if branch else None}[why]
    state.lacking.append(_Lacking(list(_states).index(wrapped), state.passes, names, why == "unused", branch, edit))
    return Facts(
        why, use, cause or module_sources.definition(wrapped.module, names[0]), "backward", operands,
        [edit] if branch and edit else [], subject=type(wrapped.module).__name__, output=output, names=names,
        expected=str(state.parameters[numbers[0]].device), count=state.count, made=state.made_at, branch=branch,
        used=module_sources.is_used(wrapped.module, names[0]) if is_cut_off else None,
    )  # fmt: skip


def last_word() -> dict[str, object]:
    """Which parameters had their gradient in each pass: other ranks may lack them."""
    states = list(_states.values())
    if not states:
        return {}
    return {
        "modules": [
            {
                "pass": state.passes,
                "ready": state.ready_names(),
                "partial": state.partial,
                "all": state.names if len(state.partial) < _MAX_PARTIAL else [],
            }
            for state in states
        ],
        "lacking": [entry.as_json() for state in states for entry in state.lacking],
    }


def _report_twice(session: Session, error: str) -> None:
    use = findings.here(4)
    match = _INDEX.search(error)
    found = next(((wrapped, state) for wrapped, state in list(_states.items()) if state.ready), None)
    if found is None:
        return
    wrapped, state = found
    number = int(match.group(1)) if match else -1
    names = state.names[number : number + 1] if number >= 0 else []
    operands = [findings.operand(state.parameters[number], name, "parameter") for name in names]
    facts = Facts("twice", use, state.made_at, "backward", operands, names=names, subject=type(wrapped.module).__name__)
    checkpointed = module_sources.calls(wrapped.module, "checkpoint", use_reentrant=True)
    if state.backwards >= 1:
        facts.seen, facts.cause = "twice-by-backward", use
    elif checkpointed is not None:
        facts.seen, facts.cause, facts.made = "twice-by-checkpoint", checkpointed, checkpointed
        edit = module_sources.with_argument(checkpointed, "use_reentrant=False")
        facts.fixes = [edit] if edit else []
    seen.report(session, facts)
