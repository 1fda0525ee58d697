"""Functions that are told the device by a parameter, and the calls that do not tell it: `make(n)` of
`def make(n, device=None)`. What is made there is where nobody put it, and the call is the line to edit.

Reads trees; runs nothing.
"""

from __future__ import annotations

import ast
import types
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from locus.blame.candidates import Candidates, Cause, location_of
from locus.fixing import device_text, given_devices, name_scopes, rewriting
from locus.program import bindings, following, histories, source, trails, values


class Parameter(NamedTuple):
    """A parameter that says a device, and the function that has it."""

    file: source.Source
    function: ast.FunctionDef | ast.AsyncFunctionDef
    name: str


def correct(steps: list[histories.Step], users: list[types.FrameType]) -> list[histories.Step]:
    """The steps, in which a device that came from a parameter nobody gave is not one that somebody asked for; nor is
    that of another tensor, which was made without a device: that one is the tensor to know about."""
    for number, step in enumerate(steps):
        followed = _followed(step)
        if followed is not None:
            steps[number] = followed
        elif step.facts["explicit"] and step.facts["device"] == "cpu":
            parameter = _parameter_of(step)
            if parameter is not None and next(_calls_without(parameter, users), None) is not None:
                step.facts["explicit"] = False
    return steps


def _followed(step: histories.Step) -> histories.Step | None:
    """Where `torch.ones(3, device=t.device)` or `zeros_like(t)` made a tensor on the host: the step that made `t`."""
    if step.facts["action"] != "created" or step.facts["device"] != "cpu" or step.call is None or step.file is None:
        return None
    made = following.maker_of(step.file, step.call, name_scopes.function_of(step.file, step.call))
    if made is None:
        return None
    facts = step.facts.copy()
    facts["op"], facts["explicit"] = histories.called_name(made), False
    facts["at"] = location_of(step.file, made)
    return histories.Step(facts, step.file, made, made, "")


def gather(
    found: Candidates, steps: list[histories.Step], way: trails.Trail | None, device: str,
    users: list[types.FrameType], others: Sequence[tuple[ast.AST, source.Source]],
) -> None:  # fmt: skip
    """The call that should have passed the device to the function which made the tensor."""
    placed = next((step for step in reversed(steps) if step.facts["action"] != "computed"), None)
    bound = _bound_to_host(steps, placed, way, device, users)
    if bound is not None:
        found.add("put_on_card", bound, ["device_is_cpu"])
    parameter = _parameter_of(placed) if placed is not None and placed.facts["device"] == "cpu" else None
    if parameter is None:
        return
    without = list(_calls_without(parameter, users))
    on_way = [link.context.call for link in way.links] if way is not None else []
    chosen = [each for each in without if any(each[1] is call for call in on_way)] or without
    if len({(file.file, call.lineno) for file, call in chosen}) != 1:
        return  # which of them it was is not known
    file, call = chosen[0]
    words = device_text.write(file, call, device, users, others)
    edit = rewriting.add_argument(file, call, f"{parameter.name}={words}")
    found.add("pass_device", Cause(location_of(file, call), edit), ["device_not_passed"])


def _parameter_of(step: histories.Step) -> Parameter | None:
    """The parameter that said where a call makes or moves a tensor, where it may be left out."""
    if step.call is None or step.file is None:
        return None
    file, scope = step.file, name_scopes.function_of(step.file, step.call)
    for said in _said(file, scope, step.call):
        if isinstance(said, ast.Name):
            return _optional(file, scope, said.id)
        holder = file.scope(scope) if scope is not file.tree else None
        if not isinstance(said, ast.Attribute) or not isinstance(said.value, ast.Name):
            continue
        if isinstance(holder, ast.ClassDef) and said.value.id == bindings.self_name(scope):
            for stored in file.find(holder, ("stored attribute", said.attr)):
                statement = file.statement(stored)
                if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Name):
                    return _optional(file, name_scopes.function_of(file, stored), statement.value.id)
    return None


_PICKING = {"index", "index_select", "gather", "take"}
"""What takes some of what is kept: that may be on the host for its size."""


def _bound_to_host(
    steps: list[histories.Step], placed: histories.Step | None, way: trails.Trail | None, device: str,
    users: list[types.FrameType],
) -> Cause | None:  # fmt: skip
    """`self.device = torch.device("cpu")`, `table(4, "cpu")`, where tensors are made on `self.device`, on what table()
    was given: the line that says it for all."""
    if any(step.facts["op"] in _PICKING for step in steps):
        return None
    placing: list[tuple[source.Source, ast.AST]] = []
    if placed is not None and placed.facts["device"] == "cpu" and placed.call is not None and placed.file is not None:
        placing.append((placed.file, placed.call))
    # What was on the host and is "moved" there has no step of it; the text has.
    placing += [(link.context.file, link.node) for link in (way.links if way is not None else []) if link.moved]
    for file, call in placing:
        said = _said(file, name_scopes.function_of(file, call), call) if isinstance(call, ast.Call) else ()
        hosts = [host for each in said for host in _hosts(file, each, users)]
        hosts = _of_the_way(hosts, way, users) if len(hosts) > 1 else hosts
        if len(hosts) == 1:
            at, node = hosts[0]
            words = device_text.write(at, node, device, users)
            if words.startswith('"'):
                words = given_devices.of_module(at, node, device, users) or words
            if words.startswith('"') or words in _bound_at(at, node):  # a name has no value before it is bound
                words = '"cuda" if torch.cuda.is_available() else "cpu"'
            return Cause(location_of(at, node), at.edit([source.Change.replace(node, words)]))
    return None


def _bound_at(file: source.Source, node: ast.AST) -> list[str]:
    """What the statement of a node binds, as it is written there."""
    statement = file.statement(node)
    return [ast.unparse(target) for target, _ in bindings.pairs(statement)] if statement is not None else []


_Host = tuple[source.Source, ast.expr]


def _hosts(file: source.Source, said: ast.AST, users: list[types.FrameType], depth: int = 0) -> list[_Host]:
    """The expressions for the host that a name for a device got its value from: assigned to it, or passed for it."""
    name = ast.unparse(said) if isinstance(said, (ast.Name, ast.Attribute)) else ""
    if not name or depth > 3 or "cpu" in name.lower() or "host" in name.lower():
        return []  # called so on purpose
    scope = name_scopes.function_of(file, said)
    holder = file.scope(scope) if isinstance(said, ast.Attribute) and scope is not file.tree else scope
    bound: list[_Host] = [(file, value) for value in rewriting.values_of(file, holder, name)]
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    if not bound and isinstance(scope, functions) and name in bindings.parameters(scope):
        passed = [(at, bindings.argument_of(call, file, scope, name)) for at, call in _calls(file, scope, users)]
        bound = [(at, node) for at, node in passed if node is not None]
    else:
        bound = bound or [(file, value) for value in rewriting.values_of(file, file.tree, name)]
        bound = bound if len(bound) == 1 else []  # "cuda" here and "cpu" there
    plain = [(at, node) for at, node in bound if _is_host(node)]
    return plain + [host for at, node in bound for host in _hosts(at, node, users, depth + 1)]


def _of_the_way(hosts: list[_Host], way: trails.Trail | None, users: list[types.FrameType]) -> list[_Host]:
    """Those that were passed on the value's way: by a call on it, or by one that made an object which holds it."""
    calls = [link.context.call for link in way.links] if way is not None else []
    owners = [owner for owner, _ in way.owners] if way is not None else []
    found: list[_Host] = []
    for file, node in hosts:
        statement, call = file.statement(node), file.parent(node)
        call = file.parent(call) if isinstance(call, ast.keyword) else call
        names = [target for target, _ in bindings.pairs(statement)]
        here = [frame for frame in users if frame.f_code.co_filename == file.file]
        made = [values.evaluate(name, frame) for name in names for frame in here]
        if any(call is each for each in calls) or any(value is owner for value in made for owner in owners):
            found.append((file, node))
    return found


def _is_host(node: ast.AST) -> bool:
    """`"cpu"`, `torch.device("cpu")`."""
    if isinstance(node, ast.Call) and histories.called_name(node) == "device" and len(node.args) == 1:
        node = node.args[0]
    return isinstance(node, ast.Constant) and node.value == "cpu"


def _said(file: source.Source, scope: ast.AST, call: ast.Call) -> Iterator[ast.AST]:
    """The expressions that say a call's device; through `**factory`, too."""
    for keyword in call.keywords:
        if keyword.arg == "device":
            yield keyword.value
        elif keyword.arg is None and isinstance(keyword.value, ast.Name):
            for value in rewriting.values_of(file, scope, keyword.value.id):
                yield from _said_in_dict(value)
    if histories.called_name(call) == "to" and call.args:
        yield call.args[0]


def _said_in_dict(node: ast.AST) -> Iterator[ast.AST]:
    if isinstance(node, ast.Dict):
        for key, value in zip(node.keys, node.values):
            if isinstance(key, ast.Constant) and key.value == "device":
                yield value
    elif isinstance(node, ast.Call) and histories.called_name(node) == "dict":
        yield from (keyword.value for keyword in node.keywords if keyword.arg == "device")


def _optional(file: source.Source, scope: ast.AST, name: str) -> Parameter | None:
    """A parameter whose default is no device or the host's, and that the function leaves as it is."""
    if not isinstance(scope, (ast.FunctionDef, ast.AsyncFunctionDef)) or file.find(scope, ("store", name)):
        return None
    return Parameter(file, scope, name) if name_scopes.is_optional(scope, name) else None


def _calls_without(parameter: Parameter, users: list[types.FrameType]) -> Iterator[tuple[source.Source, ast.Call]]:
    """The calls of the function that do not pass the parameter."""
    for file, call in _calls(parameter.file, parameter.function, users):
        if bindings.argument_of(call, parameter.file, parameter.function, parameter.name) is None:
            yield file, call


def _calls(
    home: source.Source, function: ast.FunctionDef | ast.AsyncFunctionDef, users: list[types.FrameType]
) -> Iterator[tuple[source.Source, ast.Call]]:
    """The calls of a function, in its own file and in those that run."""
    name, holder = function.name, home.parent(function)
    if name == "__init__" and isinstance(holder, ast.ClassDef):
        name = holder.name
    files = [home, *(source.load(frame.f_code.co_filename) for frame in users)]
    for file in {each.file: each for each in files if each is not None}.values():
        yield from ((file, call) for call in file.calls(file.tree, name))
