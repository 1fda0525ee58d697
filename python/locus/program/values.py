"""Reads values out of a running program without running any of it: no properties, no __getattr__, no operators.

Also says when two tensors are the same memory. What can't be read safely is MISSING.
"""

from __future__ import annotations

import ast
import builtins
import collections
import contextlib
import sys
import types
from collections.abc import Mapping
from typing import Any, TypeGuard, TypeVar

import torch

MISSING = object()
"""What could not be read."""

T = TypeVar("T")

_PLAIN_GETTERS = (dict.__getitem__, collections.OrderedDict.__getitem__)


def is_tensor(value: object) -> TypeGuard[torch.Tensor]:
    return issubclass(type(value), torch.Tensor)


def has_size(value: object) -> bool:
    """Whether this is a tensor that is made: not one of a lazy module, nor of a layout without sizes."""
    try:
        return is_tensor(value) and value.numel() * value.element_size() + len(value.shape) >= 0
    except Exception:
        return False


def is_module(value: object) -> TypeGuard[torch.nn.Module]:
    return issubclass(type(value), torch.nn.Module)


def unwrapped(value: T) -> T:
    """The tensor of the program's that a transformation of torch.func (vmap, grad) has wrapped."""
    functorch = getattr(torch._C, "_functorch", None)
    for _ in range(8):
        if functorch is None or not is_tensor(value) or not functorch.is_functorch_wrapped_tensor(value):
            break
        value = functorch.get_unwrapped(value)
    return value


def storage_key(tensor: object) -> int:
    """A number for the memory of a tensor; 0 where it has none of its own."""
    try:
        return tensor.untyped_storage()._cdata  # type: ignore[attr-defined, no-any-return]  # what has none is caught
    except Exception:
        return 0


def likeness(one: object, other: object) -> int | None:
    """0: the same tensor; 1: the same memory, seen the same way; 2: a view of it, or of a part; None: neither, as two
    parts of one buffer that have nothing in common."""
    if one is other:
        return 0
    if not is_tensor(one) or not is_tensor(other):
        return None
    key = storage_key(one)
    if not key or key != storage_key(other):
        return None
    try:
        if one.data_ptr() == other.data_ptr() and one.shape == other.shape and one.stride() == other.stride():
            return 1
        (first, first_end), (second, second_end) = _extent(one), _extent(other)
    except Exception:
        return None
    return 2 if first < second_end and second < first_end else None


def _extent(tensor: torch.Tensor) -> tuple[int, int]:
    """Where a tensor's elements lie: from, to."""
    start = tensor.data_ptr()
    last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride()))
    return start, start + (last + 1) * tensor.element_size()


def _script_tables(module: object) -> dict[str, object]:
    """The tables of a TorchScript module, which keeps them in C++, as an ordinary module has them."""
    tables: dict[str, object] = {}
    for table in ("_parameters", "_buffers", "_modules"):
        with contextlib.suppress(Exception):  # one that is not made yet has none
            tables[table] = dict(getattr(module, table).items())
    return tables


def at_rest(table: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of a table of names to go through: threads of the program may change the table meanwhile."""
    return dict(table)


def attributes(value: object) -> dict[str, Any]:
    """The instance attributes of an object, slots too; {} where it has none."""
    try:
        found = object.__getattribute__(value, "__dict__")
    except Exception:
        found = None
    result = dict(found) if isinstance(found, dict) else {}
    if issubclass(type(value), torch.jit.ScriptModule):
        result |= _script_tables(value)
    for cls in type(value).__mro__:
        names = cls.__dict__.get("__slots__", ())
        for name in (names,) if isinstance(names, str) else names:
            member = cls.__dict__.get(name)
            if isinstance(member, types.MemberDescriptorType):
                with contextlib.suppress(AttributeError):
                    result.setdefault(name, member.__get__(value))
    return result


def get_attribute(value: Any, name: str) -> Any:
    """An attribute that is simply there: instance, module tree, class constant, field of a named tuple."""
    if isinstance(value, types.ModuleType):
        return value.__dict__.get(name, MISSING)
    if is_tensor(value):
        return value.grad if name == "grad" and value.is_leaf else MISSING
    if issubclass(type(value), tuple) and name in getattr(type(value), "_fields", ()):
        return tuple.__getitem__(value, type(value)._fields.index(name))
    found = attributes(value)
    if name in found:
        return found[name]
    if is_module(value):
        for table in ("_parameters", "_buffers", "_modules"):
            entries = found.get(table)
            if entries and name in entries:
                return entries[name]
    for cls in (value.__mro__ if isinstance(value, type) else ()) or type(value).__mro__:
        if name in cls.__dict__:
            constant = cls.__dict__[name]
            return MISSING if hasattr(type(constant), "__get__") else constant
    return MISSING


def get_item(value: Any, key: Any) -> Any:
    """An element of a plain container, or of the modules that stand for one."""
    try:
        if issubclass(type(value), dict) and type(value).__getitem__ in _PLAIN_GETTERS:
            return dict.get(value, key, MISSING)
        if type(value) in (list, tuple) or issubclass(type(value), tuple):
            return tuple.__getitem__(value, key) if isinstance(value, tuple) else value[key]
        if isinstance(value, (torch.nn.ModuleDict, torch.nn.ParameterDict)):
            found = value._modules.get(key, MISSING)
            return value._parameters.get(key, MISSING) if found is MISSING else found
        if isinstance(value, (torch.nn.Sequential, torch.nn.ModuleList)) and isinstance(key, int):
            return list(value._modules.values())[key]
        if isinstance(value, torch.nn.ParameterList) and isinstance(key, int):
            return get_attribute(value, str(key % len(value)))
        if isinstance(value, collections.UserDict):
            return get_item(attributes(value).get("data"), key)
    except Exception:
        pass
    return MISSING


def globals_of(path: str, frames: list[types.FrameType]) -> dict[str, object]:
    """The names of the module that a file is, by a frame that runs in it or by its being imported; else none."""
    for frame in frames:
        if frame.f_code.co_filename == path:
            return frame.f_globals
    for module in list(sys.modules.values()):
        if getattr(module, "__file__", None) == path:
            return vars(module)
    return {}


def name_in(frame: types.FrameType, name: str) -> Any:
    """What a name means in a frame."""
    for names in (frame.f_locals, frame.f_globals, vars(builtins)):
        if name in names:
            return names[name]
    return MISSING


def evaluate(node: ast.AST | None, frame: types.FrameType) -> Any:
    """The value of a simple expression (names, attributes, elements, constants) in a frame; MISSING for any other."""
    if isinstance(node, ast.Name):
        return name_in(frame, node.id)
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.NamedExpr):
        return name_in(frame, node.target.id)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant):
        return -node.operand.value if isinstance(node.operand.value, int) else MISSING
    if isinstance(node, ast.JoinedStr):
        holes = [part for part in node.values if isinstance(part, ast.FormattedValue)]
        parts = [evaluate(part.value if part in holes else part, frame) for part in node.values]
        plain = all(type(part) in (str, int, bool) for part in parts)
        shaped = any(hole.format_spec or hole.conversion != -1 for hole in holes)
        return "".join(map(str, parts)) if plain and not shaped else MISSING
    if isinstance(node, ast.Attribute):
        owner = evaluate(node.value, frame)
        return MISSING if owner is MISSING else get_attribute(owner, node.attr)
    if isinstance(node, ast.Subscript):
        owner, key = evaluate(node.value, frame), evaluate(node.slice, frame)
        if owner is MISSING or not isinstance(key, (str, int, bool, type(None), float)):
            return MISSING
        return get_item(owner, key)
    return MISSING
