"""From memory that has run out to a finding: what was asked for and what was free, what held the rest by category and
by line, and the list or the sum of the program that keeps what should have gone.

Two ways lead here: an error that nobody caught, and a dry run that goes on where a card would have ended it. What was
held at that moment is the bridge's word where devices are simulated; on a real card it is what is there now.
"""

from __future__ import annotations

import re
import types
from typing import TYPE_CHECKING

from locus import faults
from locus.blame import findings
from locus.fixing import evaluating, keeping, releasing
from locus.program import histories, places, source
from locus.watch import made_up

if TYPE_CHECKING:
    from locus.program import shapes
    from locus.program.raw_shapes import HeldMemory
    from locus.watch.holders import Holder

_LINES = 5
_MODULES = 3
_FEW = 3
"""A list of fewer tensors is no list that grows."""
_SMALL = 10
"""Tensors that take less than one part in so many of what is held are not what holds it: their graphs are."""
_SIZE = r"[\d.]+ (?:bytes|KiB|MiB|GiB)"
_WORDS = re.compile(
    rf"Tried to allocate (?P<requested>{_SIZE})\. GPU (?P<device>\d+) has a total capacity of (?P<capacity>{_SIZE}) "
    rf"of which (?P<free>{_SIZE}) is free.*?(?P<allocated>{_SIZE}) is allocated by PyTorch.*?"
    rf"(?P<unused>{_SIZE}) is reserved by PyTorch but unallocated",
    re.DOTALL,
)
_UNITS = {"bytes": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}


def is_one(error: BaseException) -> bool:
    """Whether a CUDA device has run out of memory."""
    return type(error).__name__ == "OutOfMemoryError" and str(error).startswith("CUDA out of memory")


def of_error(error: BaseException, frames: list[types.FrameType]) -> shapes.Finding | None:
    """The finding of such an error; None where its words are not PyTorch's."""
    bridge = histories.bridge()
    held = bridge.held_at_error(str(error)) if bridge is not None else None
    held = held or _held_by_words(str(error))
    return None if held is None else describe(held, frames)


def describe(held: HeldMemory, frames: list[types.FrameType]) -> shapes.Finding:
    """What there is to say about memory that did not suffice, with the frames of the call."""
    from locus.watch import holders

    users = places.user_frames(frames)
    use = places.frame_location(users[0]) if users else places.unknown_location()
    if not use["line"] and held["place"][1]:
        file, line = held["place"]
        use = places.location(file, line, line, -1, -1, "")
    device = held["device"]
    notes = _by_line(held)
    unused = held["reserved"] - held["allocated"]
    if unused > held["requested"]:
        notes.append(f"{size(unused)} are the allocator's and in use by nobody, in pieces that are too small")
    cause, culprit, fix = None, None, None
    try:
        kept = [each for each in holders.find(users, device) if max(each.tensors, each.graphs) >= _FEW]
    except Exception as fault:
        faults.note("who holds memory", fault)
        kept = []
    for holder in kept[:2]:
        growth = keeping.find(holder.name, _nearest_first(users, holder.frame))
        notes.insert(0, of_holder(holder, growth.location["line"] if growth is not None else 0))
        if growth is not None and holder.graphs >= _FEW and cause is None:
            cause, culprit = growth.location, holder.name
            if holder.size * _SMALL < held["allocated"]:
                fix = keeping.without_graph(growth, holder.spent == holder.graphs)
    if cause is None and (evaluation := _in_evaluation(users)) is not None:
        cause, fix = evaluation.location, evaluation.edit
        notes.insert(
            0, f"`{evaluation.model}` is in eval() and gradients are on: every layer's result is kept for backward()"
        )
    if cause is None and (idle := _idle(users, held)) is not None:
        cause, culprit, fix = idle.location, idle.name, idle.edit
        notes.insert(0, idle.words)
    by_category = ", ".join(f"{name} {size(count)}{_modules(name, held)}" for name, count in held["categories"])
    return findings.make(
        "out-of-memory",
        f"cuda:{device} has no room for another {size(held['requested'])}: {size(held['free'])} of "
        f"{size(held['capacity'])} are free",
        f"held at that moment: {by_category or size(held['allocated'])}",
        use,
        cause,
        culprit={"name": culprit, "device": f"cuda:{device}"} if culprit else None,
        fixes=[fix],
        notes=notes,
    )


def _in_evaluation(users: list[types.FrameType]) -> evaluating.Evaluation | None:
    try:
        return evaluating.find(users)
    except Exception as fault:
        faults.note("whether this is an evaluation", fault)
        return None


def _idle(users: list[types.FrameType], held: HeldMemory) -> releasing.Idle | None:
    gradients = sum(count for name, count in held["categories"] if name == "gradients")
    try:
        return releasing.find(users, held["device"], held["requested"] - held["free"], gradients)
    except Exception as fault:
        faults.note("what is held and not needed", fault)
        return None


def _nearest_first(frames: list[types.FrameType], number: int) -> list[types.FrameType]:
    return frames[number:] + frames[:number] if number < len(frames) else frames


def of_holder(holder: Holder, line: int) -> str:
    """`history`, a list, holds 12 tensors …"""
    where = f"; line {line} adds to it" if line else ""
    if not holder.container:
        return f"`{holder.name}` is a sum that keeps the graphs of {holder.graphs} tensors, with what they saved{where}"
    words = f"`{holder.name}`, a {holder.container}, holds {holder.tensors} tensors ({size(holder.size)})"
    if holder.graphs:
        words += f", {holder.graphs} of them with the graph behind them"
    if holder.made is not None:
        words += f", made by {_place(*holder.made)}"
    return words + where


def _held_by_words(words: str) -> HeldMemory | None:
    """What PyTorch itself says, on a real card."""
    said = _WORDS.search(words)
    bridge = histories.bridge()
    if said is None or bridge is None:
        return None
    device, allocated = int(said["device"]), _bytes(said["allocated"])
    return {
        "device": device, "requested": _bytes(said["requested"]), "capacity": _bytes(said["capacity"]),
        "free": _bytes(said["free"]), "allocated": allocated, "reserved": allocated + _bytes(said["unused"]),
        "place": ("", 0), **bridge.held_now(device),
    }  # fmt: skip


def _bytes(text: str) -> int:
    """What PyTorch wrote as "1.50 GiB"."""
    number, unit = text.split()
    return int(float(number) * _UNITS[unit])


def size(count: int) -> str:
    """ "512 bytes", "1.50 MiB", "79.25 GiB"."""
    for unit, scale in reversed(_UNITS.items()):
        if count >= scale > 1:
            return f"{count / scale:.2f} {unit}"
    return f"{count} bytes"


def _modules(category: str, held: HeldMemory) -> str:
    """Whose activations they are, behind their sum; nothing where there is only one."""
    if category != "activations" or len(held["modules"]) < 2:
        return ""
    named = [f"{module} {size(count)}" for module, count in held["modules"][:_MODULES]]
    return f" ({', '.join(named)}{', …' if len(held['modules']) > _MODULES else ''})"


def _by_line(held: HeldMemory) -> list[str]:
    """The lines that hold the most. The calls of a line are one to a reader."""
    sums: dict[tuple[str, int], tuple[int, int]] = {}
    for file, line, count, pieces, _ in held["lines"]:
        before = sums.get((file, line), (0, 0))
        sums[file, line] = before[0] + count, before[1] + pieces
    largest = sorted(((place, each) for place, each in sums.items() if place[0]), key=lambda row: -row[1][0])
    return [
        f"{size(count)} in {pieces} piece{'' if pieces == 1 else 's'} taken by {_place(*place)}"
        for place, (count, pieces) in largest[:_LINES]
    ]


def _place(file: str, line: int) -> str:
    text = source.line_text(file, line).strip()
    return f"line {line}, `{text}`" if text else f"{file}:{line}"


_reported: set[int] = set()
"""The devices of this process that a dry run has filled: on a card the program would have ended there."""


def in_dry_run(held: HeldMemory, step: int) -> shapes.Finding | None:
    """The finding of the first moment at which a card would have been full; None for those after it."""
    if held["device"] in _reported:
        return None
    _reported.add(held["device"])
    if found := _shapes_made_up():
        _undecided[held["device"]] = _words_of_undecided(held, found)
        return None
    frames = places.frames_here()
    try:
        finding = describe(held, frames)
    finally:
        places.release_locals(frames)  # the run goes on
    finding["notes"] = ["the run without values went on", *finding["notes"]]
    return {**finding, "first_step": step}


_undecided: dict[int, str] = {}
"""The devices that a dry run has filled after it had made up shapes: whether a card would be full is not known."""


def undecided() -> str:
    """Why it is not known whether memory suffices; "" where it is."""
    return next(iter(_undecided.values()), "")


def _shapes_made_up() -> list[str]:
    """The lines whose shapes are larger in this run than they may be with values."""
    bridge = histories.bridge()
    if bridge is None or not bridge.is_dry() or bridge.dry_shapes() == "least":
        return []
    return made_up.places(bridge.dry_rows(), ("shape",))


def _words_of_undecided(held: HeldMemory, places_made_up: list[str]) -> str:
    return (
        f"cuda:{held['device']} had no room for another {size(held['requested'])} at {made_up.shown(*held['place'])}, "
        f"which may come of shapes that the dry run made up at {made_up.listed(places_made_up)}; --dry-shapes least "
        "takes the smallest, and what has no room then has none with values"
    )


def forget() -> None:
    """Another part of the program begins."""
    _reported.clear()
    _undecided.clear()
