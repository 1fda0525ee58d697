"""The order of streams on real cards: what PyTorch's GPU trace does not tell. The rest is locus/bridge/streams."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING

from locus.watch import other_waiters

if TYPE_CHECKING:
    import torch

    from locus._bridge import Bridge


def follow(bridge: Bridge) -> None:
    """Follows streams, from the first one that is made."""
    import torch

    _after(bridge, torch.cuda.Event, "query", _event_is_done)
    _after(bridge, torch.cuda.Stream, "query", _stream_is_done)
    _after(bridge, torch.cuda.Event, "elapsed_time", _events_are_done)
    for place in (torch.cuda, torch.cuda.memory):
        _after(bridge, place, "empty_cache", _all_is_done)  # the driver waits for whoever uses what it takes back
    # What is captured runs later, on whatever stream; memory of another allocator comes and goes unseen.
    _before(torch.cuda.CUDAGraph, "capture_begin", bridge.CardOrder.stop)
    _before(torch.cuda.memory, "change_current_allocator", bridge.CardOrder.stop)
    # PyTorch has one listener, for good: Locus's, which passes on what it hears.
    _before(torch._C, "_activate_gpu_trace", bridge.CardOrder.pass_trace_on)
    bridge.CardOrder.set_doubt(_in_doubt)


def _in_doubt() -> bool:
    import torch

    return torch.cuda.get_allocator_backend() != "native" or other_waiters.may_wait()


def _all_is_done(bridge: Bridge, _: object) -> None:
    bridge.CardOrder.all_is_done()


def _event_is_done(bridge: Bridge, done: object, event: torch.cuda.Event) -> None:
    if done and event.cuda_event:
        bridge.CardOrder.event_is_done(event.cuda_event)


def _events_are_done(bridge: Bridge, _: object, event: torch.cuda.Event, other: torch.cuda.Event) -> None:
    for each in (event, other):
        _event_is_done(bridge, True, each)


def _stream_is_done(bridge: Bridge, done: object, stream: torch.cuda.Stream) -> None:
    if done:
        bridge.CardOrder.stream_is_done(stream.stream_id, stream.device_index)


def _after(bridge: Bridge, owner: object, name: str, tell: Callable[..., None]) -> None:
    """Calls `tell(bridge, result, …)` after the function has returned."""
    original = getattr(owner, name)

    @functools.wraps(original)
    def call(*given: object, **named: object) -> object:
        result = original(*given, **named)
        try:
            tell(bridge, result, *given, *named.values())
        except Exception:
            bridge.CardOrder.stop()  # what is not known is not blamed
        return result

    setattr(owner, name, call)


def _before(owner: object, name: str, tell: Callable[[], None]) -> None:
    original = getattr(owner, name, None)
    if original is None:
        return

    @functools.wraps(original)
    def call(*given: object, **named: object) -> object:
        tell()
        return original(*given, **named)

    setattr(owner, name, call)
