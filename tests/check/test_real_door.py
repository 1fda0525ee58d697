"""The door of real devices (origins by address, composites and foreach taken apart there) finds what the other does."""

import json
from pathlib import Path

import pytest
from checker import check
from corpus import programs

NAMES = (
    "class_weights", "resume_adam_by_hand", "eye_targets", "scatter_one_hot", "causal_mask_gpt", "rnn_hidden_state",
    "trainer_nested_batch", "dropped_result_notebook", "embeddings_to_numpy", "packed_lengths",
)  # fmt: skip
PROGRAMS = [path for path in programs("wrong") if path.stem in NAMES]


def essence(findings):
    return sorted((f["code"], f["cause"]["line"], f["culprit"]["name"], f["culprit"]["device"]) for f in findings)


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_same_findings(program, path, tmp_path):
    report = tmp_path / "report.json"
    program.run(Path(__file__).parent / "run_as_real.py", str(path), str(report))
    assert essence(json.loads(report.read_text())["findings"]) == essence(check(program, path, devices=1).findings)


def test_the_ledger_has_transfers_and_time(program, tmp_path):
    script, report = tmp_path / "program.py", tmp_path / "report.json"
    script.write_text(
        "import torch\nx = torch.ones(1000)\ny = x.to('cuda')\nfor _ in range(3):\n    y.sum().item()\nz = y.cpu()\n"
    )
    program.run(Path(__file__).parent / "run_as_real.py", str(script), str(report)).ok()
    read = json.loads(report.read_text())
    transfers = {(t["line"], t["from"], t["to"]): t for t in read["transfers"]}
    assert transfers[3, "cpu", "cuda:0"]["bytes"] == transfers[6, "cuda:0", "cpu"]["bytes"] == 4000
    assert all(t["milliseconds"] > 0 for t in read["transfers"])
    assert {s["line"] for s in read["syncs"]} == {5, 6}


KINDS = """
import torch
from torch import nn

host = torch.randn(256, 512)
net = nn.Sequential(nn.Linear(512, 1024), nn.ReLU(), nn.Linear(1024, 512)).cuda()
net.register_buffer("scale", torch.ones(512, device="cuda"))
optimizer = torch.optim.Adam(net.parameters())
kept = []
for _ in range(10):
    x = host.to("cuda")
    noise = torch.randn(256, 512, device="cuda")
    kept.append((net(x + noise) * net.scale).detach())
    loss = net(x).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def test_memory_has_the_kinds_that_it_has_on_simulated_devices(program, tmp_path):
    """But for workspaces, of which a card's allocator does not say what they are."""
    script, report = tmp_path / "program.py", tmp_path / "report.json"
    script.write_text(KINDS)
    program.run(Path(__file__).parent / "run_as_real.py", str(script), str(report)).ok()
    real = json.loads(report.read_text())["memory"]["cuda:0"]
    simulated = check(program, script, devices=1).report["memory"]["cuda:0"]

    def kinds(memory):
        return {row["category"]: row["bytes"] for row in memory["by_category"] if row["category"] != "workspaces"}

    assert kinds(real) == kinds(simulated)
    assert set(kinds(real)) == {
        "parameters", "gradients", "optimizer state", "activations", "data", "kept by the program",
    }  # fmt: skip
    assert [(row["line"], row["bytes"], row["steps"]) for row in real["growing"]] == [
        (row["line"], row["bytes"], row["steps"]) for row in simulated["growing"]
    ]
