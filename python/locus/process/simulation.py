"""Turns options into a simulated machine, and into the environment that child processes inherit.

Parses and checks; what a simulated device is lives in the bridge, what torch.cuda looks like lives in locus.surface.
Does not import PyTorch until a machine is wanted.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import NamedTuple

from locus import surface
from locus._load import library_folders, load_bridge
from locus.errors import UsageError
from locus.process.cards import CARDS, DEFAULT_CARD

MAX_DEVICES = 64
"""The largest machine that can be simulated."""

SIMULATE_VARIABLE = "LOCUS_SIMULATE"
MEMORY_VARIABLE = "LOCUS_MEMORY"
RNG_VARIABLE = "LOCUS_RNG"
CARD_VARIABLE = "LOCUS_CARD"
OUTSIDE_VARIABLE = "LOCUS_OUTSIDE_DEVICES"
"""What CUDA_VISIBLE_DEVICES was when Locus began: that is about the real machine, a later value about this one."""

HOST_MEMORY_VARIABLE = "LOCUS_HOST_MEMORY"
"""How much of this machine's memory simulated devices may fill: a size, or "off" for not looking at it at all."""

_RNG_CHOICES = ("device", "cpu")
_MAX_BYTES = 16 << 40  # a device; the bridge's limit

# "80GiB", "24 GB", "512MiB", "1.5g", "1000000". A bare letter counts in powers of 1024, as memory sizes are meant.
_SIZE = re.compile(r"[ \t]*(\d+)(?:\.(\d+))?[ \t]*(?:([kmgt])(ib?|b)?|b)?[ \t]*", re.IGNORECASE | re.ASCII)
_EXPONENT = {"k": 1, "m": 2, "g": 3, "t": 4}


class SimulationOptions(NamedTuple):
    """A simulated machine, checked."""

    devices: int
    memory_bytes: int
    rng: str
    card: str = DEFAULT_CARD

    def to_environment(self) -> dict[str, str]:
        """The variables that give a child process the same machine."""
        return {
            SIMULATE_VARIABLE: f"cuda:{self.devices}",
            MEMORY_VARIABLE: str(self.memory_bytes),
            RNG_VARIABLE: self.rng,
            CARD_VARIABLE: self.card,
            OUTSIDE_VARIABLE: os.environ.get(OUTSIDE_VARIABLE, os.environ.get("CUDA_VISIBLE_DEVICES", "unset")),
        }

    def describe(self) -> str:
        """The call that makes this machine."""
        memory = self.memory_text()
        memory = memory if memory.isdecimal() else repr(memory)
        card = "" if self.card == DEFAULT_CARD else f", card={self.card!r}"
        return f"simulate(devices={self.devices}, memory={memory}, rng={self.rng!r}{card})"

    def memory_text(self) -> str:
        """The memory of each device: "80GiB", or a number of bytes."""
        mib, rest = divmod(self.memory_bytes, 1 << 20)
        return str(self.memory_bytes) if rest else f"{mib}MiB" if mib % 1024 else f"{mib // 1024}GiB"


_active: SimulationOptions | None = None


def check_options(
    devices: object, memory: object = None, rng: object = "device", card: object = None
) -> SimulationOptions:
    """The options as a checked value; a UsageError that names the input and the way out.

    Without a size of memory it is the card's, and without a card a Hopper card with 80 GiB.
    """
    key = DEFAULT_CARD if card is None else str(card).strip().lower()
    if key not in CARDS:
        raise UsageError(f"card={card!r} is not known. Use one of {', '.join(key for key in CARDS)}.")
    if memory is None:
        memory = CARDS[key].memory
    if isinstance(devices, bool) or not isinstance(devices, int) or not 0 <= devices <= MAX_DEVICES:
        raise UsageError(f"devices={devices!r} is not a number of devices. Use a whole number from 0 to {MAX_DEVICES}.")
    if rng not in _RNG_CHOICES:
        raise UsageError(
            f'rng={rng!r} is not known. Use "device" (a generator for each device) or "cpu" (all share the CPU\'s).'
        )
    return SimulationOptions(devices, _check_memory(memory), str(rng), key)


def parse_bytes(text: str) -> int | None:
    """The bytes that "80GiB", "24GB", "512MiB", "1.5g" or "1000000" mean; None for anything else, and for 0."""
    match = _SIZE.fullmatch(text)
    if match is None:
        return None
    whole, fraction, letter, suffix = match.groups()
    if fraction and not letter:
        return None  # there is no half byte
    base = 1000 if suffix and suffix.lower() == "b" else 1024
    unit = base ** _EXPONENT[letter.lower()] if letter else 1
    size = int(whole) * unit + int(fraction or 0) * unit // 10 ** len(fraction or "")
    return size if 0 < size <= _MAX_BYTES else None


def is_memory(memory: object) -> bool:
    """Whether this says how much memory a device has."""
    return _memory_bytes(memory) is not None


def _memory_bytes(memory: object) -> int | None:
    if isinstance(memory, str):
        return parse_bytes(memory)
    if isinstance(memory, int) and not isinstance(memory, bool) and 0 < memory <= _MAX_BYTES:
        return memory
    return None


def _check_memory(memory: object) -> int:
    size = _memory_bytes(memory)
    if size is None:
        raise UsageError(
            f'memory={memory!r} is not a size of memory. Use a number with a unit, such as "80GiB", "24GB" or "512MiB".'
        )
    return size


def options_from_environment(environment: Mapping[str, str] = os.environ) -> SimulationOptions | None:
    """The machine that LOCUS_SIMULATE asks for, or None where it is not set; a UsageError for a value that is wrong."""
    text = environment.get(SIMULATE_VARIABLE, "").strip()
    if not text:
        return None
    match = re.fullmatch(r"cuda|(?:cuda:)?(\d{1,9})", text)
    if match is None or int(match.group(1) or 1) > MAX_DEVICES:
        raise UsageError(
            f"{SIMULATE_VARIABLE}={text!r} is not a machine. Use the number of CUDA devices (0 to {MAX_DEVICES}), "
            'such as "cuda:2" or "2", or unset it.'
        )
    devices = 1 if match.group(1) is None else int(match.group(1))
    memory = environment.get(MEMORY_VARIABLE) or None
    if memory is not None and parse_bytes(memory) is None:
        raise UsageError(
            f"{MEMORY_VARIABLE}={memory!r} is not a size of memory. Use a number with a unit, "
            'such as "80GiB", "24GB" or "512MiB", or unset it.'
        )
    rng = environment.get(RNG_VARIABLE) or "device"
    if rng not in _RNG_CHOICES:
        raise UsageError(f'{RNG_VARIABLE}={rng!r} is not known. Use "device" or "cpu", or unset it.')
    card = environment.get(CARD_VARIABLE) or None
    if card is not None and card.strip().lower() not in CARDS:
        raise UsageError(f"{CARD_VARIABLE}={card!r} is not known. Use one of {', '.join(CARDS)}, or unset it.")
    return check_options(devices, memory, rng, card)


class HostBudget(NamedTuple):
    """What simulated devices may take of this machine's memory."""

    watched: bool
    limit: int | None


def host_budget(environment: Mapping[str, str] = os.environ) -> HostBudget:
    """What LOCUS_HOST_MEMORY says; a UsageError for a value that is wrong."""
    text = environment.get(HOST_MEMORY_VARIABLE, "").strip()
    if text.lower() == "off":
        return HostBudget(False, None)
    limit = parse_bytes(text) if text else None
    if text and limit is None:
        raise UsageError(
            f"{HOST_MEMORY_VARIABLE}={text!r} is not a size of memory. Use a number with a unit, "
            'such as "16GiB", or "off", or unset it.'
        )
    return HostBudget(True, limit)


def activate(options: SimulationOptions) -> None:
    """Makes `options` this process's machine. Imports PyTorch."""
    global _active
    if _active is not None and _active != options:
        raise UsageError(
            f"this process already has the machine {_active.describe()}, so {options.describe()} can't be had. "
            "Call simulate() once (LOCUS_SIMULATE and `locus run` do so too), or start another process."
        )
    if _active is None:
        if options.devices == 0:
            surface.hide_cuda()
        else:
            budget = host_budget()
            bridge = load_bridge()
            bridge.set_library_folders(library_folders())
            try:
                bridge.simulate(options.devices, options.memory_bytes, options.rng == "cpu", *budget, card=options.card)
            except RuntimeError as error:
                raise UsageError(str(error)) from error
            surface.install(bridge, shared_rng=options.rng == "cpu")
        _active = options
    os.environ.update(options.to_environment())


def active_options() -> SimulationOptions | None:
    """The machine that this process has, or None."""
    return _active
