"""Two calls of two ranks: whether they fit, and the words for it when they don't. Looks at nothing else."""

from __future__ import annotations

import os
from typing import Any

from locus.blame import findings
from locus.program import source
from locus.ranks import flight

_FAMILY = {
    "all_gather_into_tensor": "all_gather",
    "reduce_scatter_tensor": "reduce_scatter",
    "all_to_all_single": "all_to_all",
}

_TYPES = {
    "Float": "float32", "Double": "float64", "Half": "float16", "BFloat16": "bfloat16", "Int": "int32", "Long": "int64",
    "Short": "int16", "Char": "int8", "Byte": "uint8", "ComplexFloat": "complex64", "ComplexDouble": "complex128",
}  # fmt: skip

_SIDE = {"send": "to", "recv": "from"}


def fit(one: flight.Call, other: flight.Call) -> bool:
    """Whether two calls with the same number can be one."""
    if one.is_message():
        return one.dtype == other.dtype and one.elements == other.elements
    if _family(one) != _family(other) or one.dtype != other.dtype:
        return False
    uneven = one.name in ("gather", "scatter") or min(one.elements, other.elements) < 0
    if not uneven and one.elements != other.elements:
        return False
    return one.root == other.root and one.reduction == other.reduction


def _family(call: flight.Call) -> str:
    return _FAMILY.get(call.name, call.name)


def words(call: flight.Call) -> str:
    """ "all_reduce() of float32[3]"."""
    kind = f" of {_TYPES.get(call.dtype, call.dtype.lower())}{list(call.shape)}" if call.dtype else ""
    if call.is_message():
        return f"{call.name}(){kind} {_SIDE[call.name]} rank {call.root}"
    root = f" with root {call.root}" if call.root >= 0 else ""
    return f"{call.name}(){kind}{root}"


def _difference(one: flight.Call, other: flight.Call) -> str:
    if not one.is_message() and _family(one) != _family(other):
        return "another call"
    if one.dtype != other.dtype:
        return "another type"
    if not one.is_message() and one.root != other.root:
        return "another root"
    if one.reduction != other.reduction:
        return f"another reduction, {one.reduction} and {other.reduction}"
    return "another number of elements"


_SAME_ORDER = (
    "every rank must make the same calls in the same order; look for a branch or a loop that differs between ranks"
)


def mismatch(mine: int, call: flight.Call, rank: int, theirs: flight.Call) -> dict[str, Any]:
    """The finding that two calls with the same number do not fit: the same on both ranks, so that it is one."""
    (low, first), (high, second) = sorted([(mine, call), (rank, theirs)], key=lambda entry: entry[0])
    if call.is_message():
        sender = low if first.name == "send" else high
        receiver = high if sender == low else low
        message = f"what rank {sender} sends does not fit what rank {receiver} receives, as message {call.sequence}"
        message += " between them"
        advice = "give the tensor that receives the shape and the type of the one that is sent"
    else:
        message = f"ranks {low} and {high} called collectives that do not fit, as number {call.sequence} of their group"
        same = _family(call) == _family(theirs) and call.root == theirs.root and call.reduction == theirs.reduction
        advice = "give every rank the same shape and type, by padding or by exchanging the sizes first"
        advice = advice if same else _SAME_ORDER
    return _finding(message, [(low, first), (high, second)], _difference(first, second), advice)


def deadlock(ring: list[tuple[int, flight.Call]]) -> dict[str, Any]:
    """The finding that ranks wait for each other, each for the next and the last for the first."""
    start = ring.index(min(ring, key=lambda entry: entry[0]))
    ring = ring[start:] + ring[:start]
    ranks = sorted(rank for rank, _ in ring)
    made = [call for _, call in ring]
    who = f"{', '.join(str(rank) for rank in ranks[:-1])} and {ranks[-1]}"
    advice = _SAME_ORDER
    if all(call.is_message() for call in made):
        next_one = "the other" if len(ring) == 2 else "the next"
        message = f"ranks {who} wait for each other, each for a message that {next_one} has not come to"
        kinds = {call.name for call in made}
        difference = "each receives before it sends" if kinds == {"recv"} else "each waits for the other side first"
        advice = "let one side send first while the other receives, or make both calls with batch_isend_irecv()"
    elif len(ring) == 2 and not any(call.is_message() for call in made):
        message = f"ranks {who} wait for each other, each in a collective that the other has not called"
        first, second = made
        difference = f"number {first.sequence} of one group and number {second.sequence} of another"
        if first.group == second.group:
            difference = f"numbers {first.sequence} and {second.sequence} of one group"
    else:
        message = f"ranks {who} wait for each other, each in a call that another has not made"
        difference = "no two of these calls belong together"
    return _finding(message, ring, difference, advice)


def _finding(message: str, made: list[tuple[int, flight.Call]], difference: str, advice: str) -> dict[str, Any]:
    parts = [f"rank {number}: {words(each)} at {at(each.place)}" for number, each in made[:8]]
    first, second = made[0][1], made[1][1]
    return findings.make(
        "ranks-part-ways", message, "; ".join(parts) + f": {difference}", full(first.place), full(second.place),
        op=first.name, ranks=sorted(rank for rank, _ in made), notes=[advice],
    )  # fmt: skip


def missing(call: flight.Call, waiting: list[int], rank: int, why: str, other: flight.Flight | None) -> dict[str, Any]:
    """The finding that a rank did not come to a call."""
    last = None
    if other is not None:
        numbers = other.last()
        last = other.read(call.key(), numbers[call.key()]) if call.key() in numbers else None
    came = f"; its last call was number {last.sequence}, {words(last)} at {at(last.place)}" if last else ""
    who = ", ".join(str(number) for number in sorted(waiting))
    what = "message" if call.is_message() else "collective"
    return findings.make(
        "rank-missing", f"rank {rank} did not come to {what} {call.sequence}, {words(call)}",
        f"rank{'s' if len(waiting) > 1 else ''} {who} wait{'' if len(waiting) > 1 else 's'} at {at(call.place)}; "
        f"rank {rank} {why}{came}",
        full(call.place), full(last.place) if last else None, op=call.name,
        culprit={"name": f"rank {rank}", "kind": "variable"}, ranks=waiting,
    )  # fmt: skip


def at(place: dict[str, Any]) -> str:
    return f"{os.path.basename(place['file'])}:{place['line']}" if place["line"] else "an unknown line"


def full(place: dict[str, Any]) -> dict[str, Any]:
    return {**place, "text": source.line_text(place["file"], place["line"])}
