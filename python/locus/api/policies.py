"""locus.policy(): what happens in a scope when a tensor is on the wrong device."""

from __future__ import annotations

import contextlib
import inspect
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, TypeVar

from locus.errors import UsageError
from locus.process import simulation
from locus.watch import real, reporter

if TYPE_CHECKING:
    from locus._bridge import Bridge


POLICIES = ("collect", "raise", "warn", "move")
"""The names that policy() takes."""

Name = Literal["collect", "raise", "warn", "move"]
_Function = TypeVar("_Function", bound=Callable[..., object])


class policy(contextlib.ContextDecorator):
    """What happens, in a `with` block or a decorated function, when operands are on different devices.

    - "raise": PyTorch's own error; the default outside `locus check`.
    - "collect": a finding is recorded, the odd operand is moved, the program goes on; the default inside it.
    - "warn": the same, and a `locus.PlacementWarning` with the finding's text, once for each cause.
    - "move": the odd operand is moved and nothing is said.

    Scopes nest, the inner one counts. A scope is that of its thread: threads that it starts, work that it hands to a
    pool and the threads of `backward()` take its policy along; other threads keep theirs.

    Raises:
        ValueError: a name that is not one of the four.
        locus.errors.UsageError: the process has no CUDA devices, neither simulated nor real.
    """

    def __init__(self, name: Name):
        if name not in POLICIES:
            known = ", ".join(f'"{each}"' for each in POLICIES)
            raise ValueError(f"locus.policy({name!r}) is not known. Use one of {known}.")
        self.name = name
        self._outer = threading.local()  # the same object may be entered again, and by other threads

    def __repr__(self) -> str:
        return f"locus.policy({self.name!r})"

    def __call__(self, function: _Function) -> _Function:
        wrong = inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function)
        if wrong or inspect.isgeneratorfunction(function):
            raise TypeError(
                f"{self!r} can't decorate {getattr(function, '__name__', function)!r}, which leaves its scope and "
                "comes back. Use a `with` block inside it, around code that does not yield or await."
            )
        return super().__call__(function)

    def _recreate_cm(self) -> policy:
        return policy(self.name)

    def __enter__(self) -> policy:
        stack = self._outer.__dict__.setdefault("stack", [])
        stack.append(_enter(self.name))
        return self

    def __exit__(self, *_: object) -> None:
        _leave(self._outer.stack.pop())


def _enter(name: str) -> tuple[Bridge | None, int, bool]:
    """(bridge, the state to come back to, whether this scope needs the watch)."""
    options = simulation.active_options()
    if name == "raise" and (options is None or options.devices == 0):
        return None, reporter.CLOSED, False  # PyTorch raises by itself
    bridge = _devices(f'locus.policy("{name}")')
    before = bridge.policy_state()
    state = getattr(reporter, name.upper())
    if state == reporter.RAISE and before == reporter.CLOSED:
        return bridge, before, False  # as it is: nothing to look at
    bridge.begin_watching()
    bridge.set_policy_state(state)
    return bridge, before, True


def _leave(entered: tuple[Bridge | None, int, bool]) -> None:
    bridge, before, watched = entered
    if watched and bridge is not None:
        bridge.set_policy_state(before)
        bridge.end_watching()


def begin_recording(asked: str) -> tuple[Bridge, int | None]:
    """Lets the ledger be kept, whatever the policy: (bridge, what end_recording() needs)."""
    bridge = _devices(asked)
    bridge.begin_watching()
    # On real devices copies are seen at the door alone; simulated ones note their own.
    if bridge.devices() < 0 and bridge.policy_state() == reporter.CLOSED:
        return bridge, bridge.set_policy_state(reporter.RAISE)
    return bridge, None


def end_recording(bridge: Bridge, state: int | None) -> None:
    """Undoes begin_recording()."""
    if state is not None:
        bridge.set_policy_state(state)
    bridge.end_watching()


def _devices(asked: str) -> Bridge:
    """The bridge, where there are devices to watch; a UsageError where there are none."""
    options = simulation.active_options()
    if options is None or options.devices == 0:
        import torch

        if options is not None or not torch.cuda.is_available():
            raise UsageError(
                f"{asked} needs CUDA devices, and this process has none. Call locus.simulate() first, or start the "
                "program with `locus run`."
            )
        real.start()
    return reporter.install()
