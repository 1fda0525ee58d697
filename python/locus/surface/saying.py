"""What is otherwise done than on a card, said on stderr where a program could notice."""

from __future__ import annotations

import sys

_said: set[str] = set()


def once(message: str) -> None:
    if message not in _said:
        _said.add(message)
        print(f"locus: {message}", file=sys.stderr)
