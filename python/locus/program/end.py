"""How a program ended."""

from __future__ import annotations

import signal
from typing import NamedTuple

from locus.errors import DryLoopError

_CANT_GO_ON = 2  # what Locus ends with where it can't do what it was asked for
_SIGNALS = 128  # exit codes of programs that a signal ended begin here, as a shell reports them


class End(NamedTuple):
    """Its exit code, and what ended it."""

    exit: int = 0
    """Its exit code; 128 and the number of the signal where one ended it."""
    by: str = ""
    """What ended it before its end: a signal ("SIGTERM") or an exception ("ValueError")."""

    @classmethod
    def by_signal(cls, number: int) -> End:
        """The end of a program that a signal has ended."""
        try:
            name = signal.Signals(number).name
        except ValueError:
            name = f"SIG{number}"
        return cls(_SIGNALS + number, name)

    @classmethod
    def by_error(cls, error: BaseException) -> End:
        """The end of a program that does not catch this error."""
        if isinstance(error, KeyboardInterrupt):
            return cls.by_signal(signal.SIGINT)
        kind = type(error)
        module = "" if kind.__module__ in ("builtins", "__main__") else f"{kind.__module__}."
        return cls(_CANT_GO_ON if isinstance(error, DryLoopError) else 1, module + kind.__qualname__)
