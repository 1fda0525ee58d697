"""Memory that grows with every step, before it ends a run: a list or a sum that keeps a graph of each step, which no
backward() can use any more.

That a line leaves more behind in each of the last steps is only where to look (locus/engine/memory_by_line.h): caches
that fill, replay buffers and records of an epoch do, too. The warning is about what can have no use: spent graphs. Of
all else the ledger says which line it is and what keeps it, and nobody is warned.
"""

from __future__ import annotations

import types
from typing import TYPE_CHECKING

from locus.blame import findings
from locus.fixing import keeping
from locus.program import places
from locus.watch import holders, out_of_memory

if TYPE_CHECKING:
    from locus._bridge import Bridge
    from locus.program import shapes

STEPS = 8
"""In how many steps in a row a line must have left something behind."""


def look(bridge: Bridge, frames: list[types.FrameType], devices: int) -> list[shapes.Finding]:
    """The warnings there are, with the frames of the step that has just ended."""
    users = places.user_frames(frames)
    found = []
    for device in range(devices):
        lines = bridge.growing_lines(device, STEPS)
        places_of_lines = {row[:2] for row in lines}
        for holder in holders.find(users, device) if lines else ():
            if holder.made in places_of_lines and holder.tensors >= STEPS:
                _note(bridge, holder, users, device)
            if holder.spent < STEPS:
                continue
            if holder.container and holder.made is not None and holder.made not in places_of_lines:
                continue  # it grows, but not with every step
            found.append(_warning(holder, lines, users, device))
        for kept in holders.find_errors(users, device) if lines else ():
            words = f"`{kept.name}`, exceptions with the variables of the functions they came through"
            for file, line in kept.made & places_of_lines:
                bridge.note_growth(device, file, line, words)
    return found


def _note(bridge: Bridge, holder: holders.Holder, users: list[types.FrameType], device: int) -> None:
    """What keeps the memory of a line, for the ledger."""
    if holder.made is None:
        return
    growth = keeping.find(holder.name, users[holder.frame :] + users[: holder.frame])
    added = f" at line {growth.location['line']}" if growth is not None else ""
    bridge.note_growth(device, *holder.made, f"`{holder.name}`, a {holder.container} that is added to{added}")


def _warning(
    holder: holders.Holder, lines: list[tuple[str, int, int]], users: list[types.FrameType], device: int
) -> shapes.Finding:
    growth = keeping.find(holder.name, users[holder.frame :] + users[: holder.frame])
    use = growth.location if growth is not None else places.frame_location(users[0])
    what = "is a sum that keeps" if not holder.container else f"is a {holder.container} that keeps"
    kept = sum(count for _, _, count in lines)
    return findings.make(
        "memory-grows",
        f"`{holder.name}` {what} the graph of every step: {holder.graphs} by now",
        f"in each of the last {STEPS} steps more was left on cuda:{device}, {out_of_memory.size(kept)} so far, "
        "and no backward() can use these graphs any more",
        use,
        culprit={"name": holder.name, "device": f"cuda:{device}"},
        fixes=[keeping.without_graph(growth, True) if growth is not None else None],
        notes=[out_of_memory.of_holder(holder, 0)],
    )
