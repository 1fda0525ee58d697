"""Trainings on a simulated H200 take what they took on a real one: small ones with values, those of real size dry."""

from __future__ import annotations

import importlib.util
import json
import os
import pathlib
import statistics
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).parent
CARD = HERE.parent / "data" / "memory" / "trainings.jsonl"
SECOND = CARD.with_name("trainings_second.jsonl")
PLAIN = ("unet_256", "lstm_lm", "naive_attention")
"""Those that need PyTorch alone; the others, transformers and torchvision."""


UNLIKE_THE_CARD = {"regnet": "3.2 % too little, at the start of the backward pass; where that comes from is not known"}
"""Trainings of the second set whose peak is not within 3 %."""

NEEDED = ("transformers", "torchvision")


def needs_libraries() -> None:
    """Skips where what has the models is not installed."""
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        pytest.skip(f"needs {' and '.join(missing)}")


def run(*words: str) -> list[dict[str, int | str]]:
    """A row for each training."""
    done = subprocess.run(
        [sys.executable, "-m", "locus", "run", "--card", "h200", *words],
        capture_output=True, text=True, timeout=3600, check=False, cwd=HERE,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert rows and not [row for row in rows if "error" in row], rows
    return rows


@pytest.mark.slow
def test_small_trainings_with_values() -> None:
    card = {  # allocated for the model, after three steps, at the peak
        "mlp": (23_298_560, 161_351_680, 184_650_752),
        "convolutions": (3_866_112, 80_132_608, 254_027_264),
        "autoencoder": (268_288, 804_864, 43_662_848),
    }
    rows = {row["training"]: row for row in run("trainings.py", *card)}
    for training, (model, after, peak) in card.items():
        row = rows[training]
        assert (row["model"], row["after"]) == (model, after)
        assert row["peak"] == pytest.approx(peak, rel=0.03), training
    assert rows["mlp"]["peak"] == pytest.approx(184_650_752, abs=512)
    assert rows["mlp"]["reserved"] == 197_132_288


def errors(names: list[str]) -> dict[str, float]:
    """By how much the peak is off, each within its bar; the reserved memory is looked at here."""
    card = {row["case"]: row for row in map(json.loads, CARD.read_text().splitlines())}
    off = {}
    for row in run("--dry", "large_trainings.py", *names):
        truth = card[row["case"]]
        assert row["model"] == pytest.approx(truth["model"], rel=0.005)
        off[row["case"]] = abs(row["peak"] / truth["peak"] - 1)
        assert off[row["case"]] <= 0.02, row
        assert row["reserved"] == pytest.approx(truth["reserved"], rel=0.06), row
    return off


def test_trainings_of_real_size_dry() -> None:
    assert errors(list(PLAIN)).keys() == set(PLAIN)


@pytest.mark.slow
def test_all_trainings_of_real_size_dry() -> None:
    needs_libraries()
    names = [json.loads(line)["case"] for line in CARD.read_text().splitlines()]
    off = errors(names)
    assert len(off) == len(names) == 14 and statistics.median(off.values()) <= 0.01


@pytest.mark.slow
def test_the_second_set_of_trainings_dry() -> None:
    needs_libraries()
    card = {row["case"]: row for row in map(json.loads, SECOND.read_text().splitlines())}
    off = {}
    for row in run("--dry", "second_trainings.py"):
        truth = card[row["case"]]
        assert row["model"] == pytest.approx(truth["model"], abs=512)  # that of the right model
        off[row["case"]] = abs(row["peak"] / truth["peak"] - 1)
        assert row["reserved"] == pytest.approx(truth["reserved"], rel=0.1), row
    assert len(off) == 14 and statistics.median(off.values()) <= 0.01
    assert {case for case, error in off.items() if error > 0.03} <= UNLIKE_THE_CARD.keys(), off


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    ["decoder_muon", "generation", "experts", "tables", "residual_f16", "equation", "stacked_f32", "sound", "waves"],
)
def test_every_byte_of_the_peak_has_a_line_and_a_category(tmp_path: pathlib.Path, name: str) -> None:
    report = tmp_path / "report.json"
    code = f"import more_trainings; more_trainings.measure({name!r})"
    command = [sys.executable, "-m", "locus", "check", "--dry", "--card", "h200", "-o", str(report), "--format", "json"]
    paths = {**os.environ, "PYTHONPATH": str(HERE)}
    subprocess.run([*command, "-c", code], capture_output=True, timeout=600, check=True, cwd=HERE, env=paths)
    memory = json.loads(report.read_text())["memory"]["cuda:0"]
    placed = sum(row["bytes"] for row in memory["by_line"] if pathlib.Path(row["file"]).parent == HERE)
    assert sum(row["bytes"] for row in memory["by_category"]) == memory["peak"]
    assert placed >= 0.99 * memory["peak"]


@pytest.mark.slow
def test_trainings_that_no_card_has_seen_end_and_repeat_themselves() -> None:
    rows = run("--dry", "more_trainings.py")
    assert len(rows) == 26
    for row in rows:
        second, third = (step["peak"] for step in row["steps"][1:])
        assert row["model"] < row["peak"] <= row["reserved"]
        assert third == pytest.approx(second, rel=0.01), row
