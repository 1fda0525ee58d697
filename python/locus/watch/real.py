"""A check on real CUDA devices: nothing is simulated, the same door watches every operator, and the program goes on.

Also notes the waits that no operator shows: torch.cuda.synchronize() and the synchronize() of streams and events.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from locus._load import library_folders, load_bridge
from locus.errors import UsageError
from locus.watch import card_order

if TYPE_CHECKING:
    from locus._bridge import Bridge


_installed = False


def need_devices(asked: str) -> None:
    """A UsageError that names what asked for them where this machine has no CUDA device. Imports PyTorch."""
    import torch

    if not torch.cuda.is_available():
        build = "is a CPU build" if torch.version.cuda is None else "sees no CUDA device"
        raise UsageError(
            f"{asked} needs a CUDA device, and PyTorch {torch.__version__} here {build}. "
            "Leave it out to use simulated devices, or run it on a machine with a GPU."
        )


def start() -> Bridge:
    """Makes this process's own devices the ones that are watched; the bridge."""
    bridge = load_bridge()
    bridge.set_library_folders(library_folders())
    bridge.use_real_devices()
    _watch_waits(bridge)
    _follow_copies(bridge)
    return bridge


def _watch_waits(bridge: Bridge) -> None:
    global _installed
    if _installed:
        return
    _installed = True
    card_order.follow(bridge)
    import torch

    _wrap(bridge, torch.cuda, "synchronize", "torch.cuda.synchronize", lambda *given, **named: _index(given, named))
    for owner in (torch.cuda.Stream, torch.cuda.Event):
        _wrap(bridge, owner, "synchronize", f"{owner.__name__}.synchronize", lambda one: _index((one.device,), {}))


_LATE_COPIES = 3  # of each line
_CYCLES = 4_000_000  # of the card: some two milliseconds


def _follow_copies(bridge: Bridge) -> None:
    """Copies to the host that nobody waits for: the card tells whether one is done when the host reads it. A small one
    nearly always is, by luck, so the first ones of each line are held up."""
    import torch

    seen: dict[int, int] = {}

    def follow(site: int, device: int) -> bool:
        if torch.cuda.is_current_stream_capturing():
            return False
        seen[site] = seen.get(site, 0) + 1
        if seen[site] <= _LATE_COPIES:
            with torch.cuda.device(device):
                torch.cuda._sleep(_CYCLES)
        return True

    bridge.set_copy_follower(follow)


def _index(given: tuple[Any, ...], named: dict[str, Any]) -> int:
    import torch

    device = given[0] if given else named.get("device")
    index = device if isinstance(device, int) else getattr(torch.device(device) if device else None, "index", None)
    return torch.cuda.current_device() if index is None else index


def _wrap(bridge: Bridge, owner: object, name: str, what: str, device_of: Callable[..., int]) -> None:
    original = getattr(owner, name)

    @functools.wraps(original)
    def wait(*given: object, **named: object) -> object:
        began = time.perf_counter()
        result = original(*given, **named)
        try:
            bridge.note_wait(device_of(*given, **named), what, time.perf_counter() - began)
        except Exception:
            pass  # the ledger lacks a line; the program is not told
        return result

    setattr(owner, name, wait)
