"""What a terminal can show: color, width, links. Asked once, in one place, for every command.

NO_COLOR and FORCE_COLOR (a piped report in color), COLUMNS (its width) and FORCE_HYPERLINK mean what they
mean elsewhere.
"""

from __future__ import annotations

import os
import shutil
from typing import NamedTuple

_PLAIN_WIDTH = 80
_PROGRAMS_WITH_LINKS = ("iTerm.app", "WezTerm", "vscode", "ghostty", "Hyper", "Tabby", "rio")
_TERMS_WITH_LINKS = ("xterm-kitty", "xterm-ghostty", "alacritty", "foot", "contour", "wezterm")
_MARKS_OF_LINKS = ("KITTY_WINDOW_ID", "WT_SESSION", "DOMTERM", "KONSOLE_VERSION")


class Screen(NamedTuple):
    """Where text goes."""

    terminal: bool
    color: bool
    width: int
    links: bool


def look(descriptor: int) -> Screen:
    """What is behind a file descriptor: 1 for standard output, 2 for standard error."""
    try:
        terminal = os.isatty(descriptor)
    except OSError:
        terminal = False
    forced = os.environ.get("FORCE_COLOR", "")
    color = not os.environ.get("NO_COLOR") and (
        forced not in ("", "0") or (terminal and forced != "0" and os.environ.get("TERM") != "dumb")
    )
    return Screen(terminal, color, _width(terminal), _links(terminal and color))


def _width(terminal: bool) -> int:
    if terminal:
        return shutil.get_terminal_size((_PLAIN_WIDTH, 24)).columns
    given = os.environ.get("COLUMNS", "")
    return int(given) if given.isdecimal() and 0 < int(given) < 10_000 else _PLAIN_WIDTH


def _links(could: bool) -> bool:
    forced = os.environ.get("FORCE_HYPERLINK", "")
    if forced:
        return forced != "0"
    if not could:
        return False
    vte = os.environ.get("VTE_VERSION", "")
    return (
        os.environ.get("TERM_PROGRAM") in _PROGRAMS_WITH_LINKS
        or os.environ.get("TERM") in _TERMS_WITH_LINKS
        or any(name in os.environ for name in _MARKS_OF_LINKS)
        or (vte.isdecimal() and int(vte) >= 5000)
    )
