"""`locus memory`: the peak by line, which cards a program fits on, the largest value of an option that does."""

import json

import pytest

TRAINING = """
import argparse
import torch

parser = argparse.ArgumentParser()
parser.add_argument("--bs", type=int, default=1)
size = parser.parse_args().bs
kept = torch.empty(size << 30, dtype=torch.uint8, device="cuda")
"""


def memory(program, tmp_path, *words, text=TRAINING):
    (tmp_path / "train.py").write_text(text)
    result = program.call("locus.commands.cli:main", ["memory", *words], cwd=tmp_path, deadline=600)
    return result


def test_it_says_what_is_held_and_what_fits(program, tmp_path):
    result = memory(program, tmp_path, "--card", "h200,t4", "--json", "found.json", "train.py", "--bs", "20")
    assert result.code == 1, result.stderr  # not on every card
    assert "peak 20.0 GiB on cuda:0" in result.stdout
    assert 'train.py:8  kept = torch.empty(size << 30, dtype=torch.uint8, device="cuda")' in result.stdout
    rows = {line.split()[0]: line for line in result.stdout.splitlines() if " GiB  " in line and "fit" in line}
    assert "measured  fits, 119.8 GiB left" in rows["h200"]
    assert "derived   does not fit, 5.4 GiB short" in rows["t4"]
    found = json.loads((tmp_path / "found.json").read_text())
    assert found["cards"]["h200"]["fits"] == [""] and found["cards"]["t4"]["fits"] == []
    assert found["runs"][0]["peak"] == 20 << 30


@pytest.mark.slow
def test_it_finds_the_largest_value_that_fits(program, tmp_path):
    result = memory(program, tmp_path, "--card", "a100-40", "--batch", "bs=64,8,32", "train.py")
    assert result.code == 0, result.stderr
    row = next(line for line in result.stdout.splitlines() if line.strip().startswith("a100-40"))
    assert "--bs 32 fits (8: 8.0 GiB, 32: 32.0 GiB, 64: 64.0 GiB)" in row


CACHED = """
import torch
first = torch.empty(3 << 30, dtype=torch.uint8, device="cuda")
del first
second = torch.empty(4 << 30, dtype=torch.uint8, device="cuda")
del second
kept = torch.empty(22 << 30, dtype=torch.uint8, device="cuda")
"""


def test_what_the_allocator_gives_back_is_not_needed(program, tmp_path):
    result = memory(program, tmp_path, "--dry", "--card", "rtx4090,t4", "train.py", text=CACHED)
    assert result.code == 1, result.stderr
    rows = {line.split()[0]: line for line in result.stdout.splitlines() if "fit" in line}
    assert "fits, 1.6 GiB left when the allocator has given back what nobody uses" in rows["rtx4090"]
    assert "does not fit, 7.4 GiB short" in rows["t4"]


def test_what_is_in_use_in_part_is_not_given_back(program, tmp_path):
    pieces = (
        "import torch\n"
        "kept = []\n"
        "for _ in range(11):\n"
        "    whole = torch.empty(2 << 30, dtype=torch.uint8, device='cuda')\n"
        "    del whole\n"
        "    kept.append(torch.empty(1040 << 20, dtype=torch.uint8, device='cuda'))\n"
        "last = torch.empty(10 << 30, dtype=torch.uint8, device='cuda')\n"
    )
    result = memory(program, tmp_path, "--dry", "--card", "rtx4090", "train.py", text=pieces)
    assert result.code == 1 and "would be left at the peak, in pieces that are too small" in result.stdout, (
        result.stdout
    )


def test_a_flag_that_the_program_does_not_know(program, tmp_path):
    result = memory(program, tmp_path, "--dry", "--batch", "batch=1,2", "train.py")
    assert result.code == 2 and "nothing was measured: the program ended with exit status 2" in result.stderr


def test_a_program_that_fails_is_said_to(program, tmp_path):
    result = memory(program, tmp_path, "train.py", text=TRAINING + "raise RuntimeError('no')\n")
    assert result.code == 1
    assert "the program ended with RuntimeError: this is what it took until then" in result.stdout
    assert "not known: the program ended with RuntimeError" in result.stdout and "fits" not in result.stdout


def test_what_can_not_be_had_is_refused(program, tmp_path):
    result = memory(program, tmp_path, "--card", "gtx", "train.py")
    assert result.code == 2 and "--card gtx is not known" in result.stderr
    result = memory(program, tmp_path, "--batch", "bs", "train.py")
    assert result.code == 2 and "--batch bs is not an option with values" in result.stderr


STEPS = """
import argparse
import torch

parser = argparse.ArgumentParser()
parser.add_argument("--steps-of-mine", type=int, default=1)
model = torch.nn.Linear(8, 8).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(parser.parse_args().steps_of_mine):
    model(torch.ones(2, 8, device="cuda")).sum().backward()
    optimizer.step()
evaluation = torch.empty(1 << 30, dtype=torch.uint8, device="cuda")
"""


@pytest.mark.slow
def test_what_was_not_run_is_said_not_to_be_counted(program, tmp_path):
    later = "ended after 3 optimizer steps: what comes later, an evaluation say, is not in this (--steps N)"
    words = ("--dry", "--card", "h200", "--batch", "steps-of-mine=2,4", "--json", "found.json", "train.py")
    result = memory(program, tmp_path, *words, text=STEPS)
    found = json.loads((tmp_path / "found.json").read_text())
    assert [run["ended_after"] for run in found["runs"]] == [0, 3], result.stderr
    assert result.stdout.startswith("--steps-of-mine 2 on h200: peak 1.1 GiB on cuda:0"), result.stdout
    assert later.replace("ended", "ended with --steps-of-mine 4") in result.stdout
    result = memory(program, tmp_path, "--dry", "train.py", "--steps-of-mine", "4", text=STEPS)
    assert later in result.stdout and result.stdout.startswith("peak "), result.stdout


RESET = """
import torch
large = torch.empty(20 << 30, dtype=torch.uint8, device="cuda")
del large
torch.cuda.empty_cache()
torch.cuda.reset_peak_memory_stats()
print(torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved())
"""


def test_a_program_that_sets_its_peaks_back_needs_no_less(program, tmp_path):
    result = memory(program, tmp_path, "--card", "h200,t4", "--json", "found.json", "train.py", text=RESET)
    assert result.code == 1 and "0 0" in result.stderr, result.stderr
    assert "peak 20.0 GiB on cuda:0; 20.0 GiB held" in result.stdout
    assert "does not fit, 5.4 GiB short" in result.stdout
    runs = json.loads((tmp_path / "found.json").read_text())["runs"]
    assert runs and all(run["peak"] == run["reserved"] == 20 << 30 for run in runs)
