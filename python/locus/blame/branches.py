"""An `if` or a loop of the program's, for people. Imports no PyTorch."""

from __future__ import annotations

import dataclasses

from locus.program.shapes import Location


@dataclasses.dataclass
class Branch:
    """The `if` on which something depends, or the loop around it."""

    at: Location
    condition: str
    leaves: bool
    """It stands before the place, with a way out; else it stands around it."""
