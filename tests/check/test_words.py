"""What is said of each reason, word for word; LOCUS_UPDATE_GOLDEN=1 in the environment writes it anew."""

import os
import re
import sys
from importlib import metadata
from pathlib import Path

import pytest

HERE = Path(__file__).parent


@pytest.mark.skipif(
    not metadata.version("torch").startswith("2.13.") or sys.version_info < (3, 11),
    reason="the words tell lines of PyTorch 2.13, with carets",
)
def test_the_words_of_each_reason(program):
    result = program.run(HERE / "run_check.py", "check", "-v", "words.py", cwd=HERE)
    assert (result.code, result.stdout) == (1, "the end\n"), result.describe()
    said = result.stderr.replace(str(HERE) + os.sep, "")
    said = re.sub(r"\n *= note: [^=]*?(?:forkrunner|run_check)\.py[^=]*?(?=\n *=|\n\n)", "", said)
    said = re.sub(r"/\S*/torch/", "torch/", re.sub(r"\d+\.\d s\b", "0.0 s", said))
    golden = HERE / "words.txt"
    if os.environ.get("LOCUS_UPDATE_GOLDEN"):
        golden.write_text(said, encoding="utf-8")
    assert said == golden.read_text(encoding="utf-8")


def test_every_code_is_there():
    """LOC021 is for what no other reason fits."""
    codes = set(re.findall(r"^(?:error|warning)\[(LOC\d+)\]", (HERE / "words.txt").read_text(encoding="utf-8"), re.M))
    assert codes >= {f"LOC{number:03}" for number in range(1, 21)}


def test_it_fits_on_a_screen():
    lines = (HERE / "words.txt").read_text(encoding="utf-8").splitlines()
    assert max(map(len, lines)) <= 80 and not any(line.rstrip() != line for line in lines)
