"""What comes back from a run of the program with fixes, and the parts of a report (docs/report.schema.json) that decide
whether the fixes are right."""

from __future__ import annotations

from typing import NamedTuple, Protocol, TypedDict


class Place(TypedDict):
    """A line of the program."""

    file: str
    line: int


class Use(Place):
    """A line where the mistake hurts."""

    op: str
    first_step: int


class Fix(Place):
    """A change of source."""

    old: str
    new: str
    verified: bool
    note: str


class Offer(TypedDict):
    """A line that could be edited; `fix` where the change can be written down."""

    edit: str
    fix: Fix | None


class Culprit(TypedDict):
    """The tensor that is on the wrong device."""

    name: str
    expression: str


class Step(TypedDict):
    """Something that happened to a tensor."""

    at: Place | None


class Finding(TypedDict):
    """A mistake."""

    id: str
    code: str
    reason: str
    op: str
    cause: Place
    culprit: Culprit
    uses: list[Use]
    history: list[Step]
    fixes: list[Fix]
    candidates: list[Offer]
    notes: list[str]


class Program(TypedDict):
    """How the program ran."""

    exit: int
    steps: int
    seconds: float


class Words(TypedDict):
    """A report."""

    program: Program
    findings: list[Finding]


class Rerun(NamedTuple):
    """What a run with fixes left behind."""

    report: Words | None
    """None where the run did not come to its end."""
    exit: int
    error: str
    """The last line that the program wrote to standard error, where it failed."""
    deadline: float = 0.0
    """The seconds that it had, where it was ended for taking longer."""
    printed: str | None = None
    """What it wrote to standard output; None where that is not known."""
    traceback: tuple[tuple[str, int], ...] = ()
    """The lines that its last traceback names, innermost last."""


class RunAgain(Protocol):
    """Runs the program with other texts, to a number of optimizer steps."""

    def __call__(self, texts: dict[str, bytes], limit: int, shared_rng: bool) -> Rerun:
        """`shared_rng`: CPU and devices draw from one generator."""
