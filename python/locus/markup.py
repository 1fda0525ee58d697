"""HTML for notebooks: text with terminal colors, and small tables. Every string is escaped. Needs no PyTorch."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Sequence

_STYLES = {
    "1": "font-weight:bold",
    "1;31": "font-weight:bold;color:#c5221f",
    "1;33": "font-weight:bold;color:#b06000",
    "1;34": "font-weight:bold;color:#1967d2",
    "32": "color:#188038",
    "2": "opacity:.7",
}
_COLOR = re.compile(r"\x1b\[([\d;]*)m")
_CELL = "text-align:left;padding:0 1em 0 0;white-space:pre;font-family:monospace"


def colored(text: str) -> str:
    """Text with the colors of a terminal, as a block."""
    parts, at, is_open = [], 0, False
    for match in _COLOR.finditer(text):
        parts.append(html.escape(text[at : match.start()]))
        parts.append("</span>" if is_open else "")
        style = _STYLES.get(match[1], "")
        parts.append(f'<span style="{style}">' if style else "")
        is_open, at = bool(style), match.end()
    parts.append(html.escape(text[at:]) + ("</span>" if is_open else ""))
    return f'<pre style="line-height:1.3;white-space:pre-wrap">{"".join(parts)}</pre>'


def plain(text: str) -> str:
    """The same without colors, for what shows no HTML."""
    return _COLOR.sub("", text)


def table(head: Sequence[str], rows: Iterable[Sequence[str]], below: str = "") -> str:
    """A table, and a line below it."""
    heads = "".join(f'<th style="{_CELL}">{html.escape(name)}</th>' for name in head)
    lines = "".join(
        "<tr>" + "".join(f'<td style="{_CELL}">{html.escape(cell)}</td>' for cell in row) + "</tr>" for row in rows
    )
    foot = f"<p>{html.escape(below)}</p>" if below else ""
    return (
        f'<table style="border-collapse:collapse"><thead><tr>{heads}</tr></thead><tbody>{lines}</tbody></table>{foot}'
    )
