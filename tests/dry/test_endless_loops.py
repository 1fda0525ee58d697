"""Loops of dry runs: one that waits for a value that does not come is ended, with its line; no other is."""

import pytest
from dry_running import locus


def test_a_loop_that_waits_for_a_value_is_noticed(tmp_path):
    source = """
        import torch
        x = torch.randn(300, 300, device="cuda")
        while not (x.norm() < 1e-3):
            x = x * 0.5
        print("converged")
    """
    _, said = locus(tmp_path, "check", "--dry", source=source, status=2)
    assert "program.py:4 has read 10000 unknown values" in said.replace("\n", " ").replace("  ", " ")
    assert "locus.known" in said and "no placement mistakes" not in said
    (tmp_path / "pyproject.toml").write_text('[tool.locus.dry-answers]\n"program.py:4" = 1\n')
    out, _ = locus(tmp_path, "check", "--dry", source=source, status=0)
    assert out.strip() == "converged"


GRADIENTS = """
    import torch
    A, b = torch.randn(300, 300, device="cuda"), torch.randn(300, 1, device="cuda")
    x, r = torch.zeros_like(b), b
    while True:
        length = (r * r).sum().item() / (r * (A @ r)).sum().item()
        x, r = x + length * r, r - length * (A @ r)
        if r.norm() < 1e-9:
            break
"""
EMPTIED = """
    import itertools, torch
    active = torch.randn(300_000, device="cuda")
    for round in itertools.count():
        active = active[active > 0.5]
        if active.numel() == 0:
            break
"""
FINITE = """
    import torch
    x = torch.randn(300, 300, device="cuda")
    def generate(length):
        made = []
        while len(made) < length:
            made.append(x.argmax().item())
        return made
    total = sum(x.sum().item() for _ in range(3000))
    for _ in range(11_000):
        total += x.sum().item()
    for _ in range(300):
        total += len(generate(64))
    print("end")
"""


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (GRADIENTS, "program.py:6 has read 10000 unknown values without an optimizer step"),
        (EMPTIED, "program.py:5 has made up 10000 shapes without an optimizer step"),
    ],
)
def test_loops_that_wait_in_other_ways_are_noticed(tmp_path, source, words):
    """Several lines read in turn; the shape never gets where it is to get."""
    _, said = locus(tmp_path, "check", "--dry", source=source, status=2)
    assert words in " ".join(said.split())


def test_loops_that_end_are_not_stopped(tmp_path):
    """However much they read: those over a range, and one that waits, but is another each time."""
    out, _ = locus(tmp_path, "check", "--dry", source=FINITE, status=0)
    assert out.strip() == "end"
