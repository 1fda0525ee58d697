"""Faults of Locus's own: remembered for the report's notes, so that none looks like success. The program does not hear
of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

noted: list[str] = []
"""What went wrong, a few of them."""

at_fault: Callable[[], None] | None = None
"""Tells whoever will report, should this process be killed before it can."""

_MAX_NOTED = 20


def note(where: str, error: BaseException) -> None:
    """Remembers a fault, and where it was."""
    if at_fault is not None:
        at_fault()
    if len(noted) < _MAX_NOTED:
        line = error.__traceback__
        while line is not None and line.tb_next is not None:
            line = line.tb_next
        at = f" at {line.tb_frame.f_code.co_filename}:{line.tb_lineno}" if line is not None else ""
        noted.append(f"{where}: {type(error).__name__}: {error}{at}")
