"""The reduction that did not finish: which parameters of a DistributedDataParallel module got no gradient in a backward
pass, and why; said when that pass ends, an iteration before PyTorch would.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import re
from typing import Any

import torch
from torch.optim.optimizer import register_optimizer_step_pre_hook

from locus import scratch
from locus.blame import findings, module_sources
from locus.program import identity
from locus.ranks import devices

_TWICE = "Expected to mark a variable ready only once"
_POSITIONAL = ("device_ids", "output_device", "dim", "broadcast_buffers", "init_sync", "process_group", "bucket_cap_mb")
_INDEX = re.compile(r"Parameter at index (\d+)")

_states: identity.ByIdentity[_State] = identity.ByIdentity()
_depth = 0


class _State:
    """What is known of one wrapped module."""

    def __init__(self, wrapped: Any):
        self.made_at = findings.here(4)
        self.names: list[str] = []
        self.parameters: list[Any] = []
        self.ready: set[int] = set()
        self.behind: list[tuple[str, set[int]]] = []
        self.armed = False
        self.synchronised = False
        self.deferred: tuple[list[int], dict[str, Any]] | None = None
        self.backwards = 0
        self.fresh = False  # the backward pass under way has brought a gradient
        self.passes = 0  # forward passes so far
        self.lacking: list[dict[str, Any]] = []  # what the findings are about, for whoever sees all ranks
        self.reported: set[Any] = set()
        ignored = getattr(wrapped, "parameters_to_ignore", set())
        for name, parameter in wrapped.module.named_parameters():
            if parameter.requires_grad and name not in ignored:
                self.names.append(name)
                self.parameters.append(parameter)
                parameter.register_post_accumulate_grad_hook(functools.partial(_note_ready, self, len(self.names) - 1))
        self.count = len(self.names)


def _note_ready(state: _State, number: int, parameter: Any) -> None:
    state.ready.add(number)
    state.fresh = True


def install(session: Any) -> None:
    """Looks at every DistributedDataParallel module that is made from here on, and at every backward pass."""
    wrapper = torch.nn.parallel.DistributedDataParallel
    wrap, forward, backward = wrapper.__init__, wrapper.forward, torch.autograd.backward

    @functools.wraps(wrap)
    def noted_wrap(self: Any, module: Any, *args: Any, **kwargs: Any) -> None:
        kwargs.update(zip(_POSITIONAL, args))
        kwargs = session.safely("DistributedDataParallel", devices.before_wrapping, session, module, kwargs) or kwargs
        wrap(self, module, **kwargs)
        session.safely("DistributedDataParallel", _add, self)

    @functools.wraps(forward)
    def noted_forward(self: Any, *args: Any, **kwargs: Any) -> Any:
        if _states.get(self) is not None:
            session.safely("forward of DistributedDataParallel", _settle, session)
            session.safely("forward of DistributedDataParallel", devices.before_forward, session, self)
        output = forward(self, *args, **kwargs)
        state = _states.get(self)
        if state is not None:
            session.safely("forward of DistributedDataParallel", _begin, session, self, state, output)
        return output

    @functools.wraps(backward)
    def noted_backward(*args: Any, **kwargs: Any) -> None:
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


def _add(wrapped: Any) -> None:
    state = _states[wrapped] = _State(wrapped)
    devices.after_wrapping(wrapped, state.made_at)


def _begin(session: Any, wrapped: Any, state: _State, output: Any) -> None:
    """A forward pass has ended: which parameters are behind what it returned."""
    if not torch.is_grad_enabled():
        return
    state.armed = bool(wrapped.require_backward_grad_sync) and not wrapped.find_unused_parameters
    state.armed = state.armed and not wrapped.static_graph and not getattr(wrapped, "_use_python_reducer", False)
    state.synchronised = state.armed
    state.passes += 1
    state.ready.clear()
    if state.backwards or len(state.behind) > 64:
        state.behind = []  # else: another forward() of the same iteration
    state.backwards = 0
    if state.armed:
        for name, tensor in _tensors(output):
            if tensor.requires_grad:
                state.behind.append((name, set(session.bridge.parameters_behind(tensor, state.parameters))))


def _tensors(value: Any, name: str = "the output", depth: int = 0) -> list[tuple[str, Any]]:
    """The tensors in what forward() returned, where DistributedDataParallel itself looks for them, with their names."""
    if isinstance(value, torch.Tensor):
        return [(name, value)]
    root = "output" if depth == 0 else name
    inside: list[tuple[str, Any]] = []
    if isinstance(value, dict):
        inside = [(f"{root}[{key!r}]", item) for key, item in value.items()]
    elif isinstance(value, (list, tuple)):
        inside = [(f"{root}[{number}]", item) for number, item in enumerate(value)]
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        inside = [(f"{root}.{each.name}", getattr(value, each.name)) for each in dataclasses.fields(value)]
    if depth > 8:
        return []
    return [found for label, item in inside for found in _tensors(item, label, depth + 1)]


def _end(session: Any) -> None:
    """A backward pass has ended: what did not get a gradient?"""
    use = findings.here(3)
    for wrapped, state in list(_states.items()):
        if not state.fresh:
            continue  # this pass did not go through it
        state.fresh = False
        state.backwards += 1
        if state.synchronised and not state.armed and state.backwards > 1 and state.deferred is None:
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
            state.armed = False  # one word an iteration; PyTorch's own error comes with the next forward
            _report_missing(session, wrapped, state, missing, use)
        else:
            state.deferred = (missing, use)


def _settle(session: Any) -> None:
    """The iteration is over: what has no gradient now will not get one."""
    for wrapped, state in list(_states.items()):
        if state.deferred is not None and state.armed:
            numbers, use = state.deferred
            missing = [number for number in numbers if number not in state.ready]
            state.armed = False
            if missing:
                _report_missing(session, wrapped, state, missing, use)
        state.deferred = None


def _report_second(session: Any, wrapped: Any, state: _State, use: Any) -> None:
    if "second" in state.reported:
        return
    state.reported.add("second")
    name = type(wrapped.module).__name__
    finding = findings.make(
        "ready-twice", f"a second backward() after one forward() of {name} is not reduced",
        "the gradients of all ranks were added up at the end of the first backward(); what this one adds stays on its "
        "own "
        "rank, and the ranks' parameters drift apart", use, op="backward",
        culprit={"name": name, "kind": "variable"}, step=session.bridge.steps(),
        notes=["add the losses up and call backward() once, or run the earlier ones under no_sync()"],
    )  # fmt: skip
    session.add_finding({**finding, "severity": "warning"})


def _report_missing(session: Any, wrapped: Any, state: _State, missing: list[int], use: Any) -> None:
    groups: dict[tuple[str, str, int], list[int]] = {}
    for number in missing:
        why, output = _why(state, number)
        place = module_sources.definition(wrapped.module, state.names[number])
        groups.setdefault((why, output, place["line"] if why == "unused" else 0), []).append(number)
    for (why, output, _), numbers in groups.items():
        names = [state.names[number] for number in numbers]
        key = (why, output, tuple(numbers))
        if key in state.reported:
            continue
        state.reported.add(key)
        session.add_finding(_finding(session, wrapped, state, why, output, names, numbers, use))


def _why(state: _State, number: int) -> tuple[str, str]:
    if not state.parameters[number].requires_grad:
        return "frozen", ""
    outputs = [name for name, behind in state.behind if number in behind]
    return ("lost", outputs[0]) if outputs else ("unused", "")


def _finding(
    session: Any, wrapped: Any, state: _State, why: str, output: str, names: list[str], numbers: list[int], use: Any
) -> dict[str, Any]:
    made = state.made_at
    wrapped_at = f"{_file(made)}:{made['line']}"
    shown = findings.listed(names)
    it, they = ("it", "its") if len(names) == 1 else ("them", "their")
    cause, fixes, notes, branch = module_sources.definition(wrapped.module, names[0]), [], [], None
    if why == "frozen":
        words = (
            f"{shown} had requires_grad set to False after the module was wrapped at {wrapped_at}, which still waits "
            f"for {they} gradient"
        )
        notes.append(f"freeze {it} before DistributedDataParallel is made, at {wrapped_at}")
        cause = made
    elif why == "lost":
        words = f"{shown} took part in {output} of forward(), but {output} did not reach the loss"
        notes.append(
            f"use {output} in the loss, or don't return it; static_graph=True where every step is like this one"
        )
        cause = use
    else:
        branch = module_sources.branch(wrapped.module, names[0])
        words, notes = _unused(wrapped, names, branch, wrapped_at)
        if branch is not None:
            fixes = [module_sources.with_argument(made, "find_unused_parameters=True")]
            cause = {key: value for key, value in branch.items() if key not in ("condition", "how")}
    parameter = state.parameters[numbers[0]]
    facts = [
        findings.operand(state.parameters[number], name, "parameter", True) for number, name in zip(numbers[:4], names)
    ]
    count = f"{len(names)} parameter{'s' if len(names) != 1 else ''}"
    finding = findings.make(
        "unfinished-reduction",
        f"the gradients of {type(wrapped.module).__name__} were not all reduced: {count} of {state.count} got none in "
        f"this backward pass",
        words, use, cause, op="backward", culprit=findings.culprit_of(facts[0], str(parameter.device)), operands=facts,
        fixes=fixes, notes=notes, step=session.bridge.steps(),
    )  # fmt: skip
    edit = module_sources.with_argument(made, "find_unused_parameters=True")
    state.lacking.append({
        "module": list(_states).index(wrapped), "pass": state.passes, "culprit": names[0], "names": names, "why": why,
        "branch": _way(branch) if branch else "", "condition": _condition(branch) if branch else "",
        "notes": ["find_unused_parameters=True, since ranks take different ways; or let every rank use the same parts"],
        "fixes": [{"verified": False, "note": "", **edit}] if edit else [],
    })  # fmt: skip
    return finding


def _unused(wrapped: Any, names: list[str], branch: Any, wrapped_at: str) -> tuple[str, list[str]]:
    """The words for parameters that no output of forward() depends on, and the cures."""
    shown = findings.listed(names)
    it, is_used = ("it", "it is used") if len(names) == 1 else ("them", "they are used")
    always = "static_graph=True will do, too, where every step leaves out the same parameters"
    if branch is not None:
        words = f"{shown} took no part in what forward() returned: {is_used} only {_way(branch)}"
        return words, ["find_unused_parameters=True, where steps or ranks take different branches"]
    used = module_sources.is_used(wrapped.module, names[0])
    if used is not None:
        words = (
            f"forward() uses {shown} at {_file(used)}:{used['line']}, but nothing that it returned leads back to {it}: "
            f"the result was not used, or was cut off (detach(), no_grad(), a comparison)"
        )
        return words, [f"let the gradient through, or freeze {it} before wrapping, at {wrapped_at}", always]
    return f"{shown} took no part in what forward() returned", [
        f"use {it} in forward(), or take {it} out of the module; or freeze {it} before wrapping "
        f"(requires_grad_(False) before {wrapped_at})",
        always,
    ]


def _condition(branch: Any) -> str:
    return f"the `{branch['condition']}` at {_file(branch)}:{branch['line']}"


def _way(branch: Any) -> str:
    leaves = " has not left early" if branch["how"] == "after" else ""
    return f"{branch['how']} {_condition(branch)}{leaves}"


def leave_word(path: str, rank: int) -> None:
    """Writes down which parameters had their gradient in the last pass, where it did not end well: other ranks may lack
    them.
    """
    states = list(_states.values())
    if not any(state.armed or state.lacking for state in states):
        return
    record = {
        "rank": rank,
        "modules": [
            {"pass": state.passes, "ready": [state.names[number] for number in sorted(state.ready)]} for state in states
        ],
        "lacking": [entry for state in states for entry in state.lacking],
    }
    scratch.write(path, json.dumps(record))


def _report_twice(session: Any, error: str) -> None:
    use = findings.here(4)
    match = _INDEX.search(error)
    for wrapped, state in list(_states.items()):
        if not state.ready:
            continue
        number = int(match.group(1)) if match else -1
        name = state.names[number] if 0 <= number < state.count else ""
        checkpointed = module_sources.calls(wrapped.module, "checkpoint", use_reentrant=True)
        if state.backwards >= 1:
            words = (
                "backward() ran a second time after one forward(), and each parameter may be reduced once for each "
                "forward()"
            )
            note = "add the losses up and call backward() once, or run the earlier ones under no_sync()"
            cause = use
        elif checkpointed is not None:
            words = (
                f"the part that checkpoint() at {_file(checkpointed)}:{checkpointed['line']} runs again is used more "
                f"than once, and reentrant checkpointing gives its gradient each time"
            )
            note = "checkpoint(…, use_reentrant=False); static_graph=True where every step is like this one"
            cause = checkpointed
        else:
            words = (
                "it is used in two graphs of one backward pass (a part that is run twice under reentrant "
                "checkpointing, or outside of forward())"
            )
            note = "use it inside forward() only; static_graph=True where every step is like this one"
            cause = state.made_at
        is_checkpointed = checkpointed is not None and state.backwards < 1
        fixes = [module_sources.with_argument(checkpointed, "use_reentrant=False")] if is_checkpointed else []
        facts = [findings.operand(state.parameters[number], name, "parameter", True)] if name else []
        session.add_finding(findings.make(
            "ready-twice", f"a gradient of {type(wrapped.module).__name__} was ready twice in one iteration",
            f"`{name}`: {words}" if name else words, use, cause, op="backward", operands=facts,
            culprit=findings.culprit_of(facts[0]) if facts else None, fixes=fixes, notes=[note],
            step=session.bridge.steps(),
        ))  # fmt: skip
        return


def _file(place: Any) -> str:
    return place["file"].rpartition("/")[2]
