"""`locus memory --nproc N`: what each rank holds, and whether its card has room for that."""

import json
import subprocess
import sys

import pytest
from locus.commands import memory_ranks
from locus.process.cards import CARDS

LOCUS = [sys.executable, "-m", "locus"]

UNEVEN = """
import os
import torch
import torch.distributed as dist

dist.init_process_group("nccl")
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
last = dist.get_rank() == dist.get_world_size() - 1
kept = torch.empty((20 if last else 2) << 30, dtype=torch.uint8, device="cuda")
dist.all_reduce(torch.ones(1, device="cuda"))
"""


def memory(tmp_path, text, *words):
    (tmp_path / "train.py").write_text(text)
    return subprocess.run(
        [*LOCUS, "memory", *words, "--json", "found.json", "train.py"],
        cwd=tmp_path, timeout=600, capture_output=True, text=True,
    )  # fmt: skip


@pytest.mark.slow
def test_each_rank_has_its_line_and_the_fullest_decides(tmp_path):
    done = memory(tmp_path, UNEVEN, "--dry", "--nproc", "4", "--card", "h200,t4")
    assert done.returncode == 1, done.stdout + done.stderr  # not on every card
    assert done.stdout.startswith("peak 20.0 GiB on cuda:3 of rank 3; 20.0 GiB held by PyTorch's allocator\n")
    rows = [line.split() for line in done.stdout.splitlines() if line.startswith("  rank")]
    assert rows == [
        ["rank", "3", "20.0", "GiB", "20.0", "GiB", "held"],
        ["ranks", "0–2", "2.0", "GiB", "2.0", "GiB", "held"],
    ]
    cards = {line.split()[0]: line for line in done.stdout.splitlines() if "rank 3" in line and "fit" in line}
    assert "fits on each rank, 119.8 GiB left on rank 3" in cards["h200"]
    assert "does not fit on 1 of 4 ranks, 5.4 GiB short on rank 3" in cards["t4"]
    found = json.loads((tmp_path / "found.json").read_text())
    assert [each["peak"] >> 30 for each in found["runs"][0]["ranks"]] == [2, 2, 2, 20]


def test_the_ranks_that_stand_for_all_are_told_with_their_roles(tmp_path):
    done = memory(tmp_path, UNEVEN, "--dry", "--nproc", "64", "--ranks", "auto", "--card", "h200")
    assert done.returncode == 0, done.stdout + done.stderr
    rows = [" ".join(line.split()) for line in done.stdout.splitlines() if line.startswith("  rank ")]
    assert rows == ["rank 63 20.0 GiB 20.0 GiB held last of all", "rank 0 2.0 GiB 2.0 GiB held first of all"]


def test_with_values_and_the_lines_are_those_of_the_fullest(tmp_path):
    small = UNEVEN.replace("20 if", "2 if").replace("else 2", "else 1").replace("<< 30", "<< 22")
    done = memory(tmp_path, small, "--nproc", "2", "--card", "t4")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("peak 8.0 MiB on cuda:1 of rank 1;")
    assert "at the peak of rank 1, by the line that allocated it" in done.stdout
    assert "fits on each rank, " in done.stdout


def test_ranks_on_other_machines_are_refused(tmp_path):
    done = memory(tmp_path, UNEVEN, "--nproc", "2", "--node-rank", "0")
    assert done.returncode == 2 and "memory is looked at on one machine" in done.stderr
    assert memory(tmp_path, UNEVEN, "--nproc", "2", "--ranks", "auto").returncode == 2  # only dry


def ranks(*peaks, device="cuda:0", reserved=None):
    return [memory_ranks.Rank(n, "", device, peak, reserved or peak) for n, peak in enumerate(peaks)]


def test_what_one_card_takes_of_several_ranks_is_added_up():
    assert memory_ranks.together(ranks(3 << 30, 2 << 30), per_host=2) == [
        "  ranks 0–1 use the same card, cuda:0: 5.0 GiB together at most"
    ]
    assert memory_ranks.together(ranks(3 << 30, 2 << 30), per_host=1) == []


def test_verdicts():
    card, gib = "t4", 1 << 30
    assert memory_ranks.verdict(ranks(20 * gib, 20 * gib), card, False).startswith("does not fit on any rank, ")
    tight = ranks(2 * gib, 14 * gib, reserved=15 * gib)
    words = memory_ranks.verdict(tight, card, False)
    left = memory_ranks.size(CARDS[card].memory - 14 * gib)
    assert (
        words == f"does not fit on any rank: on rank 1 {left} would be left at the peak, in pieces that are too small"
    )
    assert "when the allocator has given back" in memory_ranks.verdict(tight, card, True)


def test_many_ranks_are_not_all_listed():
    rows = memory_ranks.rows(ranks(*(n << 20 for n in range(100))))
    assert len(rows) == 17 and rows[0].split()[:2] == ["rank", "99"] and rows[-1] == "  84 more, 83.0 MiB at most"
