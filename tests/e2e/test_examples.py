"""The examples: the right one trains; the broken one stops at its first mistake, and each of its five is one."""

import ast
import difflib
import re
from pathlib import Path

EXAMPLES = Path(__file__).parent.parent.parent / "examples"


def test_the_right_one_trains(program):
    result = program.run(EXAMPLES / "train_two_gpus.py", simulate=2).ok()
    losses = [float(x) for x in re.findall(r"loss ([\d.]+)", result.stdout)]
    assert len(losses) == 3 and losses[-1] < losses[0] and result.stderr == ""


def test_the_right_one_needs_two_devices(program):
    result = program.run(EXAMPLES / "train_two_gpus.py", simulate=1)
    assert result.code == 1 and "CUDA error: invalid device ordinal" in result.stderr


def test_the_broken_one_stops(program):
    result = program.run(EXAMPLES / "broken_training.py", simulate=2)
    assert result.code == 1 and "Expected all tensors to be on the same device" in result.stderr, result.describe()


def mistakes():
    """Pairs (right line, broken line), in the order of the file."""
    right, broken = ((EXAMPLES / name).read_text().splitlines() for name in ("train_two_gpus.py", "broken_training.py"))
    assert len(right) == len(broken)
    return [(number, r, b) for number, (r, b) in enumerate(zip(right, broken)) if r != b and number > 0]


def test_each_mistake_is_one_by_itself(program, tmp_path):
    right = (EXAMPLES / "train_two_gpus.py").read_text().splitlines()
    assert len(mistakes()) == 5
    for number, _, broken in mistakes():
        lines = [*right[:number], broken, *right[number + 1 :]]
        ast.parse("\n".join(lines))
        result = program.run_source("\n".join(lines), simulate=2)
        assert result.code == 1 and "same device" in result.stderr, f"{broken}\n{result.describe()}"


def test_the_two_differ_in_the_mistakes_only():
    right, broken = ((EXAMPLES / name).read_text() for name in ("train_two_gpus.py", "broken_training.py"))
    assert difflib.SequenceMatcher(None, right, broken).ratio() > 0.95
