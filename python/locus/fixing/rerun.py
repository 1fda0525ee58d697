"""What comes back from a run of the program with fixes."""

from __future__ import annotations

from typing import Any, NamedTuple


class Rerun(NamedTuple):
    """What a run with fixes left behind."""

    report: dict[str, Any] | None
    """The report as JSON; None where the run did not come to its end."""
    exit: int
    error: str
    """The last line that the program wrote to standard error, where it failed."""
    deadline: float = 0.0
    """The seconds that it had, where it was ended for taking longer."""
