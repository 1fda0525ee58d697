"""Operators on a simulated H200 take what they took on a real one: at the peak and afterwards, forward and backward.

The table is tests/data/memory/operators.tsv; what it says of an operator is within 2 % or 1 MiB.
"""

from __future__ import annotations

import csv
import json
import pathlib
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).parent
TABLE = HERE.parent / "data" / "memory" / "operators.tsv"
MIB = 1 << 20

UNLIKE_THE_CARD = {
    "conv3x3_f32": "cuDNN's heuristics take a kernel here that writes channels first, with no copy of the result",
    "conv7x7s2_f16": "cuDNN pads three channels to four here, and to eight in the other half precision",
    "convT_f32": "cuDNN sums the weight gradient in fewer parts here",
    "convT_f16": "cuDNN takes another kernel for the weight gradient here",
    "lstm_f32": "what stays after the backward pass is 2.4 % too much",
    "fft": "cuFFT's workspace in forward; PyTorch's backward copies more on the CPU",
    "ctc": "PyTorch's CUDA kernel keeps more than the CPU's between its passes",
}
"""Rows that the model misses, and why."""

EVERYDAY = [
    "mm_1k_f32", "mm_odd_bf16", "linear_bias_f32", "bmm_f32", "conv1x1_f32", "conv_dw_f32", "rms_norm_f32",
    "sdpa_dropout_bf16", "sdpa_mask_f32", "topk", "index_put_acc", "embedding_bag", "sum_all", "mse", "adamw_fused_f32",
    "einsum",
]  # fmt: skip
"""What takes little time."""


def table() -> dict[str, dict[str, int]]:
    """The card's rows: bytes by what was measured."""
    with TABLE.open(newline="") as file:
        rows = {row.pop("case"): row for row in csv.DictReader(file, delimiter="\t")}
    return {
        case: {key: int(value) for key, value in row.items() if value and key.partition("_")[0] in ("first", "second")}
        for case, row in rows.items()
    }


def simulated(names: list[str]) -> dict[str, dict[str, int]]:
    """The same on a simulated card."""
    command = [sys.executable, "-m", "locus", "run", "--card", "h200", str(HERE / "operators.py"), *names]
    done = subprocess.run(command, capture_output=True, text=True, timeout=3600, check=False)
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert not [row for row in rows if "error" in row]
    return {row.pop("case"): row for row in rows}


def differences(card: dict[str, int], simulation: dict[str, int]) -> list[str]:
    """What is not within 2 % or 1 MiB."""
    return [
        f"{key}: {simulation.get(key)} here, {value} on the card"
        for key, value in card.items()
        if abs(simulation.get(key, -1) - value) > max(abs(value) // 50, MIB)
    ]


def test_operators_take_what_they_take_on_a_card() -> None:
    card, simulation = table(), simulated(EVERYDAY)
    assert simulation.keys() == set(EVERYDAY)
    assert not {case: found for case in EVERYDAY if (found := differences(card[case], simulation[case]))}


@pytest.mark.slow
def test_all_operators_take_what_they_take_on_a_card() -> None:
    card = table()
    simulation = simulated(list(card))
    missed = {case: found for case in card if (found := differences(card[case], simulation[case]))}
    assert missed.keys() <= UNLIKE_THE_CARD.keys(), {
        case: missed[case] for case in missed.keys() - UNLIKE_THE_CARD.keys()
    }
    assert len(missed) <= 0.05 * len(card)
