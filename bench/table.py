"""The table of results: rows with a bar and whether it was met, for people and as JSON. Measures nothing."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any


def format_time(seconds: float) -> str:
    """Seconds in the unit that suits them."""
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if abs(seconds) >= scale:
            return f"{seconds / scale:.2f} {unit}"
    return f"{seconds * 1e9:.0f} ns"


@dataclass
class Row:
    """One figure. `kind` says how `value` is read: "ratio", "gain" (a ratio that should be high), "seconds" that are
    added to what stands there without Locus, "bytes" or "count"."""

    group: str
    name: str
    kind: str
    value: float
    bar: float | None = None  # None: for information
    plain: str = ""
    locus: str = ""
    details: dict[str, Any] = field(default_factory=dict)

    @property
    def met(self) -> bool | None:
        """Whether the bar is met; None where there is none."""
        if self.bar is None:
            return None
        return self.value >= self.bar if self.kind == "gain" else self.value <= self.bar

    def figure(self, value: float) -> str:
        """A value of this row as people read it."""
        if self.kind == "ratio":
            return f"{value:.3f}×"
        if self.kind == "gain":
            return f"{value:.1f}×"
        if self.kind == "seconds":
            return f"{'+' if value >= 0 else ''}{format_time(value)}"
        if self.kind == "bytes":
            return f"{'+' if value >= 0 else ''}{value / 1024:,.0f} KiB"
        return f"{value:+,.0f}"

    def cells(self) -> list[str]:
        """The columns of the table."""
        bar = "" if self.bar is None else f"{'≥' if self.kind == 'gain' else '≤'} {self.figure(self.bar)}"
        verdict = {None: "", True: "met", False: "missed"}[self.met]
        return [self.name, self.plain, self.locus, self.figure(self.value), bar, verdict]

    def as_json(self) -> dict[str, Any]:
        """Everything that is known of the row."""
        return asdict(self) | {"met": self.met}


HEADER = ["", "without", "Locus", "figure", "bar", ""]


def render(rows: Iterable[Row]) -> str:
    """The whole table, one block for each group."""
    rows = list(rows)
    cells = [row.cells() for row in rows]
    widths = [max(len(line[column]) for line in [HEADER, *cells]) for column in range(len(HEADER))]

    def line(columns: list[str]) -> str:
        name, *figures, verdict = columns
        right = [text.rjust(width) for text, width in zip(figures, widths[1:-1])]
        return "  ".join(["  " + name.ljust(widths[0]), *right, verdict]).rstrip()

    lines, group = [line(HEADER)], ""
    for row, columns in zip(rows, cells):
        if row.group != group:
            group = row.group
            lines += ["", group]
        lines.append(line(columns))
    return "\n".join(lines)
