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
from locus.program import cells

MAX_DEVICES = 64
"""The largest machine that can be simulated."""

SIMULATE_VARIABLE = "LOCUS_SIMULATE"
MEMORY_VARIABLE = "LOCUS_MEMORY"
RNG_VARIABLE = "LOCUS_RNG"
CARD_VARIABLE = "LOCUS_CARD"
DRY_KEEP_VARIABLE = "LOCUS_DRY_KEEP"
DRY_SHAPES_VARIABLE = "LOCUS_DRY_SHAPES"
STRICT_MEMORY_VARIABLE = "LOCUS_STRICT_MEMORY"
DRY_ANSWERS_VARIABLE = "LOCUS_DRY_ANSWERS"
OUTSIDE_VARIABLE = "LOCUS_OUTSIDE_DEVICES"
"""What CUDA_VISIBLE_DEVICES was when Locus began: that is about the real machine, a later value about this one."""

HOST_MEMORY_VARIABLE = "LOCUS_HOST_MEMORY"
"""How much of this machine's memory simulated devices may fill: a size, or "off" for not looking at it at all."""

_RNG_CHOICES = ("device", "cpu")
SHAPES = ("half", "most", "least")
"""How large a shape is that hangs on values which a dry run does not have."""

DEFAULT_KEEP = "64KiB"
"""What a dry run computes for real: tensors up to this size."""
_MAX_BYTES = 16 << 40  # a device; the bridge's limit

# "80GiB", "24 GB", "512MiB", "1.5g", "1000000". A bare letter counts in powers of 1024, as memory sizes are meant.
_SIZE = re.compile(r"[ \t]*(\d+)(?:\.(\d+))?[ \t]*(?:([kmgt])(ib?|b)?|b)?[ \t]*", re.IGNORECASE | re.ASCII)
_EXPONENT = {"k": 1, "m": 2, "g": 3, "t": 4}


class DryOptions(NamedTuple):
    """How a dry run goes, checked."""

    keep: int
    """Larger tensors have no values."""
    shapes: str
    strict_memory: bool
    """Out of memory is raised, as a card does; else it is noted, and the run goes on."""
    answers: tuple[tuple[str, float], ...] = ()
    """("solver.py:31", what this line reads)."""


class SimulationOptions(NamedTuple):
    """A simulated machine, checked."""

    devices: int
    memory_bytes: int
    rng: str
    card: str = DEFAULT_CARD
    dry: DryOptions | None = None
    """None: tensors have their values."""

    def to_environment(self) -> dict[str, str]:
        """The variables that give a child process the same machine."""
        machine = {
            SIMULATE_VARIABLE: f"cuda:{self.devices}" + (",dry" if self.dry is not None else ""),
            MEMORY_VARIABLE: str(self.memory_bytes),
            RNG_VARIABLE: self.rng,
            CARD_VARIABLE: self.card,
            OUTSIDE_VARIABLE: os.environ.get(OUTSIDE_VARIABLE, os.environ.get("CUDA_VISIBLE_DEVICES", "unset")),
        }
        if self.dry is not None:
            machine[DRY_KEEP_VARIABLE] = str(self.dry.keep)
            machine[DRY_SHAPES_VARIABLE] = self.dry.shapes
            machine[STRICT_MEMORY_VARIABLE] = "1" if self.dry.strict_memory else "0"
            machine[DRY_ANSWERS_VARIABLE] = os.pathsep.join(f"{place}={value}" for place, value in self.dry.answers)
        return machine

    def describe(self) -> str:
        """The call that makes this machine."""
        memory = self.memory_text()
        memory = memory if memory.isdecimal() else repr(memory)
        card = "" if self.card == DEFAULT_CARD else f", card={self.card!r}"
        dry = ", dry=True" if self.dry is not None else ""
        return f"simulate(devices={self.devices}, memory={memory}, rng={self.rng!r}{card}{dry})"

    def memory_text(self) -> str:
        """The memory of each device: "80GiB", or a number of bytes."""
        mib, rest = divmod(self.memory_bytes, 1 << 20)
        return str(self.memory_bytes) if rest else f"{mib}MiB" if mib % 1024 else f"{mib // 1024}GiB"


_active: SimulationOptions | None = None


def check_dry(
    keep: object = DEFAULT_KEEP,
    shapes: object = "half",
    strict_memory: bool = False,
    answers: tuple[tuple[str, float], ...] = (),
) -> DryOptions:
    """The options of a dry run as a checked value; a UsageError that names the input and the way out."""
    size = 0 if keep in (0, "0") and not isinstance(keep, bool) else _memory_bytes(keep)
    if size is None:
        raise UsageError(
            f'dry-keep={keep!r} is not a size. Use a number with a unit, such as "64KiB" or "1MiB", or 0 for no values '
            "at all."
        )
    if shapes not in SHAPES:
        raise UsageError(f"dry-shapes={shapes!r} is not known. Use {', '.join(SHAPES[:-1])} or {SHAPES[-1]}.")
    return DryOptions(size, str(shapes), strict_memory, answers)


def check_options(
    devices: object, memory: object = None, rng: object = "device", card: object = None, dry: DryOptions | None = None
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
    return SimulationOptions(devices, _check_memory(memory), str(rng), key, dry)


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
    machine, comma, word = text.partition(",")
    if comma and word.strip() != "dry":
        raise UsageError(
            f'{SIMULATE_VARIABLE}={text!r}: {word.strip()!r} is not known. Only "dry" may follow the comma.'
        )
    match = re.fullmatch(r"cuda|(?:cuda:)?(\d{1,9})", machine.strip())
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
    return check_options(devices, memory, rng, card, _dry_from(environment) if comma else None)


def _dry_from(environment: Mapping[str, str]) -> DryOptions:
    """How the environment wants a dry run."""
    try:
        return check_dry(
            environment.get(DRY_KEEP_VARIABLE) or DEFAULT_KEEP,
            environment.get(DRY_SHAPES_VARIABLE) or "half",
            environment.get(STRICT_MEMORY_VARIABLE, "0") not in ("", "0"),
            _answers_in(environment.get(DRY_ANSWERS_VARIABLE, "")),
        )
    except UsageError as error:
        raise UsageError(f"in the environment ({DRY_KEEP_VARIABLE}, {DRY_SHAPES_VARIABLE}): {error}") from None


def _answers_in(text: str) -> tuple[tuple[str, float], ...]:
    """What to_environment() has written; anything else says nothing."""
    found = []
    for each in re.findall(r"(.+?:\d+)=([-+.\w]+)(?:" + re.escape(os.pathsep) + "|$)", text):
        try:
            found.append((each[0], float(each[1])))
        except ValueError:
            continue
    return tuple(found)


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
        in_notebook = cells.shell() is not None
        raise UsageError(
            f"this process already has the machine {_active.describe()}, so {options.describe()} can't be had. "
            "Call simulate() once (LOCUS_SIMULATE and `locus run` do so too), or "
            + ("restart the kernel." if in_notebook else "start another process.")
        )
    if _active is None:
        if options.devices == 0:
            surface.hide_cuda()
        else:
            budget = host_budget()
            bridge = load_bridge()
            bridge.set_library_folders(library_folders())
            try:
                dry = bridge.DrySettings(*options.dry[:3]) if options.dry is not None else None
                for place, value in options.dry.answers if options.dry is not None else ():
                    bridge.dry_answer(place, value)
                shared = options.rng == "cpu"
                bridge.simulate(options.devices, options.memory_bytes, shared, *budget, card=options.card, dry=dry)
            except RuntimeError as error:
                raise UsageError(str(error)) from error
            surface.install(bridge, shared_rng=options.rng == "cpu")
        _active = options
    os.environ.update(options.to_environment())


def active_options() -> SimulationOptions | None:
    """The machine that this process has, or None."""
    return _active
