"""Compares two tables of ground truth: where one says another thing, by operator, and a closing table of counts."""

from __future__ import annotations

import collections
from collections.abc import Iterable
from typing import NamedTuple

from locus.ground_truth.table import Key, Row, Said, Table, same_shapes

_SHOWN_CASES = 3


class Difference(NamedTuple):
    """One case about which the two tables disagree."""

    key: Key
    ours: Said
    theirs: Said


class Comparison:
    """Rows held against a table, one after the other."""

    def __init__(self, table: Table):
        self.table = table
        self.count: collections.Counter[str] = collections.Counter()
        self.different: list[Difference] = []
        """Where the verdict, or the device of the result, is another one."""
        self.words: list[Difference] = []
        """Where both raise, in other words."""
        self._by_kind: dict[str, collections.Counter[str]] = {}
        for key in table.rows:
            self._book(key, "cases")

    def add(self, row: Row) -> None:
        """Holds one row against the table."""
        known = self.table.rows.get(row.key)
        if known is None or not same_shapes(known.shapes, row.shapes):
            return
        self._book(row.key, "matched")
        ours, theirs = row.said, known.said
        if ours.outcome == "ok" and self.table.about.get("results") == "first":
            ours = ours._replace(detail=ours.detail.partition(",")[0])  # an older table: it has no more than that
        refused = ours.outcome != "ok" and theirs.outcome != "ok"
        if not refused and ours != theirs:
            self._book(row.key, "different")
            self.different.append(Difference(row.key, ours, theirs))
            return
        self._book(row.key, "equal")
        if refused:
            self._book(row.key, "refused by both")
            if ours == theirs:
                self._book(row.key, "same words")
            else:
                self.words.append(Difference(row.key, ours, theirs))

    def add_all(self, rows: Iterable[Row]) -> Comparison:
        for row in rows:
            self.add(row)
        return self

    def _book(self, key: Key, what: str) -> None:
        self.count[what] += 1
        self._by_kind.setdefault(key.kind, collections.Counter())[what] += 1

    def text(self, ours: str, theirs: str, words: bool) -> str:
        """The differences by operator, then the counts. `ours`, `theirs`: what the two tables are called."""
        lines = _listed(self.different, ours, theirs, "another verdict or device")
        if words:
            lines += _listed(self.words, ours, theirs, "other words")
        return "\n".join(lines + self._counts()) + "\n"

    def _counts(self) -> list[str]:
        columns = ("cases", "matched", "equal", "different", "same words")
        rows: list[tuple[str, ...]] = [("", *columns)]
        total = self._by_kind.items() if len(self._by_kind) == 1 else [*self._by_kind.items(), ("all", self.count)]
        for kind, count in total:
            cells = [f"{count[column]:,}" for column in columns]
            cells[-1] = f"{count['same words']:,} of {count['refused by both']:,}"
            rows.append((kind, *cells))
        widths = [max(len(row[i]) for row in rows) for i in range(len(columns) + 1)]
        return ["  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]).rstrip() for row in rows]


def _listed(differences: list[Difference], ours: str, theirs: str, what: str) -> list[str]:
    """The operators with differences, each with its first cases."""
    by_operator: dict[tuple[str, str], list[Difference]] = {}
    for one in differences:
        by_operator.setdefault((one.key.name, one.key.variant), []).append(one)
    width = max(len(ours), len(theirs))
    lines = []
    for (name, variant), cases in by_operator.items():
        entry = f"{name} ({variant})" if variant else name
        lines.append(f"{entry}: {what} in {len(cases):,} {'case' if len(cases) == 1 else 'cases'}")
        for one in cases[:_SHOWN_CASES]:
            lines += [f"  {one.key}", f"    {ours:{width}}  {one.ours}", f"    {theirs:{width}}  {one.theirs}"]
        if len(cases) > _SHOWN_CASES:
            lines.append(f"  … and {len(cases) - _SHOWN_CASES:,} more")
        lines.append("")
    return lines
