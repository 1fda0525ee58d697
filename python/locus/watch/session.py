"""What the watch needs of the check that is under way: locus.process.session has the whole of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from locus._bridge import Bridge, Report

Result = TypeVar("Result")


class Session(Protocol):
    """The check that is under way in this process."""

    bridge: Bridge
    is_child: bool
    """Whether another process makes the report, of what this one found too."""

    def safely(self, where: str, step: Callable[..., Result], *arguments: object) -> Result | None:
        """Does a step of the check; a fault in it is noted, and the program goes on."""

    def add_finding(self, finding: Mapping[str, object], key: int = 0) -> None:
        """Keeps a finding that is no broken rule of an operator."""

    def finding_count(self) -> int:
        """How many root causes have been found so far, ignored ones included."""

    def report(self, *, finished: bool = True) -> Report:
        """The report as it stands."""
