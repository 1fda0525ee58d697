"""The same program on the card and on a simulated device: the same exception from the same line, the same ledger."""

import re

import pytest
from checker import check
from corpus import needs_two_devices, programs
from realcheck import check_real

WRONG = [path for path in programs("wrong") if not needs_two_devices(path)]
LEDGER = """
import torch
from torch import nn

net = nn.Linear(256, 512).cuda()
batches = torch.randn(4, 64, 256)
host = torch.empty(64, 512, pin_memory=True)
for batch in batches:
    out = net(batch.cuda())
    out.sum().item()
    host.copy_(out.detach(), non_blocking=True)
    torch.cuda.current_stream().synchronize()
torch.cuda.synchronize()
print(torch.cuda.max_memory_allocated())
"""


def ending(path, result) -> tuple:
    """How a program ended: its exit code, the line of its own that raised, the exception."""
    lines = re.findall(rf'File ".*{re.escape(path.name)}", line (\d+)', result.stderr)
    last = result.stderr.rstrip().rpartition("\n")[2] if lines else ""
    kinds = re.findall(r"^(\w[\w.]*(?:Error|Exception)): (.*)", result.stderr, re.MULTILINE)
    return result.code, lines[-1] if lines else "", kinds[-1] if kinds else last


@pytest.mark.parametrize("path", WRONG, ids=lambda path: path.stem)
def test_same_exception(program, path):
    card, simulated = program.run(path), program.run(path, simulate=1)
    assert ending(path, card) == ending(path, simulated), card.describe()


def test_the_ledger(program, tmp_path):
    path = tmp_path / "train.py"
    path.write_text(LEDGER)
    real, simulated = check_real(program, path), check(program, path, devices=1)

    def counted(entries, *keys):
        return sorted(tuple(entry[key] for key in ("line", "count", *keys)) for entry in entries)

    crossings = ("from", "to", "bytes", "note")
    assert counted(real.report["transfers"], *crossings) == counted(simulated.report["transfers"], *crossings)
    assert counted(real.report["syncs"], "kind") == counted(simulated.report["syncs"], "kind")
    assert all(entry["milliseconds"] > 0 for entry in real.report["transfers"] + real.report["syncs"])
    memory = real.report["memory"]["cuda:0"]
    assert memory["peak"] == int(real.stdout)
    # All of it belongs to lines: the model, the batch and its result, and what cuBLAS took at the first product.
    assert sum(entry["bytes"] for entry in memory["by_line"]) == memory["peak"]
    assert sum(entry["bytes"] for entry in memory["by_line"] if entry["line"] == 5) == (256 * 512 + 512) * 4
