"""Faults of Locus's own: remembered for the report's notes, so that none looks like success. The program does not hear
of them."""

from __future__ import annotations

noted: list[str] = []
"""What went wrong, a few of them."""

_MAX_NOTED = 20


def note(where: str, error: BaseException) -> None:
    """Remembers a fault, and where it was."""
    if len(noted) < _MAX_NOTED:
        line = error.__traceback__
        while line is not None and line.tb_next is not None:
            line = line.tb_next
        at = f" at {line.tb_frame.f_code.co_filename}:{line.tb_lineno}" if line is not None else ""
        noted.append(f"{where}: {type(error).__name__}: {error}{at}")
