"""Cards by name: the list that the command line has, what a simulated card says of itself, what is refused."""

from __future__ import annotations

import pathlib
import subprocess
import sys

import pytest
from locus.errors import UsageError
from locus.process.cards import CARDS, DEFAULT_CARD
from locus.process.simulation import check_options, options_from_environment

ROOT = pathlib.Path(__file__).resolve().parents[2]


def test_the_list_is_made_of_the_table() -> None:
    made = subprocess.run([sys.executable, str(ROOT / "tools" / "make_cards.py"), "--check"], check=False)
    assert made.returncode == 0, "run tools/make_cards.py"


def test_a_card_brings_its_memory() -> None:
    assert check_options(1, card="h200").memory_bytes == CARDS["h200"].memory
    assert check_options(1, card="T4").card == "t4"
    assert check_options(1, "24GiB", card="h200").memory_bytes == 24 << 30
    assert check_options(1).card == DEFAULT_CARD and check_options(1).memory_bytes == 80 << 30


def test_cards_that_nobody_knows_are_refused() -> None:
    with pytest.raises(UsageError, match=r"gtx1080.*h200"):
        check_options(1, card="gtx1080")
    with pytest.raises(UsageError, match="LOCUS_CARD"):
        options_from_environment({"LOCUS_SIMULATE": "cuda:1", "LOCUS_CARD": "none"})


def test_the_environment_hands_the_card_on() -> None:
    options = check_options(2, card="l4")
    assert options_from_environment(options.to_environment()) == options


def test_a_simulated_card_says_what_it_is() -> None:
    code = "import torch; p = torch.cuda.get_device_properties(0); print(p.name, p.major, p.minor, p.total_memory)"
    command = [sys.executable, "-m", "locus", "run", "--card", "a100-40", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.stdout.split("\n")[0] == f"NVIDIA A100-SXM4-40GB 8 0 {CARDS['a100-40'].memory}", done.stderr
