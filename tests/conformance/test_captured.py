"""Every operator of PyTorch's database can be captured in a CUDA graph; its replay gives what the call gives, and no
finding but those of what a card refuses in a capture."""

import json
import pathlib
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent
NOT_REPLAYED = {"sparse.sampled_addmm", "sparse.mm", "to_sparse"}
"""Sparse tensors are not replayed."""


@pytest.mark.slow
def test_every_operator_is_captured_and_replayed(tmp_path):
    report = tmp_path / "report.json"
    command = [sys.executable, "-m", "locus", "check", "--json", str(report), str(HERE / "captured.py")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1800, check=False)
    result = json.loads(done.stdout.splitlines()[-1])
    assert result["captured"] >= 600, "the samples are no longer those of this PyTorch"
    wrong = {name: words for name, words in result["wrong"].items() if name not in NOT_REPLAYED}
    assert not wrong, wrong
    assert {finding["code"] for finding in json.loads(report.read_text())["findings"]} <= {"LOC037"}, done.stdout
