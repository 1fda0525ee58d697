"""What the bridge makes and takes, as types: a broken rule before anything is known of the program's text, chains of
origins, rows of the ledger, the memory and properties of devices. The rest is in locus.program.shapes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypedDict

if TYPE_CHECKING:
    import ast

    import torch

    from locus.program.shapes import Location
    from locus.vocabulary import CaseKind, Reason

    OnDevice = torch.Tensor | torch.Generator


class Origin(TypedDict):
    """One link of a tensor's chain of origins."""

    op: str
    site: int
    device: str
    placement: Literal["default", "explicit", "moved", "foreign", "loaded", "received", "derived"]


class _RawOperandMore(TypedDict, total=False):
    device: str
    """Of a tensor that is gone."""
    generator_device: str
    node: ast.expr | None
    """The expression that made it, where the tensor itself is gone."""


class RawOperand(_RawOperandMore):
    """An operand as the bridge sees it."""

    argument: str
    position: int
    index: int
    tensor: OnDevice | None
    odd: bool
    rule: str
    written: bool


class RawSide(TypedDict):
    """One of two accesses that nothing orders."""

    site: int
    overload: str
    argument: int
    writes: bool
    device: int
    """-1: the host."""
    stream: int
    stream_site: int
    collective: bool
    current: bool
    """It is the current stream of its device, where the second access happens."""


class _RawRaceMore(TypedDict, total=False):
    key: int
    step: int
    policy: int


class RawRace(_RawRaceMore):
    """Two accesses that nothing orders, as the bridge sees them."""

    kind: Literal["race"]
    freed: bool
    in_backward: bool
    first: RawSide
    second: RawSide
    current: int
    """The current device where the second access happens."""
    address: int
    """Of memory that the host has used without an operator; else 0."""
    tensor: torch.Tensor | None


class _RawGraphMore(TypedDict, total=False):
    step: int
    policy: int
    in_backward: bool


class RawGraph(_RawGraphMore):
    """A mistake with a CUDA graph, as the bridge sees it."""

    kind: Literal["graph"]
    what: str
    op: str
    words: str
    site: int
    first: int
    key: int


class _RawCaseMore(TypedDict, total=False):
    forward_site: int
    in_backward: bool
    site: int
    key: int
    step: int
    policy: int
    alone: bool
    caught_by: Location | None
    current: int
    """The current device, where that matters."""
    held: HeldMemory
    """Memory has run out: no rule is broken, and there are no operands."""


class HeldNow(TypedDict):
    """What is held of a device."""

    lines: list[tuple[str, int, int, int, list[tuple[str, int]]]]
    """File, line, bytes, allocations and bytes by category, largest first."""
    categories: list[tuple[str, int]]
    modules: list[tuple[str, int]]
    """The activations by the class whose code took them, largest first."""


class HeldMemory(HeldNow):
    """What was held when a device had no room for a request."""

    device: int
    requested: int
    capacity: int
    free: int
    allocated: int
    reserved: int
    place: tuple[str, int]
    """The line that asked, where it is known."""


class RawCase(_RawCaseMore):
    """A broken rule as the bridge sees it, before anything is known of the program's text."""

    kind: CaseKind
    overload: str
    error: str
    device: str
    operands: list[RawOperand]


_LedgerRow = TypedDict(
    "_LedgerRow",
    {
        "file": str,
        "line": int,
        "function": str,
        "from": str,
        "to": str,
        "kind": str,
        "count": int,
        "bytes": int,
    },
)


class _LedgerRowMore(TypedDict, total=False):
    milliseconds: float


class LedgerRow(_LedgerRow, _LedgerRowMore):
    """Copies or waits at one line."""


class MadeUpRow(TypedDict):
    """Something that a dry run made up at one line."""

    file: str
    line: int
    kind: str
    operation: str
    count: int
    bytes: int


class MemoryRow(TypedDict):
    """Memory that one line holds."""

    file: str
    line: int
    bytes: int
    count: int


class CodeRow(TypedDict):
    """One code of findings, with what `locus explain` says of it."""

    code: str
    reason: Reason
    severity: Literal["error", "warning"]
    title: str
    what: str
    why: str
    fixes: list[str]


Stat = dict[str, int]
StatTable = dict[str, "int | dict[str, Stat]"]
"""What torch._C._cuda_memoryStats() gives."""


class Block(TypedDict):
    """A block of simulated device memory."""

    address: int
    size: int
    requested_size: int
    state: str
    frames: list[object]


class Segment(TypedDict):
    """A segment of simulated device memory, as PyTorch's snapshots have it."""

    device: int
    address: int
    total_size: int
    allocated_size: int
    active_size: int
    requested_size: int
    stream: int
    segment_type: str
    segment_pool_id: tuple[int, int]
    is_expandable: bool
    frames: list[object]
    blocks: list[Block]


class DeviceProperties(TypedDict):
    """What torch.cuda.get_device_properties() shows."""

    name: str
    major: int
    minor: int
    multi_processor_count: int
    total_memory: int
    warp_size: int
    max_threads_per_multi_processor: int
    regs_per_multiprocessor: int
    shared_memory_per_block: int
    shared_memory_per_block_optin: int
    shared_memory_per_multiprocessor: int
    L2_cache_size: int
    is_integrated: bool
    is_multi_gpu_board: bool
    uuid: str
    gcnArchName: str
    pci_bus_id: int
    pci_device_id: int
    pci_domain_id: int
    clock_rate: int
    memory_clock_rate: int
    memory_bus_width: int
