"""What crosses between Python, the C++ side and reports, as types: places, edits, cases, findings, rows of a ledger.

Plain dictionaries when the program runs: C++ reads and writes them as JSON (locus/engine/finding.cc) or makes them
itself (locus/bridge/*.cc). The words in them are those of locus.vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, TypedDict

if TYPE_CHECKING:
    from locus.vocabulary import Action, CaseKind, EditKind, Fact, Kind, Reason


class Location(TypedDict):
    """A place in the program's text; columns are characters."""

    file: str
    line: int
    column: int
    end_line: int
    end_column: int
    function: str
    text: str


class Edit(TypedDict):
    """A change of the program's text."""

    file: str
    line: int
    old: str
    new: str
    note: str


class Fix(Edit):
    """A change, and whether the program ran again with it."""

    verified: bool


class Step(TypedDict):
    """One step of a tensor's history."""

    action: Action
    op: str
    device: str
    explicit: bool
    at: Location


class _CandidateMore(TypedDict, total=False):
    facts: list[Fact]
    distance: int
    name: str


class Candidate(_CandidateMore):
    """A line that could be edited, as the engine reads it."""

    edit: EditKind
    at: Location
    fix: Edit | None


class _OwnerMore(TypedDict, total=False):
    built_at: Location | None


_Owner = TypedDict(
    "_Owner",
    {
        "name": str,
        "class": str,
        "path": str,
        "attribute": str,
        "device": str,
        "moved_at": Location | None,
        "moved_to": str | None,
        "container": str | None,
    },
)


class Owner(_Owner, _OwnerMore):
    """The module or optimizer that holds a tensor."""


class _FoundMore(TypedDict, total=False):
    culprit: bool


class FoundOperand(_FoundMore):
    """One operand of a finding."""

    argument: str
    position: int
    name: str
    kind: Kind
    device: str
    shape: list[int]
    dtype: str
    requires_grad: bool
    odd: bool
    rule: str
    history: list[Step]


class _OperandMore(TypedDict, total=False):
    candidates: list[Candidate]
    made_here: dict[str, int]
    made_at: Location | None


class Operand(FoundOperand, _OperandMore):
    """One operand of a case."""

    expression: str | None
    zero_dim: bool
    written: bool
    is_leaf: bool
    owner: Owner | None
    edits: dict[EditKind, Edit]


class _CaseMore(TypedDict, total=False):
    candidates: list[Candidate]
    collating: bool
    home: str
    """The card where the code that runs belongs, "host" where an object gathers there what it is given."""
    replica: bool
    refused_with: str
    """What a library or the program itself said that refused the call."""


class Case(_CaseMore):
    """A broken rule, with all that is known of it: what the engine decides about."""

    kind: CaseKind
    op: str
    overload: str
    error: str
    use: Location
    library: Location | None
    stack: list[Location]
    in_backward: bool
    forward: Location | None
    step: int
    caught_by: Location | None
    device: str
    operands: list[Operand]


class Culprit(TypedDict, total=False):
    """The tensor that a finding is about."""

    name: str
    kind: Kind
    device: str
    expected_device: str
    shape: list[int]
    dtype: str
    expression: str | None


class _UseMore(TypedDict, total=False):
    library: Location | None
    caught_by: Location | None


class Use(Location, _UseMore):
    """A place where a mistake was met."""

    op: str
    count: int
    first_step: int


class _FindingMore(TypedDict, total=False):
    code: str
    severity: Literal["error", "warning"]
    history: list[Step]
    candidates: list[Candidate]
    more_uses: int
    forward: Location | None
    in_backward: bool
    count: int
    id: str


class Finding(_FindingMore):
    """One root cause."""

    reason: Reason
    message: str
    op: str
    cause: Location
    culprit: Culprit
    uses: list[Use]
    operands: Sequence[FoundOperand]
    why: str
    fixes: list[Fix]
    first_step: int
    notes: list[str]
    ranks: list[int]


class _TransferRowMore(TypedDict, total=False):
    milliseconds: float


_TransferRow = TypedDict(
    "_TransferRow",
    {"file": str, "line": int, "from": str, "to": str, "count": int, "bytes": int, "note": str, "text": str},
)


class TransferRow(_TransferRow, _TransferRowMore):
    """Copies between devices, by line, in a report."""


class SyncRow(_TransferRowMore):
    """Waits for a device, by line, in a report."""

    file: str
    line: int
    kind: str
    count: int
    text: str


class NotRun(TypedDict):
    """Code that the program never came to."""

    file: str
    function: str
    line: int


ModelRow = TypedDict(
    "ModelRow",
    {
        "depth": int,
        "name": str,
        "class": str,
        "kind": str,
        "device": str,
        "shape": list[int],
        "dtype": str,
        "bytes": int,
        "reached": bool,
    },
)
"""One part of a model."""

Model = TypedDict("Model", {"name": str, "class": str, "rows": list[ModelRow], "more_rows": int})
"""A model, and where its parts are."""


class HostRow(TypedDict):
    """A machine on which ranks ran."""

    name: str
    ranks: list[int]
    reported: bool


class ProgramRow(TypedDict, total=False):
    """How the program ran."""

    script: str
    argv: list[str]
    exit: int
    ended_by: str
    steps: int
    ops: int
    on_device: bool
    incomplete: str
    allow_empty: bool
    ranks: int
    hosts: list[HostRow]
    seconds: float
    devices: list[str]
    torch: str
    locus: str


class Report(TypedDict, total=False):
    """A report, as its JSON has it; before anything ran, less."""

    version: int
    findings: list[Finding]
    transfers: list[TransferRow]
    syncs: list[SyncRow]
    memory: dict[str, object]
    models: list[Model]
    program: ProgramRow
    notes: list[str]
    ignored: list[object]
    not_run: list[NotRun]
    baseline: object


class RaceSide(TypedDict):
    """One of two accesses that nothing orders, by the program's names."""

    at: Location
    op: str
    stream: str
    writes: bool


class RaceFacts(TypedDict):
    """What the C++ side makes a finding about a race of; each field is explained in locus/engine/races.h."""

    kind: str
    first: RaceSide
    second: RaceSide
    cause: Location
    operands: list[Operand]
    name: str
    fixes: list[Edit]
    step: int
    wait: str
    in_backward: bool
