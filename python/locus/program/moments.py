"""What is remembered of a program's doings that no operator shows: which modules were moved, made and optimized, and
where; and whether batches come from one device. Noted by locus.watch.hooks, read by whoever asks about a module.

Keeps nothing of the program alive.
"""

from __future__ import annotations

import contextlib
import itertools
import sys
import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

import torch

from locus.program import histories, identity, places

if TYPE_CHECKING:
    import types

    from locus.program.shapes import Location


Place: TypeAlias = "tuple[str, int, int, int, int, str] | tuple[()]"
"""(file, line, end line, column, end column, function); () where it is not known."""

_Callers: TypeAlias = "tuple[tuple[types.CodeType, int], ...]"

_moves: identity.ByIdentity[torch.nn.Module, tuple[int, str, Place]] = identity.ByIdentity()
_built: identity.ByIdentity[torch.optim.Optimizer, Place] = identity.ByIdentity()
_made: identity.ByIdentity[torch.nn.Module, _Callers] = identity.ByIdentity()
_bound: identity.ByIdentity[torch.nn.Module, dict[str, tuple[int, int, _Callers]]] = identity.ByIdentity()
_patterns: identity.ByIdentity[object, tuple[torch.device, ...]] = identity.ByIdentity()
_MAX_CALLERS = 6
_MAX_TAKERS = 3
_batches_vary = False
_last_loader: Callable[[], object] | None = None
_taken: list[tuple[str, int]] = []
"""The program's lines that led to the last batch, innermost first."""
_count = 0

is_noting = False
"""Whether moments are being noted in this process: moves that Locus makes itself are, then, too."""


def note_move(module: torch.nn.Module, device: str, site: int | None = None, place: Place | None = None) -> None:
    """Remembers that a module was moved, and where in the program."""
    global _count
    _count += 1
    if place is None and site:
        place = histories.site_positions(site)
    with contextlib.suppress(TypeError):  # a module that can't be hashed
        _moves[module] = (_count, str(device), place or ())


def note_construction(module: torch.nn.Module) -> None:
    """Remembers where the program is now as the place where a module is made."""
    with contextlib.suppress(TypeError):
        _made[module] = _callers(sys._getframe(2), module)


def _callers(frame: types.FrameType, made: object = None) -> _Callers:
    """The program's calls that are under way, innermost first. `made`: what its own __init__, and those that it
    inherits, are left out for."""
    callers: list[tuple[types.CodeType, int]] = []
    for each in places.walk(frame):
        code = each.f_code
        if made is not None and not callers and code.co_name == "__init__" and code.co_argcount:
            if each.f_locals.get(code.co_varnames[0]) is made:
                continue
        if places.is_user_file(code.co_filename):
            callers.append((code, each.f_lasti))
            if len(callers) == _MAX_CALLERS:
                break
    return tuple(callers)


def note_binding(module: torch.nn.Module, name: str, part: object) -> None:
    """Remembers where a module is given a parameter or another module by a name."""
    global _count
    _count += 1
    with contextlib.suppress(TypeError):
        bound = _bound.get(module)
        if bound is None:
            _bound[module] = bound = {}
        bound[name] = (_count, id(part), _callers(sys._getframe(2)))


def bound_at(model: torch.nn.Module, name: str) -> list[Location]:
    """The LOCs of the program's calls that gave a model the parameter of that name, or a module on the way to it, the
    last time; innermost first. None where it was not seen."""
    last: tuple[int, int, _Callers] = (0, 0, ())
    module: torch.nn.Module | None = model
    for word in name.split("."):
        if module is None:
            break
        part = module._parameters.get(word, module._modules.get(word))
        entry = (_bound.get(module) or {}).get(word)
        if entry is not None and entry[1] == id(part):
            last = max(last, entry)
        module = part if isinstance(part, torch.nn.Module) else None
    return _locations(last[2])


def note_optimizer(optimizer: torch.optim.Optimizer) -> None:
    """Remembers where an optimizer is made."""
    _built[optimizer] = user_place()


def note_batch(loader: object, pattern: tuple[torch.device, ...]) -> None:
    """Remembers on which devices the tensors of a loader's batch are."""
    global _batches_vary, _last_loader, _taken
    users = (frame for frame in places.walk(sys._getframe(2)) if places.is_user_file(frame.f_code.co_filename))
    _taken = [(frame.f_code.co_filename, frame.f_lineno or 0) for frame in itertools.islice(users, _MAX_TAKERS)]
    with contextlib.suppress(TypeError):
        _last_loader = weakref.ref(loader)
    with contextlib.suppress(TypeError):
        first = _patterns.get(loader)
        if first is None:
            _patterns[loader] = first = pattern
        same_size = len(first) == len(pattern)
        _batches_vary = _batches_vary or (first != pattern if same_size else set(first) != set(pattern))


def feed() -> tuple[int, int, int, str, list[tuple[str, int]]] | None:
    """(batches so far, of so many, samples, sampler, the lines that took the last one) of the DataLoader that gave it,
    while it is used; -1 for what is not known."""
    loader = _last_loader() if _last_loader is not None else None
    if loader is None:
        return None
    batches = getattr(loader, "_index_sampler", None)
    sampler = type(getattr(batches, "sampler", batches)).__name__
    given = getattr(loader, "_num_yielded", 0)
    return given, _length(batches), _length(getattr(loader, "_dataset", None)), sampler, _taken


def _length(thing: object) -> int:
    try:
        return len(thing)  # type: ignore[arg-type]
    except Exception:  # the program's own class
        return -1


def batches_vary() -> bool:
    """Whether a loader gave the same part of its batches on one device at one time and on another at another."""
    return _batches_vary


def all_moves() -> list[tuple[int, str, Place]]:
    """(number, device, place) of every module that was moved and lives."""
    return list(_moves.values())


def made_modules() -> list[torch.nn.Module]:
    """The modules that were made, copied or loaded, and live; those that are whole, and PyTorch's own kind."""
    return [module for module in _made if isinstance(module.__dict__.get("_parameters"), dict)]


def outermost_modules() -> list[torch.nn.Module]:
    """Those of made_modules() that are no part of another."""
    modules = made_modules()
    inner = {id(part) for module in modules for part in module._modules.values()}
    return [module for module in modules if id(module) not in inner]


def is_optimized(parameters: Sequence[torch.Tensor]) -> bool:
    """Whether an optimizer that lives has any of these parameters."""
    wanted = {id(p) for p in parameters}
    groups = [group for optimizer in list(_built) for group in optimizer.param_groups]
    return any(id(p) in wanted for group in groups for p in group["params"])


def moves_of(module: torch.nn.Module) -> tuple[Location | None, str | None]:
    """(LOC, device) of the last move that reached a module: its own, or that of a module around it."""
    last: tuple[int, str, Place] | None = None
    for moved, entry in list(_moves.items()):
        if (last is None or entry[0] > last[0]) and (moved is module or _contains(moved, module)):
            last = entry
    return (None, None) if last is None else (_location(last[2]), last[1])


def made_at(module: torch.nn.Module) -> list[Location]:
    """The LOCs of the program's calls that made a module: the call of its class first, then the callers around it."""
    with contextlib.suppress(TypeError):
        return _locations(_made.get(module) or ())
    return []


def is_made_with(part: object, module: torch.nn.Module) -> bool:
    """Whether a part of a module was made by the same call as the module itself, and not before or after it."""
    whole, callers = _made.get(module) or (), _made.get(part) or ()
    return part is module or (bool(whole) and whole[0] in callers)


def makes_others(module: torch.nn.Module, caller: int, device: str) -> bool:
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


def optimizer_place(optimizer: torch.optim.Optimizer) -> Location | None:
    """The LOC where an optimizer was made."""
    built = _built.get(optimizer)
    return _location(built) if built else None


def last_move_of_parameters(optimizer: torch.optim.Optimizer) -> tuple[Location | None, str | None]:
    """(LOC, device) of the last move of a module that has parameters of an optimizer."""
    mine = {id(p) for group in optimizer.param_groups for p in group["params"]}
    last: tuple[int, str, Place] | None = None
    for moved, entry in list(_moves.items()):
        if (last is None or entry[0] > last[0]) and any(id(p) in mine for p in moved.parameters()):
            last = entry
    return (None, None) if last is None else (_location(last[2]), last[1])


def _contains(outer: torch.nn.Module, inner: torch.nn.Module) -> bool:
    return any(module is inner for module in outer.modules())


def _locations(callers: _Callers) -> list[Location]:
    return [
        places.location(code.co_filename, *places.positions(code, at), places.function_name(code))
        for code, at in callers
    ]


def _location(place: Place) -> Location | None:
    return places.location(*place) if place else None


def user_place() -> Place:
    """Where the program is now, without reading any source."""
    for frame in places.walk(sys._getframe(1)):
        code = frame.f_code
        if places.is_user_file(code.co_filename):
            return (code.co_filename, *places.positions(code, frame.f_lasti), places.function_name(code))
    return ()
