"""Every difference that is left, with its reason: from the CPU in PyTorch's databases, from a real GPU in its verdicts.

The slow runs fail when an entry no longer differs; any run fails when something else does.
"""

import re
from typing import NamedTuple

import torch


class Difference(NamedTuple):
    """Samples of the entries whose names match, where what differs matches too."""

    names: str
    detail: str
    reason: str


DIFFERENCES = [
    Difference(
        r"(new_)?empty(_like|_permuted|_strided)?",
        r"does not repeat|could be watched",
        "nobody sets this memory; what is in it differs from call to call on the CPU, too",
    ),
    Difference(
        r"linalg\.lstsq",
        r"does not repeat|linalg_lstsq",
        "LAPACK's gelsy gives other last bits from call to call on the CPU, too",
    ),
    Difference(
        r"histogram|histogramdd|narrow_copy|torch\.ops\.aten\._scaled_dot_product_flash_attention_for_cpu",
        r"Could not run 'aten::\w+(\.\w+)?' with arguments from the 'CUDA' backend",
        "PyTorch has no CUDA kernel for it; a card raises the same error",
    ),
]

CUDA_ONLY = {
    "_thnn_fused_lstm_cell",
    "_thnn_fused_lstm_cell_backward_impl",
    "_thnn_fused_gru_cell",
    "_thnn_fused_gru_cell_backward",
    "_scaled_dot_product_efficient_attention",
    "_scaled_dot_product_efficient_attention_backward",
    "mm",
    "addmm",
    "bmm",
    "baddbmm",
}
"""Operators that PyTorch's C++ picks for CUDA tensors and that have no CPU kernel to be compared with (of the products,
the overloads that read half precision and write single). Locus brings them along, see docs/design.md."""


def reason_for(name, variant, how, detail):
    """Why this difference is there, or None: it should not be."""
    for difference in DIFFERENCES:
        if re.fullmatch(difference.names, name) and re.search(difference.detail, detail):
            return difference.reason
    return None


class Case(NamedTuple):
    """Cases of a table of a real GPU's verdicts, where what the GPU said matches."""

    kind: str
    name: str
    detail: str
    reason: str
    drawn: str = ""
    """What is said here, where it depends on the values that were drawn: not every machine draws them."""

    def is_of(self, case):
        kind, name, *_, said_here, said_there = case
        same = kind == self.kind and name == self.name
        return same and all(re.search(*pair) for pair in ((self.detail, said_there), (self.drawn, said_here)))


TORCH = tuple(map(int, torch.__version__.split(".")[:2]))

EMPTY_DETERMINANT = Case(
    "backward", "linalg.det", r"^-$", "in PyTorch 2.11, the determinant of an empty matrix has no gradient on CUDA"
)
VERDICTS = [
    *([EMPTY_DETERMINANT] if TORCH != (2, 11) else []),
    Case("call", "__rmod__", "", "divides by zero, which the CPU refuses and a card does not", "ZeroDivisionError"),
]
"""Where the verdict or the device of the result is another one."""

DRY_VERDICTS = [
    Case(
        "module", "nn.CTCLoss", "", "the lengths of the targets are made up and do not add up to them", "to have size"
    ),
]
"""The same in dry runs without a single value."""

WORDS = [
    Case(
        "backward",
        "torch.ops.aten._efficient_attention_forward",
        "invalid gradient",
        "the operator itself is refused by name; scaled_dot_product_attention is simulated",
    ),
    Case(
        "module", "nn.BCELoss", "INTERNAL ASSERT", "a CPU result among CPU operands, chosen by a weight on the device"
    ),
    Case("optimizer", "Adam", "must have same dtype, device, and layout", "checked after the operands' devices here"),
    Case("optimizer", "AdamW", "must have same dtype, device, and layout", "checked after the operands' devices here"),
    Case("optimizer", "Adam", "illegal memory access", "a card follows the host's pointer"),
    Case("optimizer", "AdamW", "illegal memory access", "a card follows the host's pointer"),
]
"""Where both raise, in other words."""

SAME_WORDS = TORCH >= (2, 11)
"""PyTorch's own words for operands on two devices were others before."""

if TORCH > (2, 11):
    WORDS.append(Case("optimizer", "Adagrad", "fused=True", "PyTorch 2.11 has no fused Adagrad for CUDA"))
if TORCH >= (2, 14):
    WORDS.append(Case("made", "torch._scaled_mm_v2", "wrapper_CUDA_", "PyTorch 2.14 gave its wrapper another name"))
if TORCH < (2, 7):
    DIFFERENCES.append(
        Difference(
            "nanmean", "missing kernel for cuda", "PyTorch 2.6 calls one kernel by its name, past the dispatcher"
        )
    )
    by_itself = "PyTorch 2.6 compares its operands' devices itself, 2.11 leaves that to the iterator"
    VERDICTS += [Case(kind, "hypot", "", by_itself) for kind in ("made", "call", "inplace", "out", "backward")]
    VERDICTS.append(Case("made", "nn.functional.cosine_similarity", "", "PyTorch 2.6 has another formula"))
