"""What one rank sees of the mistakes of distributed code, as facts for the C++ side (locus/engine/ranks/seen.h), which
has the words for them: no operator broke a rule, so no case is to blame.
"""

from __future__ import annotations

import dataclasses
import json
from typing import Literal

from locus.blame.module_sources import Branch, Fix
from locus.program.places import Location
from locus.watch import reporter
from locus.watch.session import Session

Seen = Literal[
    "cpu-tensor", "cpu-module", "shared-device", "shared-checkpoint", "scattered-module", "device-ids",
    "moved-after-wrapping", "optimizer-before", "frozen", "lost", "unused", "second-backward", "twice-by-backward",
    "twice-by-checkpoint", "twice",
]  # fmt: skip
Operand = dict[str, object]


@dataclasses.dataclass
class Facts:
    """What was seen; each field is explained in locus/engine/ranks/seen.h."""

    seen: Seen
    use: Location
    cause: Location | None = None
    op: str = ""
    operands: list[Operand] = dataclasses.field(default_factory=list)
    fixes: list[Fix] = dataclasses.field(default_factory=list)
    ranks: list[int] = dataclasses.field(default_factory=list)
    subject: str = ""
    wrapper: str = ""
    device: str = ""
    expected: str = ""
    output: str = ""
    names: list[str] = dataclasses.field(default_factory=list)
    count: int = 0
    made: Location | None = None
    branch: Branch | None = None
    used: Location | None = None


def report(session: Session, facts: Facts) -> None:
    """Makes a finding of what was seen."""
    session.bridge.add_seen(json.dumps({**dataclasses.asdict(facts), "step": session.bridge.steps()}))
    reporter.note_change()
