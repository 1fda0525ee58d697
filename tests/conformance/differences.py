"""Every difference between a simulated device and the CPU that is left in PyTorch's databases, with its reason.

The slow run fails when an entry no longer differs; any run fails when something else does.
"""

import re
from typing import NamedTuple


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
