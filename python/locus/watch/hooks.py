"""Notes a few moments of a program that no operator shows: modules moved, optimizers made, files loaded, batches given.

Wraps what PyTorch has; the program's own results, errors, signatures and pickles stay as they are.
"""

from __future__ import annotations

import contextlib
import functools
import sys
import types
from typing import Any

import torch

from locus.program import histories, identity, places, values
from locus.watch import interruptions

_moves: identity.ByIdentity[tuple[int, str, tuple[Any, ...]]] = identity.ByIdentity()
_built: identity.ByIdentity[tuple[Any, ...]] = identity.ByIdentity()
_made: identity.ByIdentity[tuple[tuple[Any, int], ...]] = identity.ByIdentity()
_MAX_CALLERS = 6
_patterns: identity.ByIdentity[tuple[torch.device, ...]] = identity.ByIdentity()
_batches_vary = False
_count = 0
_installed = False
_after_moves: list[Any] = []
_after_loads: list[Any] = []


def install_hooks() -> None:
    """Wraps Module.to/cuda/cpu, Optimizer, torch.load and the DataLoader's iterators. Once a process."""
    global _installed
    if _installed:
        return
    _installed = True
    for name in ("to", "cuda", "cpu", "to_empty"):
        _wrap(torch.nn.Module, name, _note_module_call)
    _wrap(torch.nn.Module, "__init__", _note_module)
    _wrap(torch.nn.Module, "__setstate__", _note_module)  # copies and loaded modules
    _wrap(torch.optim.Optimizer, "__init__", _note_optimizer)
    _wrap(torch, "load", _note_load)
    torch.serialization.load = torch.load
    from torch.optim.optimizer import register_optimizer_step_post_hook
    from torch.utils.data.dataloader import _BaseDataLoaderIter

    register_optimizer_step_post_hook(_note_step)
    _wrap(_BaseDataLoaderIter, "__next__", _note_batch)


def record_module_move(module: Any, device: str, site: int | None = None, place: tuple[Any, ...] | None = None) -> None:
    """Remembers that a module was moved, and where in the program."""
    global _count
    _count += 1
    if place is None and site:
        place = histories.site_positions(site)
    with contextlib.suppress(TypeError):  # a module that can't be hashed
        _moves[module] = (_count, str(device), place or ())


def on_move(listener: Any) -> None:
    """Calls `listener(module, device)` after each move of a module."""
    _after_moves.append(listener)


def on_load(listener: Any) -> None:
    """Calls `listener(result, args, kwargs)` after each torch.load()."""
    _after_loads.append(listener)


def all_moves() -> list[tuple[int, str, tuple[Any, ...]]]:
    """(number, device, place) of every module that was moved and lives."""
    return list(_moves.values())


def moved_modules() -> list[Any]:
    """The modules that were moved, and live."""
    return list(_moves.keys())


def is_optimized(parameters: list[Any]) -> bool:
    """Whether an optimizer that lives has any of these parameters."""
    wanted = {id(p) for p in parameters}
    groups = [group for optimizer in list(_built) for group in optimizer.param_groups]
    return any(id(p) in wanted for group in groups for p in group["params"])


def moves_of(module: Any) -> tuple[dict[str, Any] | None, str | None]:
    """(LOC, device) of the last move that reached a module: its own, or that of a module around it."""
    last: tuple[int, str, tuple[Any, ...]] | None = None
    for moved, entry in list(_moves.items()):
        if (last is None or entry[0] > last[0]) and (moved is module or _contains(moved, module)):
            last = entry
    return (None, None) if last is None else (_location(last[2]), last[1])


def made_at(module: Any) -> list[dict[str, Any]]:
    """The LOCs of the program's calls that made a module: the call of its class first, then the callers around it."""
    with contextlib.suppress(TypeError):
        places_ = [
            (c.co_filename, *places.positions(c, at), places.function_name(c)) for c, at in _made.get(module) or ()
        ]
        return [places.location(*place) for place in places_]
    return []


def is_made_with(part: Any, module: Any) -> bool:
    """Whether a part of a module was made by the same call as the module itself, and not before or after it."""
    whole, callers = _made.get(module) or (), _made.get(part) or ()
    return part is module or (bool(whole) and whole[0] in callers)


def makes_others(module: Any, caller: int, device: str) -> bool:
    """Whether the same call made other modules too, and those are on another device than this one."""
    mine = _made.get(module) or ()
    if caller >= len(mine):
        return False
    parts = {id(part) for part in module.modules()}
    for other, callers in list(_made.items()):
        if id(other) not in parts and mine[caller] in callers:
            tensors = [t for t in other.parameters() if t is not None]
            if tensors and any(str(t.device) != device for t in tensors) and not _contains(other, module):
                return True
    return False


def optimizer_place(optimizer: Any) -> dict[str, Any] | None:
    """The LOC where an optimizer was made."""
    built = _built.get(optimizer)
    return _location(built) if built else None


def last_move_of_parameters(optimizer: Any) -> tuple[dict[str, Any] | None, str | None]:
    """(LOC, device) of the last move of a module that has parameters of an optimizer."""
    mine = {id(p) for group in optimizer.param_groups for p in group["params"]}
    last: tuple[int, str, tuple[Any, ...]] | None = None
    for moved, entry in list(_moves.items()):
        if (last is None or entry[0] > last[0]) and any(id(p) in mine for p in moved.parameters()):
            last = entry
    return (None, None) if last is None else (_location(last[2]), last[1])


def _contains(outer: Any, inner: Any) -> bool:
    return any(module is inner for module in outer.modules())


def _location(place: tuple[Any, ...]) -> dict[str, Any] | None:
    return places.location(*place) if place else None


def _user_place() -> tuple[Any, ...]:
    """Where the program is now, without reading any source."""
    for frame in places.walk(sys._getframe(1)):
        code = frame.f_code
        if places.is_user_file(code.co_filename):
            return (code.co_filename, *places.positions(code, frame.f_lasti), places.function_name(code))
    return ()


def _wrap(owner: Any, name: str, note: Any) -> None:
    original = getattr(owner, name)

    @functools.wraps(original)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        result = original(*args, **kwargs)
        try:
            note(name, result, args, kwargs)
        except Exception as error:  # ours, or the program's own that came in between
            interruptions.pass_on(error)
            _fault(name, error)
        return result

    setattr(owner, name, wrapper)


def _fault(name: str, error: Exception) -> None:
    facts = sys.modules.get("locus.blame.facts")
    if facts is not None:
        facts.note_fault(f"hook on {name}", error)


def _note_module_call(name: str, result: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    module = args[0]
    if name == "to":
        device = torch._C._nn._parse_to(*args[1:], **kwargs)[0]
    elif name == "cpu":
        device = torch.device("cpu")
    elif name == "to_empty":
        device = kwargs.get("device", args[1] if len(args) > 1 else None)
        device = None if device is None else torch.device(device)
    else:
        given = kwargs.get("device", args[1] if len(args) > 1 else None)
        device = torch.device("cuda") if given is None else torch.device(given)
    if device is None:
        return
    if device.type == "cuda" and device.index is None:
        device = torch.device("cuda", torch.cuda.current_device())
    record_module_move(module, str(device), place=_user_place())
    for listener in _after_moves:
        listener(module, str(device))


def _note_module(name: str, result: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    module, callers = args[0], []
    for frame in places.walk(sys._getframe(2)):
        code = frame.f_code
        if not callers and code.co_name == "__init__" and code.co_argcount:
            if frame.f_locals.get(code.co_varnames[0]) is module:
                continue  # its own __init__, and those it inherits
        if places.is_user_file(code.co_filename):
            callers.append((code, frame.f_lasti))
            if len(callers) == _MAX_CALLERS:
                break
    with contextlib.suppress(TypeError):
        _made[module] = tuple(callers)


def _note_optimizer(name: str, result: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    _built[args[0]] = _user_place()


def _note_step(optimizer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    count = getattr(histories.bridge(), "count_step", None)
    if count is not None:
        count()


def _note_load(name: str, result: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    mark = getattr(histories.bridge(), "mark_loaded", None)
    if mark is not None:
        path = args[0] if args else kwargs.get("f", "")
        mark(tensors_in(result), path if isinstance(path, str) else str(getattr(path, "name", type(path).__name__)))
    for listener in _after_loads:
        listener(result, args, kwargs)


def _note_batch(name: str, result: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    mark = getattr(histories.bridge(), "mark_received", None)
    if mark is not None:
        tensors = tensors_in(result)
        mark(tensors)
        _note_pattern(args[0] if args else None, tuple(tensor.device for tensor in tensors))


def _note_pattern(loader: Any, pattern: tuple[torch.device, ...]) -> None:
    global _batches_vary
    with contextlib.suppress(TypeError):
        first = _patterns.get(loader)
        if first is None:
            _patterns[loader] = first = pattern
        same_size = len(first) == len(pattern)
        _batches_vary = _batches_vary or (first != pattern if same_size else set(first) != set(pattern))


def batches_vary() -> bool:
    """Whether a loader gave the same part of its batches on one device at one time and on another at another."""
    return _batches_vary


def tensors_in(value: Any, limit: int = 20_000) -> list[torch.Tensor]:
    """The tensors in nested containers, modules and objects; `limit` bounds the things looked at."""
    found: list[torch.Tensor] = []
    stack, seen = [value], set()
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
