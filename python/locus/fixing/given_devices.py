"""The device of what a function was given that has ended, as far as the calls that are running say it.

Reads trees and live frames; runs nothing.
"""

from __future__ import annotations

import ast
import types
from collections.abc import Iterator

import torch

from locus.fixing.name_scopes import function_of
from locus.program import bindings, contexts, source, values


def of_tensor(file: source.Source, scope: ast.AST, device: str, frames: list[types.FrameType]) -> str:
    """`x.device`, in a function that has ended: of a parameter for which every live caller passes a tensor that is
    there, or an object that says so (`task.device`)."""
    given = _given(file, scope, frames)
    return next((f"{name}.device" for name, passed in given if all(_says_device(v, device) for v in passed)), "")


def of_module(file: source.Source, node: ast.AST, device: str, frames: list[types.FrameType]) -> str:
    """`next(net.parameters()).device`, in a function that has ended and was given a module that is there."""
    given = _given(file, function_of(file, node), frames)
    there = (name for name, passed in given if all(_is_module_on(value, device) for value in passed))
    return next((f"next({name}.parameters()).device" for name in there), "")


def _given(file: source.Source, scope: ast.AST, frames: list[types.FrameType]) -> Iterator[tuple[str, list[object]]]:
    """The parameters of a function that it does not bind anew, with what each live caller passes."""
    if not isinstance(scope, ast.FunctionDef):
        return
    holder = file.parent(scope)
    called = holder.name if scope.name == "__init__" and isinstance(holder, ast.ClassDef) else scope.name
    found = contexts.calls_of(frames, called)
    calls = [(call, at.frame) for at, call in found if at.frame and function_of(at.file, call) is at.scope]
    for name in bindings.parameters(scope):
        given = [(bindings.argument_of(call, file, scope, name), frame) for call, frame in calls]
        passed = [values.evaluate(node, frame) for node, frame in given if node is not None]
        if not passed or len(passed) != len(calls) or file.find(scope, ("store", name)):
            continue
        yield name, passed


def _says_device(value: object, device: str) -> bool:
    """Whether the `.device` of a tensor, or of an object that has such an attribute, is this one."""
    if values.is_tensor(value):
        return str(value.device) == device
    return not values.is_module(value) and _is_same(values.attributes(value).get("device"), device)


def _is_module_on(value: object, device: str) -> bool:
    """Whether the first parameter of a module, which `next(module.parameters())` gives, is on this device."""
    first = next(value.parameters(), None) if isinstance(value, torch.nn.Module) else None
    return first is not None and str(first.device) == device


def _is_same(value: object, device: str) -> bool:
    """Whether a value means this device to PyTorch."""
    text = str(value) if isinstance(value, (torch.device, str)) else ""
    return text == device or (text == "cuda" and device == "cuda:0")
