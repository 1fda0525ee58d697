"""Policies inside a checked program."""

from checker import check_source

PROGRAM = """\
import torch
import locus

a = torch.ones(3, device="cuda")
print(locus.policy)
with locus.policy("move"):
    a + torch.ones(3)
with locus.policy("raise"):
    try:
        for _ in range(2):
            a + torch.ones(3)
    except RuntimeError:
        print("raised")
with locus.policy("warn"):
    a * torch.ones(3)  # found
a - torch.ones(3)  # found
"""


def test_what_is_found(program):
    checked = check_source(program, PROGRAM)
    assert checked.stdout.splitlines()[1:] == ["raised"], checked.result.describe()
    lines = [PROGRAM.splitlines()[finding["cause"]["line"] - 1] for finding in checked.findings]
    assert lines == ["    a * torch.ones(3)  # found", "a - torch.ones(3)  # found"]
    assert checked.result.stderr.count("PlacementWarning: error[LOC004]") == 1
