"""What the fixture `locus_report` gives a test."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from locus.program import shapes
    from locus.program.shapes import SyncRow, TransferRow


class ReportSoFar:
    """What Locus has seen in the test that is running, when it is asked."""

    def __init__(self, read: Callable[[], shapes.Report], words: Callable[[], str]):
        self._read, self._words = read, words

    def as_dict(self) -> shapes.Report:
        """The report as the JSON contract has it (docs/report.schema.json), for this test so far."""
        return self._read()

    @property
    def findings(self) -> list[shapes.Finding]:
        """The findings, as in the JSON report."""
        return self.as_dict()["findings"]

    @property
    def codes(self) -> list[str]:
        """The codes of the findings."""
        return [finding["code"] for finding in self.findings]

    @property
    def transfers(self) -> list[TransferRow]:
        """Copies between devices, by line."""
        return self.as_dict()["transfers"]

    @property
    def syncs(self) -> list[SyncRow]:
        """Waits for a device, by line."""
        return self.as_dict()["syncs"]

    def __str__(self) -> str:
        return self._words()
