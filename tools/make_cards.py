"""Makes python/locus/process/cards.py from locus/sim/cards.def: the cards that the command line knows.

Usage: tools/make_cards.py [--check]
"""

from __future__ import annotations

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
SOURCE = ROOT / "locus" / "sim" / "cards.def"
TARGET = ROOT / "python" / "locus" / "process" / "cards.py"
_LINE = re.compile(r'^LOCUS_CARD\("([^"]+)", "([^"]+)", (\d+), (\d+), (\d+), .*, (kMeasured|kDerived)\)$')

_HEAD = '''"""The cards that can be simulated. Made by tools/make_cards.py from locus/sim/cards.def: edit that."""

from __future__ import annotations

from typing import NamedTuple


class Card(NamedTuple):
    """A card by its key."""

    name: str
    memory: int
    capability: tuple[int, int]
    measured: bool
    """Whether what libraries take was measured on this card, or follows from rules alone."""


'''


def text() -> str:
    """The module."""
    rows = [match.groups() for line in SOURCE.read_text().splitlines() if (match := _LINE.match(line))]
    cards = [
        f"    {key!r}: Card({name!r}, {memory}, ({major}, {minor}), {origin == 'kMeasured'}),".replace("'", '"')
        for key, name, memory, major, minor, origin in rows
    ]
    return _HEAD + f'DEFAULT_CARD = "{rows[0][0]}"\n\nCARDS = {{\n' + "\n".join(cards) + "\n}\n"


def main() -> int:
    """Writes the module, or says whether it is up to date."""
    if "--check" in sys.argv:
        return 0 if TARGET.read_text() == text() else 1
    TARGET.write_text(text())
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
