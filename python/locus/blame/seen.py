"""Mistakes that are no operator's, most of them of distributed code: what was seen, as facts for the C++ side
(locus/engine/ranks/seen.h), which has the words for them. No rule was broken, so no case is to blame.
"""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING, Literal

from locus.blame.branches import Branch
from locus.program.shapes import Location

if TYPE_CHECKING:
    from locus.program.shapes import Edit, FoundOperand


Seen = Literal[
    "cpu-tensor", "cpu-module", "shared-device", "shared-checkpoint", "scattered-module", "several-devices",
    "device-ids", "moved-after-wrapping", "optimizer-before", "frozen", "lost", "unused", "second-backward",
    "twice-by-backward", "twice-by-checkpoint", "twice", "pinned", "saved-elsewhere",
    "mixed-tensors", "other-sharding", "mesh-size", "parent-first", "other-group", "other-values", "other-gradients",
]  # fmt: skip


@dataclasses.dataclass
class Facts:
    """What was seen; each field is explained in locus/engine/ranks/seen.h."""

    seen: Seen
    use: Location
    cause: Location | None = None
    op: str = ""
    operands: list[FoundOperand] = dataclasses.field(default_factory=list)
    fixes: list[Edit] = dataclasses.field(default_factory=list)
    ranks: list[int] = dataclasses.field(default_factory=list)
    subject: str = ""
    wrapper: str = ""
    device: str = ""
    devices: list[str] = dataclasses.field(default_factory=list)
    expected: str = ""
    output: str = ""
    names: list[str] = dataclasses.field(default_factory=list)
    count: int = 0
    made: Location | None = None
    branch: Branch | None = None
    used: Location | None = None

    def as_json(self, step: int = 0) -> str:
        """As the C++ side reads it; `step` is the number of optimizer steps so far."""
        return json.dumps({**dataclasses.asdict(self), "step": step})
