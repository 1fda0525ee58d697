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
from locus.fixing import device_text, name_scopes, rewriting
from locus.program import bindings, histories, source, trails


class Parameter(NamedTuple):
    """A parameter that says a device, and the function that has it."""

    file: source.Source
    function: ast.FunctionDef | ast.AsyncFunctionDef
    name: str


def correct(steps: list[histories.Step], users: list[types.FrameType]) -> list[histories.Step]:
    """The steps, in which a device that came from a parameter nobody gave is not one that somebody asked for."""
    for step in steps:
        if step.facts["explicit"] and step.facts["device"] == "cpu":
            parameter = _parameter_of(step)
            if parameter is not None and next(_calls_without(parameter, users), None) is not None:
                step.facts["explicit"] = False
    return steps


def gather(
    found: Candidates, steps: list[histories.Step], way: trails.Trail | None, device: str,
    users: list[types.FrameType], others: Sequence[tuple[ast.AST, source.Source]],
) -> None:  # fmt: skip
    """The call that should have passed the device to the function which made the tensor."""
    placed = next((step for step in reversed(steps) if step.facts["action"] != "computed"), None)
    bound = _bound_to_host(placed, device, users) if placed is not None and placed.facts["device"] == "cpu" else None
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


def _bound_to_host(step: histories.Step, device: str, users: list[types.FrameType]) -> Cause | None:
    """`self.device = torch.device("cpu")`, where tensors are made on `self.device`: the line that says it for all."""
    if step.call is None or step.file is None:
        return None
    file, scope = step.file, name_scopes.function_of(step.file, step.call)
    for said in _said(file, scope, step.call):
        name = ast.unparse(said) if isinstance(said, (ast.Name, ast.Attribute)) else ""
        if not name or "cpu" in name.lower() or "host" in name.lower():
            continue  # called so on purpose
        holder = file.scope(scope) if isinstance(said, ast.Attribute) and scope is not file.tree else scope
        bound = rewriting.values_of(file, holder, name) or rewriting.values_of(file, file.tree, name)
        if len(bound) == 1 and _is_host(bound[0]):
            words = device_text.write(file, bound[0], device, users)
            words = '"cuda" if torch.cuda.is_available() else "cpu"' if words.startswith('"') else words
            return Cause(location_of(file, bound[0]), file.edit([source.Change.replace(bound[0], words)]))
    return None


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
    """The calls of the function, in its own file and in those that run, that do not pass the parameter."""
    name, holder = parameter.function.name, parameter.file.parent(parameter.function)
    if name == "__init__" and isinstance(holder, ast.ClassDef):
        name = holder.name
    files = [parameter.file, *(source.load(frame.f_code.co_filename) for frame in users)]
    for file in {each.file: each for each in files if each is not None}.values():
        for call in file.calls(file.tree, name):
            if bindings.argument_of(call, parameter.file, parameter.function, parameter.name) is None:
                yield file, call
