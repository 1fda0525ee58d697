"""Notes a few moments of a program that no operator shows: modules moved, optimizers made, files loaded, batches given.

Wraps what PyTorch has; the program's own results, errors, signatures and pickles stay as they are.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable
from typing import Any

import torch
from torch.nn.modules.module import (
    register_module_buffer_registration_hook,
    register_module_parameter_registration_hook,
)
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook
from torch.utils.data.dataloader import _BaseDataLoaderIter

from locus import faults
from locus.program import frozen_values, histories, moments, values
from locus.watch import holders, interruptions

_Listener = Callable[..., None]
_Arguments = tuple[Any, ...]
_Named = dict[str, Any]

_installed = False
_after_moves: list[_Listener] = []
_after_loads: list[_Listener] = []
_after_growth: list[_Listener] = []
_after_optimizers: list[_Listener] = []


def install_hooks() -> None:
    """Wraps Module.to/cuda/cpu, Optimizer, torch.load and the DataLoader's iterators. Once a process."""
    global _installed
    if _installed:
        return
    _installed = moments.is_noting = True
    for name in ("to", "cuda", "cpu", "to_empty"):
        _wrap(torch.nn.Module, name, _note_module_call)
    _wrap(torch.nn.Module, "__init__", _note_module)
    _wrap(torch.nn.Module, "__setstate__", _note_module)  # copies and loaded modules
    _wrap(torch.optim.Optimizer, "__init__", _note_optimizer)
    _wrap(torch, "load", _note_load)
    torch.serialization.load = torch.load
    register_optimizer_step_pre_hook(_note_step_begins)
    register_optimizer_step_post_hook(_note_step)
    _pass_higher_order_operators()
    register_module_parameter_registration_hook(_note_registration)
    register_module_buffer_registration_hook(_note_registration)
    _wrap(torch.nn.Module, "_apply", _note_applied)
    holders.watch_hooks()
    _wrap(_BaseDataLoaderIter, "__next__", _note_batch)


def _pass_higher_order_operators() -> None:
    """flex_attention and the like are dispatched in Python, and have nothing at the key of the door: they go past it,
    and the operators in them through it."""
    key = torch._C._dispatch_key_parse("TESTING_ONLY_GenericMode")  # kCheckKey in locus/bridge/door/check.h
    torch._ops._HIGHER_ORDER_OP_DEFAULT_FALLTHROUGH_DISPATCH_KEYS.append(key)  # those that are made from here on
    for operator in torch._ops._higher_order_ops.values():
        operator.fallthrough(key)


def on_move(listener: _Listener) -> None:
    """Calls `listener(module, device)` after each move of a module."""
    _after_moves.append(listener)


def on_load(listener: _Listener) -> None:
    """Calls `listener(result, args, kwargs)` after each torch.load()."""
    _after_loads.append(listener)


def on_growth(listener: _Listener) -> None:
    """Calls `listener()` after an optimizer's step, where a line has left more behind in each of the last steps."""
    _after_growth.append(listener)


def on_optimizer(listener: _Listener) -> None:
    """Calls `listener(optimizer)` after each optimizer that is made."""
    _after_optimizers.append(listener)


def _wrap(owner: object, name: str, note: Callable[..., None]) -> None:
    original = getattr(owner, name)

    @functools.wraps(original)
    def wrapper(*args: object, **kwargs: object) -> object:
        result = original(*args, **kwargs)
        try:
            note(name, result, args, kwargs)
        except Exception as error:  # ours, or the program's own that came in between
            interruptions.pass_on(error)
            faults.note(f"hook on {name}", error)
        return result

    setattr(owner, name, wrapper)


def _note_module_call(name: str, result: object, args: _Arguments, kwargs: _Named) -> None:
    module: torch.nn.Module = args[0]
    device: torch.device | None
    if name == "to":
        device = torch._C._nn._parse_to(*args[1:], **kwargs)[0]
    elif name == "cpu":
        device = torch.device("cpu")
    elif name == "to_empty":
        given = kwargs.get("device", args[1] if len(args) > 1 else None)
        device = None if given is None else torch.device(given)
    else:
        given = kwargs.get("device", args[1] if len(args) > 1 else None)
        device = torch.device("cuda") if given is None else torch.device(given)
    if device is None:
        return
    if device.type == "cuda" and device.index is None:
        device = torch.device("cuda", torch.cuda.current_device())
    moments.note_move(module, str(device), place=moments.user_place())
    for listener in _after_moves:
        listener(module, str(device))


def _note_module(name: str, result: object, args: _Arguments, kwargs: _Named) -> None:
    moments.note_construction(args[0])
    if name == "__setstate__":
        _note_applied(name, result, args, kwargs)


def _note_applied(name: str, result: object, args: _Arguments, kwargs: _Named) -> None:
    """A module's tensors are new ones: what their memory is for."""
    bridge = histories.bridge()
    if bridge is not None:
        inside = args[0].__dict__
        tables = (inside.get("_parameters") or {}, inside.get("_buffers") or {})
        bridge.are_parameters([each for table in tables for each in table.values() if values.is_tensor(each)])


def _note_registration(module: torch.nn.Module, name: str, tensor: object) -> None:
    bridge = histories.bridge()
    if bridge is not None and values.is_tensor(tensor):
        bridge.are_parameters([tensor])


def _note_optimizer(name: str, result: object, args: _Arguments, kwargs: _Named) -> None:
    moments.note_optimizer(args[0])
    for listener in _after_optimizers:
        listener(args[0])
    bridge = histories.bridge()
    if bridge is not None:
        bridge.are_parameters([each for group in args[0].param_groups for each in group["params"]])


def _note_step_begins(optimizer: torch.optim.Optimizer, args: tuple[object, ...], kwargs: dict[str, object]) -> None:
    begin = getattr(histories.bridge(), "begin_step", None)
    if begin is not None:
        begin()


def _note_step(optimizer: torch.optim.Optimizer, args: tuple[object, ...], kwargs: dict[str, object]) -> None:
    frozen_values.note_step(optimizer)
    count = getattr(histories.bridge(), "count_step", None)
    if count is not None and count():
        for listener in _after_growth:
            listener()


def _note_load(name: str, result: object, args: _Arguments, kwargs: _Named) -> None:
    mark = getattr(histories.bridge(), "mark_loaded", None)
    if mark is not None:
        path = args[0] if args else kwargs.get("f", "")
        mark(tensors_in(result), path if isinstance(path, str) else str(getattr(path, "name", type(path).__name__)))
    for listener in _after_loads:
        listener(result, args, kwargs)


def _note_batch(name: str, result: object, args: _Arguments, kwargs: _Named) -> None:
    mark = getattr(histories.bridge(), "mark_received", None)
    if mark is not None:
        tensors = tensors_in(result)
        mark(tensors)
        moments.note_batch(args[0] if args else None, tuple(tensor.device for tensor in tensors))


def tensors_in(value: object, limit: int = 20_000) -> list[torch.Tensor]:
    """The tensors in nested containers, modules and objects; `limit` bounds the things looked at."""
    found: list[torch.Tensor] = []
    stack, seen = [value], set[int]()
    while stack and len(seen) < limit:
        item = stack.pop()
        if values.is_tensor(item):
            found.append(item)
        elif item is None or isinstance(item, (str, bytes, int, float, type, types.ModuleType)) or id(item) in seen:
            continue
        else:
            seen.add(id(item))
            if isinstance(item, dict):
                stack.extend(item.values())
            elif isinstance(item, (list, tuple)):
                stack.extend(item)
            else:
                stack.extend(values.attributes(item).values())
    return found
