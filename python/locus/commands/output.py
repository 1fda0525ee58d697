"""What a command prints: a reader that has seen enough (`locus doctor | head`) is no error."""

from __future__ import annotations

import os
import sys


def show(data: str | bytes) -> None:
    """Writes to standard output, at once."""
    try:
        if isinstance(data, bytes):
            sys.stdout.flush()
            sys.stdout.buffer.write(data)
        else:
            sys.stdout.write(data)
        sys.stdout.flush()
    except BrokenPipeError:
        # The interpreter would try to write the rest when it ends, and complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
